package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"wsfs/internal/daemon"
	"wsfs/internal/runner"
	"wsfs/internal/ui"
)

type lockOptions struct {
	ttl   time.Duration
	wait  bool
	quiet bool
	check bool
}

func (a *app) lockCmd() *cobra.Command {
	var o lockOptions
	cmd := &cobra.Command{
		Use:   "lock NAME [flags] -- CMD... | lock --check NAME TOKEN",
		Short: "Run a command while nobody else has the lock of that name",
		Long: "Takes the lock NAME of the store, runs CMD, and gives it back. The lock is renewed while CMD runs, and ends by itself\n" +
			"--ttl after this process has died. CMD finds a number in WSFS_LOCK_TOKEN that is greater than that of every holder\n" +
			"before: who does something for it can ask with --check whether it still holds the lock. Should the lock be lost, CMD\n" +
			"gets SIGTERM. CMD's exit code is passed on.",
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		dash := cmd.ArgsLenAtDash()
		switch {
		case o.check && (len(args) != 2 || dash >= 0):
			return errors.New("give a name and a token with --check")
		case !o.check && (dash != 1 || len(args) < 2):
			return errors.New("give a name, and a command after --")
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		w, err := a.here()
		if err == nil {
			err = daemon.CheckLockName(args[0])
		}
		if err != nil {
			return err
		}
		if o.check {
			return a.checkLock(cmd.Context(), w.store, args[0], args[1])
		}
		return a.withLock(cmd.Context(), w.store, args[0], args[1:], &o)
	}
	f := cmd.Flags()
	f.DurationVar(&o.ttl, "ttl", 30*time.Second, "how long the lock outlives this process")
	f.BoolVar(&o.wait, "wait", false, "wait until it is to be had")
	f.BoolVar(&o.check, "check", false, "only say whether TOKEN holds the lock: 0, else 1")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "do not tell the token")
	return cmd
}

func (a *app) checkLock(ctx context.Context, dir, name, text string) error {
	token, err := strconv.ParseInt(text, 10, 64)
	if err != nil || token <= 0 {
		return daemon.Fail(daemon.ExitUsage, "lock --check %s %s: a token is a positive number", name, text)
	}
	return a.ask(ctx, dir, func(c *daemon.Client) error {
		_, err := c.CheckLock(ctx, daemon.LockRequest{Name: name, Token: token})
		return err
	})
}

// lockPause is between two attempts where there is no daemon that could wait.
const lockPause = 100 * time.Millisecond

// takeLock takes a lock, however long that takes if it may.
func (a *app) takeLock(ctx context.Context, dir string, req daemon.LockRequest, wait bool) (daemon.LeaseReply, error) {
	if wait {
		req.Wait = time.Hour.Milliseconds()
	}
	for {
		var got daemon.LeaseReply
		began := time.Now()
		err := a.ask(ctx, dir, func(c *daemon.Client) (err error) {
			got, err = c.TakeLock(ctx, req)
			return err
		})
		var gone *daemon.GoneError
		if err == nil || !wait || !errors.Is(err, syscall.EBUSY) && !errors.As(err, &gone) || ctx.Err() != nil {
			return got, err
		}
		select {
		case <-time.After(lockPause - time.Since(began)):
		case <-ctx.Done():
			return got, fmt.Errorf("wait for lock %q: %w", req.Name, syscall.EINTR)
		}
	}
}

func (a *app) withLock(ctx context.Context, dir, name string, argv []string, o *lockOptions) error {
	req := daemon.LockRequest{Name: name, TTL: o.ttl.Milliseconds(), Session: a.getenv("WSFS_SESSION"), PID: os.Getpid()}
	got, err := a.takeLock(ctx, dir, req, o.wait)
	if err != nil {
		return err
	}
	req.Token = got.Token
	if !o.quiet {
		a.note("lock %s, token %d", ui.Name(name), got.Token)
	}
	exit, lost, err := a.runLocked(dir, argv, req, o.ttl)
	end := a.ask(context.WithoutCancel(ctx), dir, func(c *daemon.Client) error {
		_, err := c.EndLock(context.WithoutCancel(ctx), req)
		return err
	})
	switch {
	case err != nil:
		return err
	case lost || errors.Is(end, syscall.ESTALE):
		return daemon.Fail(daemon.ExitFailed, "lock %q was lost while %s ran, which ended with %d: its holder with token %d could not renew it in time",
			name, argv[0], exit, req.Token)
	case end != nil:
		a.note("lock %s ends by itself in %s at the latest: %v", ui.Name(name), o.ttl, end)
	}
	if exit == 0 {
		return nil
	}
	return &quietError{&daemon.Error{Exit: exit, Err: fmt.Errorf("%s ended with %d", argv[0], exit)}}
}

// runLocked runs the command and renews the lock meanwhile. lost: it could not be, and the command was told to end.
func (a *app) runLocked(dir string, argv []string, req daemon.LockRequest, ttl time.Duration) (exit int, lost bool, err error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = a.in, a.stdout, a.stderr
	cmd.Env = append(os.Environ(), "WSFS_LOCK="+req.Name, "WSFS_LOCK_TOKEN="+strconv.FormatInt(req.Token, 10))
	signals := make(chan os.Signal, 16)
	for _, s := range runner.Passed() {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		code := 127
		if !errors.Is(err, exec.ErrNotFound) && !errors.Is(err, os.ErrNotExist) {
			code = 126
		}
		return code, false, &daemon.Error{Exit: code, Err: fmt.Errorf("run %s: %w", argv[0], err)}
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	every := time.NewTicker(ttl / 3)
	defer every.Stop()
	until := time.Now().Add(ttl)
	for {
		select {
		case <-ended:
			if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
				return 128 + int(ws.Signal()), lost, nil
			}
			return cmd.ProcessState.ExitCode(), lost, nil
		case s := <-signals:
			if (s == syscall.SIGINT || s == syscall.SIGQUIT) && a.foreground() {
				continue
			}
			_ = cmd.Process.Signal(s)
		case <-every.C:
			if lost {
				continue
			}
			began := time.Now()
			ctx, cancel := context.WithDeadline(context.Background(), until)
			err := a.ask(ctx, dir, func(c *daemon.Client) error {
				_, err := c.RenewLock(ctx, req)
				return err
			})
			cancel()
			switch {
			case err == nil:
				until = began.Add(ttl)
			case errors.Is(err, syscall.ESTALE) || time.Now().After(until):
				lost = true
				a.note("lock %s is lost, %s is told to end: %v", ui.Name(req.Name), argv[0], err)
				_ = cmd.Process.Signal(syscall.SIGTERM)
			}
		}
	}
}
