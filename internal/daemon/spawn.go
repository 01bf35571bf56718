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
)

// LogFile is where the daemon of the store in dir logs.
func LogFile(dir string) string { return filepath.Join(dir, "daemon.log") }

// ready is what a daemon that was started tells its starter, once, when it serves or gives up.
type ready struct {
	PID   int    `json:"pid"`
	Error string `json:"error,omitempty"`
	Exit  int    `json:"exit,omitempty"`
}

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
	log, err := os.OpenFile(LogFile(dir), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		_ = w.Close()
		return 0, fmt.Errorf("start the daemon: open its log: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(exe, args...)
	cmd.Dir = "/" // it must not keep a file system busy, least of all one of its own
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{w}
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
		case err == nil && msg.Error != "":
			err = &Error{msg.Exit, errors.New(msg.Error)}
		}
		said <- err
	}()
	select {
	case err = <-said:
	case <-ctx.Done():
		_ = cmd.Process.Kill()
		err = ctx.Err()
	}
	if err != nil {
		_ = cmd.Wait() // reap it; it has given up
		return 0, err
	}
	return pid, cmd.Process.Release()
}

// Report tells the starter on its pipe how the start went. w is closed.
func Report(w io.WriteCloser, err error) {
	msg := ready{PID: os.Getpid()}
	if err != nil {
		body := errorBody(err)
		msg.Error, msg.Exit = body.Error, body.Exit
	}
	_ = json.NewEncoder(w).Encode(msg) // a starter that went away needs no answer
	_ = w.Close()
}
