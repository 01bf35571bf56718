package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"wsfs/internal/daemon"
	"wsfs/internal/keep"
)

// daemonCmd is what `wsfs mount` starts. It can be run by hand, or by an init system, to keep a store open.
func (a *app) daemonCmd() *cobra.Command {
	var started, kept, replace bool
	cmd := &cobra.Command{
		Use:    "daemon",
		Short:  "Serve a store until SIGTERM",
		Hidden: true,
		Args:   noArgs,
	}
	cmd.Flags().BoolVar(&started, "started", false, "report on descriptor 3 and end after the last mount")
	cmd.Flags().BoolVar(&replace, "replace", false, "have this program take the place of the store's daemon; mounts and what is open go on")
	cmd.Flags().BoolVar(&kept, "kept", false, "a keeper at descriptor 4 holds the mounts")
	for _, name := range []string{"started", "kept"} {
		_ = cmd.Flags().MarkHidden(name) // it is there
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if replace {
			return a.replaceDaemon(cmd.Context())
		}
		report := func(error) {}
		if started {
			pipe := os.NewFile(daemon.ReadyFD, "starter")
			report = func(err error) { daemon.Report(pipe, err) }
		}
		err := a.daemon(cmd.Context(), started, kept, report)
		if err != nil && started {
			return &quietError{err} // the starter has said it
		}
		return err
	}
	return cmd
}

// replacePatience is how long a new daemon has to answer.
const replacePatience = 2 * time.Minute

// replaceDaemon makes this program the store's daemon, without an unmount.
func (a *app) replaceDaemon(ctx context.Context) error {
	w, err := a.here()
	if err != nil {
		return err
	}
	c, err := daemon.Dial(w.store)
	if err != nil {
		return err
	}
	if c == nil {
		return daemon.Fail(daemon.ExitNothing, "replace the daemon: the store %s has none", w.store)
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, replacePatience)
	defer cancel()
	pid, err := c.Replace(ctx, program)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.out.Writer(), "the daemon is process %d now\n", pid)
	return nil
}

func (a *app) daemon(ctx context.Context, autoExit, kept bool, report func(error)) error {
	w, err := a.here()
	if err == nil {
		err = checkStore(w.store)
	}
	if err == nil {
		err = daemon.Settle()
	}
	var keeper *keep.Client
	if err == nil && kept {
		keeper, err = keep.Attach(keep.FD)
	}
	if err != nil {
		report(err)
		return err
	}
	reported := false
	err = a.serve(ctx, w.store, autoExit, keeper, func(*daemon.Client) error {
		reported = true
		report(nil)
		return nil
	})
	if !reported {
		report(err)
	}
	return err
}

// serve runs the store's daemon in this process until ctx ends, or with autoExit until its last mount is gone. started
// is called once the API answers.
func (a *app) serve(ctx context.Context, dir string, autoExit bool, keeper *keep.Client, started func(*daemon.Client) error) error {
	// A terminal that goes away must not take the mounts with it.
	signal.Ignore(syscall.SIGHUP, syscall.SIGPIPE)
	logFile, err := openLog(dir)
	if err != nil {
		return err
	}
	defer logFile.Close()
	o := a.options(dir)
	o.RuntimeDir = a.runtimeDir()
	o.Serve, o.AutoExit, o.LockWait, o.Keeper, o.Exit = true, autoExit, lockPatience, keeper, os.Exit
	o.Log = slog.New(slog.NewJSONHandler(logFile, nil))
	d, err := daemon.Open(ctx, o)
	if err != nil {
		return err
	}
	err = d.Listen(ctx)
	if err == nil {
		o.Log.Info("daemon started", "pid", os.Getpid(), "version", o.Version, "store", dir)
		var c *daemon.Client
		if c, err = daemon.Dial(dir); err == nil && c == nil {
			err = errors.New("serve the store: the socket does not answer")
		}
		if err == nil {
			err = started(c)
		}
	}
	if err == nil {
		select {
		case <-ctx.Done():
			o.Log.Info("daemon was told to end")
		case <-d.Done():
		}
	}
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	o.Log.Info("daemon ended", "error", errorText(err))
	return err
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
