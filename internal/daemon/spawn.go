package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// LogFile is where the daemon of the store in dir logs.
func LogFile(dir string) string { return filepath.Join(dir, "daemon.log") }

// ready is what a daemon that was started tells its starter, once, when it serves or gives up.
type ready struct {
	PID    int        `json:"pid"`
	Failed *ErrorBody `json:"failed,omitempty"`
}

// endPatience is how long a daemon that was told to end has for it.
const endPatience = 5 * time.Second

// ReadyFD is the descriptor on which a started daemon reports.
const ReadyFD = 3

// Spawn starts exe with args as a daemon of its own session, waits until it serves, and returns its pid. If it gives up,
// the error is its own and carries its exit code.
func Spawn(ctx context.Context, dir, exe string, args ...string) (int, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return 0, fmt.Errorf("start the daemon: %w", err)
	}
	defer r.Close()
	log, err := os.OpenFile(LogFile(dir), os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		_ = w.Close()
		return 0, fmt.Errorf("start the daemon: open its log: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(exe, args...)
	cmd.ExtraFiles = []*os.File{w}
	if own, err := outside(exe); err != nil {
		_ = w.Close()
		return 0, fmt.Errorf("start the daemon: %w", err)
	} else if own != nil {
		defer own.Close()
		cmd.ExtraFiles = append(cmd.ExtraFiles, own)
		cmd.Path = fmt.Sprintf("/proc/self/fd/%d", ReadyFD+1)
	}
	cmd.Dir = "/" // it must not keep a file system busy, least of all one of its own
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	for _, kv := range os.Environ() {
		// The daemon is nobody's session, whoever starts it.
		if !strings.HasPrefix(kv, "WSFS_SESSION=") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	err = cmd.Start()
	_ = w.Close()
	if err != nil {
		return 0, fmt.Errorf("start the daemon: %w", err)
	}
	pid := cmd.Process.Pid
	said := make(chan error, 1)
	go func() {
		var msg ready
		err := json.NewDecoder(r).Decode(&msg)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			err = fmt.Errorf("start the daemon: it ended without a word; the end of %s may say why", LogFile(dir))
		case err == nil && msg.Failed != nil:
			err = msg.Failed.err()
		case err == nil:
			pid = msg.PID // which a keeper may have started
		}
		said <- err
	}()
	select {
	case err = <-said:
	case <-ctx.Done():
		_ = cmd.Process.Signal(syscall.SIGTERM) // a keeper ends its daemon
		time.AfterFunc(endPatience, func() { _ = cmd.Process.Kill() })
		err = ctx.Err()
	}
	if err != nil {
		_ = cmd.Wait() // reap it; it has given up
		return 0, err
	}
	return pid, cmd.Process.Release()
}

// outside returns a copy of the program in memory if it lies on a mount of ours, else nil: a daemon whose own code has
// to come through a mount that it serves would wait for itself at the first page that is not in memory.
func outside(exe string) (*os.File, error) {
	real, err := os.Readlink("/proc/self/exe")
	if exe != "/proc/self/exe" || err != nil {
		if real, err = filepath.EvalSymlinks(exe); err != nil {
			return nil, err
		}
	}
	mounts, err := Mounts()
	if err != nil {
		return nil, err
	}
	if m := MountOf(mounts, real); m == nil || !m.Ours() {
		return nil, nil
	}
	src, err := os.Open(exe)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	fd, err := unix.MemfdCreate("wsfs", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("copy the program off the mount it is on: %w", err)
	}
	f := os.NewFile(uintptr(fd), "wsfs")
	defer f.Close() // what is open for writing cannot be executed
	if _, err := io.Copy(f, src); err != nil {
		return nil, fmt.Errorf("copy the program off the mount it is on: %w", err)
	}
	return os.Open(fmt.Sprintf("/proc/self/fd/%d", fd))
}

// Report tells the starter on its pipe how the start went. w is closed.
func Report(w io.WriteCloser, err error) {
	msg := ready{PID: os.Getpid()}
	if err != nil {
		body := errorBody(err)
		msg.Failed = &body
	}
	_ = json.NewEncoder(w).Encode(msg) // a starter that went away needs no answer
	_ = w.Close()
}
