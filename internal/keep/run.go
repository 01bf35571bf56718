package keep

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Options of Run.
type Options struct {
	// Exe and Args start a daemon, which finds the keeper at descriptor FD.
	Exe  string
	Args []string
	// Ready is descriptor 3 of the first daemon; those after it get /dev/null.
	Ready *os.File
	// Log is called for what people should know.
	Log func(level slog.Level, msg string, args ...any)
	// Tries is how many daemons may die before the keeper gives up; one more is granted for each Every that passes.
	Tries int
	Every time.Duration
	// Pause is the longest before a start that follows another quickly.
	Pause time.Duration
}

const (
	// defaultTries and defaultEvery: a daemon that dies once in a while is started again for ever, and one that cannot
	// live is given up after some seconds.
	defaultTries = 10
	defaultEvery = 10 * time.Second
	// The pause before the second of two starts that follow each other quickly; it doubles up to the longest.
	firstPause   = 50 * time.Millisecond
	longestPause = 2 * time.Second
	// livedLong: a daemon that ran for that long has no pause after it.
	livedLong = 5 * time.Second
)

// keeper is the state of Run.
type keeper struct {
	o       Options
	entries []Entry
	starts  int
	left    float64 // starts that may still be
	since   time.Time
	bye     bool
	next    string // what to start instead
	before  string // what was replaced, until its successor has shown that it can live
}

// Run starts daemons until one ends because it should, or too many die, and returns the exit code of the last.
func Run(o Options) int {
	if o.Tries <= 0 {
		o.Tries = defaultTries
	}
	if o.Every <= 0 {
		o.Every = defaultEvery
	}
	if o.Pause <= 0 {
		o.Pause = longestPause
	}
	k := &keeper{o: o, left: float64(o.Tries), since: time.Now()}
	told := make(chan os.Signal, 8)
	signal.Ignore(syscall.SIGHUP, syscall.SIGPIPE)
	signal.Notify(told, syscall.SIGTERM, syscall.SIGINT)
	pause := time.Duration(0)
	for {
		began := time.Now()
		code, err := k.one(told)
		replaced := k.next != ""
		switch {
		case replaced:
			k.before, k.o.Exe, k.next = k.o.Exe, k.next, ""
			k.o.Log(slog.LevelInfo, "the daemon makes room: another program is started", "program", k.o.Exe)
			continue
		case k.before != "":
			k.o.Log(slog.LevelError, "the other program cannot be the daemon: the one before is started again", "program", k.o.Exe, "ended", err)
			k.o.Exe, k.before = k.before, ""
			continue
		case k.bye, len(k.entries) == 0:
			k.drop("")
			return code
		}
		if time.Since(began) > livedLong {
			pause = 0
		}
		if !k.granted() {
			k.o.Log(slog.LevelError, "the daemon dies again and again: its mounts are given up; `wsfs mount` brings them back",
				"starts", k.starts, "ended", err)
			k.drop("")
			return code
		}
		k.o.Log(slog.LevelWarn, "the daemon died: it is started again, and its mounts go on", "starts", k.starts, "ended", err,
			"pause", pause.String())
		if !wait(pause, told) {
			k.drop("")
			return code
		}
		pause = min(max(2*pause, firstPause), k.o.Pause)
	}
}

// wait reports whether nobody told the keeper to end meanwhile.
func wait(d time.Duration, told <-chan os.Signal) bool {
	select {
	case <-told:
		return false
	case <-time.After(d):
		return true
	}
}

// granted reports whether one more start is.
func (k *keeper) granted() bool {
	now := time.Now()
	k.left = min(k.left+now.Sub(k.since).Seconds()/k.o.Every.Seconds(), float64(k.o.Tries))
	k.since = now
	if k.left < 1 {
		return false
	}
	k.left--
	return true
}

// one starts a daemon, serves it until it has ended, and returns its exit code and how it ended.
func (k *keeper) one(told <-chan os.Signal) (int, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 1, fmt.Errorf("make a socket pair: %w", err)
	}
	mine, theirs := pair[0], file(pair[1])
	defer unix.Close(mine)
	cmd := exec.Command(k.o.Exe, k.o.Args...)
	ready := k.o.Ready
	if ready == nil {
		if ready, err = os.OpenFile(os.DevNull, os.O_WRONLY, 0); err != nil {
			_ = theirs.Close()
			return 1, err
		}
	}
	k.o.Ready = nil
	cmd.ExtraFiles = []*os.File{ready, theirs}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	err = cmd.Start()
	_ = ready.Close()
	_ = theirs.Close()
	if err != nil {
		return 1, fmt.Errorf("start the daemon: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		for {
			select {
			case s := <-told:
				_ = cmd.Process.Signal(s)
			case <-ended:
				return
			}
		}
	}()
	k.bye = false
	if err := k.hand(mine); err == nil {
		k.serve(mine) // until the daemon's end is closed: by its death, or by itself
	}
	k.starts++
	err = cmd.Wait()
	close(ended)
	code := cmd.ProcessState.ExitCode()
	if code < 0 {
		code = 128 + 9
	}
	if err == nil {
		err = errors.New("exit status 0")
	}
	return code, err
}

// hand tells a new daemon what there is.
func (k *keeper) hand(sock int) error {
	if err := send(sock, &message{Op: "start", Start: k.starts, Count: len(k.entries)}); err != nil {
		return err
	}
	for _, e := range k.entries {
		if err := send(sock, &message{Op: "entry", Name: e.Name, Data: e.Data}, e.Files...); err != nil {
			return err
		}
	}
	return nil
}

// serve answers the daemon until it is gone.
func (k *keeper) serve(sock int) {
	buf := make([]byte, maxMessage)
	for {
		m, files, err := receive(sock, buf)
		if err != nil {
			return
		}
		r := message{Op: "done"}
		e := Entry{m.Name, m.Data, files}
		switch m.Op {
		case "put":
			k.put(e)
			e.Files, k.before = nil, ""
		case "drop":
			k.drop(m.Name)
		case "bye":
			k.bye = true
		case "next":
			k.next = m.Name
		default:
			r.Error = "the keeper does not know " + m.Op + ": it is of an older version"
		}
		e.Close()
		if err := send(sock, &r); err != nil {
			return
		}
	}
}

func (k *keeper) put(e Entry) {
	if i := slices.IndexFunc(k.entries, func(o Entry) bool { return o.Name == e.Name }); i >= 0 {
		k.entries[i].Close()
		k.entries[i] = e
		return
	}
	k.entries = append(k.entries, e)
}

// drop closes an entry, or all for "".
func (k *keeper) drop(name string) {
	k.entries = slices.DeleteFunc(k.entries, func(e Entry) bool {
		if name != "" && e.Name != name {
			return false
		}
		e.Close()
		return true
	})
}
