package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"wsfs/internal/daemon"
)

func (a *app) watchCmd() *cobra.Command {
	since := "now"
	cmd := &cobra.Command{
		Use:   "watch [WS]",
		Short: "Tell what happens, as it happens",
		Long: "Prints a line of JSON for each change, each move of the workspace to another state, each conflict and what resolves it, as soon as the database has it.\n" +
			"Nothing is left out: --since with the field `since` of the last line that was read goes on right after it, also after restarts.\n" +
			"Without a daemon it prints what there is and ends.",
		Args: cobra.MaximumNArgs(1),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			a.workspaceFlag = args[0]
		}
		return a.watch(cmd.Context(), since)
	}
	cmd.Flags().StringVar(&since, "since", since, "0, now, or the field since or id of an event: what comes after it")
	a.jsonFlag(cmd)
	a.workspaceOf(cmd)
	return cmd
}

// backFor is how long a daemon that ended is waited for: another one may take its place.
const backFor = 3 * time.Second

func (a *app) watch(ctx context.Context, since string) error {
	w, err := a.here()
	if err != nil {
		return err
	}
	st, err := a.openRead(ctx, w.store)
	if err != nil {
		return err
	}
	ws, err := a.workspace(ctx, st.Store, w)
	st.Close()
	if err != nil {
		return err
	}
	begun := false
	for {
		c, err := daemon.Dial(w.store)
		for end := time.Now().Add(backFor); begun && c == nil && err == nil && time.Now().Before(end) && ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
			c, err = daemon.Dial(w.store)
		}
		if err != nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		if c == nil {
			break
		}
		body, err := c.Watch(ctx, daemon.WatchRequest{Workspace: ws.Name, Since: since})
		var gone *daemon.GoneError
		if err != nil && !errors.As(err, &gone) {
			return err
		}
		if err == nil {
			ended, err := a.passOn(body, &since, begun)
			body.Close()
			if err != nil || ended {
				return err
			}
		}
		begun = true
	}
	if st, err = a.openRead(ctx, w.store); err != nil {
		return err
	}
	defer st.Close()
	r, p := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := daemon.Watch(ctx, st.Store, ws, since, p)
		p.Close()
		done <- err
	}()
	_, err = a.passOn(r, &since, begun)
	r.Close()
	if err != nil {
		return err
	}
	return <-done
}

// passOn prints lines and moves since. It reports whether the daemon said that there will be no more.
func (a *app) passOn(body io.Reader, since *string, begun bool) (ended bool, err error) {
	in, out := bufio.NewReaderSize(body, 1<<16), a.out.Writer()
	for {
		line, err := in.ReadBytes('\n')
		if err != nil { // a piece of a line is not passed on: it comes again
			return false, out.Flush()
		}
		var e struct {
			Since, Event, Error string
			Exit                int
		}
		if err := json.Unmarshal(line, &e); err != nil {
			return false, fmt.Errorf("watch: what the daemon says is not understood: %w", err)
		}
		switch {
		case e.Error != "":
			return false, daemon.Fail(max(e.Exit, daemon.ExitFailed), "watch: %s", e.Error)
		case e.Event == "end":
			return true, nil
		}
		*since = e.Since
		if e.Event == "start" && begun {
			continue
		}
		if _, err := out.Write(line); err != nil {
			return true, err
		}
		if in.Buffered() == 0 {
			if err := out.Flush(); err != nil {
				return true, err
			}
		}
	}
}
