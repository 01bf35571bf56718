package fuse

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// echoLimit bounds the operations of one echo. Beyond it watchers would lose events anyway: the kernel keeps 16,384 for
	// each of them (fs.inotify.max_queued_events).
	echoLimit = 20000
	// echoTime bounds how long a rollback waits for its watchers to be told, echoGrace how long its helper has to notice.
	echoTime  = time.Second
	echoGrace = 500 * time.Millisecond
)

// An echo tells inotify what happened behind the kernel: notifications raise no event, and a server must not work on its
// own mount, since it could wait for itself. So another process repeats what happened on the mount, where echoFS answers
// it: the name that re-appeared is created, and the answer is the node that is there.
//
// The helper cannot hang its mount's server: it has a deadline, is killed by its id, and nothing waits for it that a
// request of its own could wait for. It is recognised by its thread until it has ended and not been reaped, so that
// nothing it asked is ever taken for a real change, and nobody else for it.

// echoProcess is one run of the helper program.
type echoProcess struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	pipe   io.Closer // what out reads
	stderr bytes.Buffer
	kill   *time.Timer
}

// echo performs a plan on the directory root of the mount and returns how many operations failed or had no time.
func (m *Mount) echo(run *echoRun, root string) (failed int, err error) {
	dev := uint64(unix.Mkdev(0, m.minor))
	p, err := m.takeEcho()
	if err != nil {
		return 0, fmt.Errorf("start the echo helper: %w", err)
	}
	defer p.kill.Stop()
	thread, err := p.thread()
	if err == nil {
		m.echoes.run.Store(run)
		m.echoes.thread.Store(thread)
		go p.send(root, dev, run.ops)
		failed, err = p.report(run.ops, m.log)
	}
	_ = p.in.Close() // it ends, whatever it does
	if eerr := m.endEcho(p); err == nil {
		err = eerr
	}
	if said := strings.TrimSpace(p.stderr.String()); said != "" {
		err = fmt.Errorf("%w: %s", errors.Join(err, errEchoFailed), said)
	}
	return failed, err
}

var errEchoFailed = errors.New("the echo helper failed")

func (m *Mount) startEcho() (*echoProcess, error) {
	p := &echoProcess{cmd: exec.Command(m.opts.EchoHelper[0], m.opts.EchoHelper[1:]...)}
	p.cmd.Dir = "/" // it must keep no mount busy
	p.cmd.Stderr = &p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt at the terminal is for its server
	in, err1 := p.cmd.StdinPipe()
	out, err2 := p.cmd.StdoutPipe()
	if err := errors.Join(err1, err2, p.cmd.Start()); err != nil {
		return nil, err
	}
	p.in, p.out, p.pipe = in, bufio.NewReader(out), out
	return p, nil
}

// arm kills the process if nobody stops that in time.
func (p *echoProcess) arm(after time.Duration) {
	p.kill = time.AfterFunc(after, func() {
		_ = unix.Kill(-p.cmd.Process.Pid, unix.SIGKILL) // its group, should it have made something
		_ = p.pipe.Close()
	})
}

// endEcho waits for the end of the process; only then its thread is forgotten, and only after that its id is free.
func (m *Mount) endEcho(p *echoProcess) error {
	end := make(chan error, 1)
	go func() {
		for {
			err := unix.Waitid(unix.P_PID, p.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
			if !errors.Is(err, syscall.EINTR) {
				break
			}
		}
		m.echoes.thread.Store(0)
		m.echoes.run.Store(nil)
		end <- p.cmd.Wait()
	}()
	select {
	case err := <-end:
		return err
	case <-time.After(echoTime + 2*echoGrace):
		return fmt.Errorf("the echo helper (process %d) does not end", p.cmd.Process.Pid)
	}
}

// thread reads the first line.
func (p *echoProcess) thread() (uint32, error) {
	line, err := p.out.ReadString('\n')
	if err != nil {
		return 0, fmt.Errorf("the echo helper says nothing: %w", err)
	}
	v, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimPrefix(line, "thread "), "\n"), 10, 32)
	if err != nil || v == 0 {
		return 0, fmt.Errorf("the echo helper says %q and not its thread", line)
	}
	return uint32(v), nil
}

// send writes the head and all operations. A helper that ended early breaks the pipe, and says why itself.
func (p *echoProcess) send(root string, dev uint64, ops []echoOp) {
	b := make([]byte, 0, 64*(len(ops)+2))
	for _, s := range []string{root, strconv.FormatUint(dev, 10), strconv.FormatInt(int64(echoTime), 10)} {
		b = append(append(b, s...), 0)
	}
	for i := range ops {
		b = ops[i].appendTo(b)
	}
	_, _ = p.in.Write(b)
	_ = p.in.Close()
}

// report reads what failed, and returns how many operations that were or had no time.
func (p *echoProcess) report(ops []echoOp, log *slog.Logger) (failed int, err error) {
	const logged = 10
	for {
		line, err := p.out.ReadString('\n')
		if err != nil {
			return 0, fmt.Errorf("%w before it was done", errEchoFailed)
		}
		var i, errno int
		if c, _ := fmt.Sscanf(line, "failed %d %d\n", &i, &errno); c == 2 && i >= 0 && i < len(ops) {
			if failed++; failed <= logged {
				// Somebody was faster, or may not: a file that no one may write, a directory of another user.
				log.Debug("watchers were not told of one change", "op", string(rune(ops[i].kind)), "dir", ops[i].dir, "name", ops[i].name,
					"to", join(ops[i].toDir, ops[i].to), "err", syscall.Errno(errno))
			}
			continue
		}
		if c, _ := fmt.Sscanf(line, "done %d\n", &i); c != 1 || i > len(ops) {
			return 0, fmt.Errorf("%w: it says %q", errEchoFailed, line)
		}
		return failed + len(ops) - i, nil
	}
}
