package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"

	"wsfs/internal/daemon"
	"wsfs/internal/runner"
	"wsfs/internal/ui"
)

// An atomic run works in a fork of its own. At exit 0 that is merged into the workspace as one change; the process that the
// command is registered as asks for it, so that it is the command's. Then the fork is dropped, or at once.

// atomicName names the fork.
func atomicName(base string) string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // it never fails
	return fmt.Sprintf("%.60s-atomic-%s", base, hex.EncodeToString(b[:]))
}

// endAtomic says what came of it.
func (a *app) endAtomic(ctx context.Context, o *runOptions, p *runPlace, res runner.Result, err error) error {
	into := ui.Name(p.Parent)
	var missing *runner.MissingError
	switch {
	case errors.As(err, &missing):
		a.note("%v", missing)
		return a.undone(ctx, o, p, res.Exit, false)
	case err != nil: // its keeper is gone: what it did is not known to be whole
		a.note("nothing of it is in %s; %s", into, a.forkStays(p))
		return err
	case res.Exit != 0:
		return a.undone(ctx, o, p, res.Exit, !o.quiet)
	case res.Failed != nil:
		return daemon.Fail(max(res.Failed.Exit, daemon.ExitFailed), "run --atomic: %s ended with 0, but what it did could not be merged into %s: %s; %s",
			o.argv[0], into, res.Failed.Error, a.forkStays(p))
	case res.Merged != nil && len(res.Merged.Conflicts) > 0:
		for _, c := range res.Merged.Conflicts {
			fmt.Fprintf(a.stderr, "conflict %s: %s: %s\n", ui.Name(string(c.Path)), c.Why, c.Detail)
		}
		return daemon.Fail(daemon.ExitDecision, "run --atomic: %s ended with 0, but %s was changed meanwhile in ways that do not go together with it: %s; "+
			"nothing was changed there; %s", o.argv[0], into, plural(len(res.Merged.Conflicts), "conflict"), a.forkStays(p))
	}
	if !o.quiet {
		a.atomicSummary(p, &res)
	}
	a.dropFork(ctx, p)
	return nil
}

// undone ends a run of which nothing comes.
func (a *app) undone(ctx context.Context, o *runOptions, p *runPlace, exit int, tell bool) error {
	if o.look {
		a.note("nothing of it is in %s; %s", ui.Name(p.Parent), a.forkStays(p))
	} else {
		if tell {
			a.note("%s ended with %d: nothing of it is in %s", o.argv[0], exit, ui.Name(p.Parent))
		}
		a.dropFork(ctx, p)
	}
	return &quietError{&daemon.Error{Exit: exit, Err: fmt.Errorf("%s ended with %d", o.argv[0], exit)}}
}

func (a *app) forkStays(p *runPlace) string {
	fork := ui.Quote(p.Workspace)
	return fmt.Sprintf("fork %s has it: `wsfs review %s` shows it, `wsfs merge %s %s` takes it in, `wsfs drop --force %s` drops it", fork, fork, fork,
		ui.Quote(p.Parent), fork)
}

func (a *app) atomicSummary(p *runPlace, res *runner.Result) {
	m := res.Merged
	if m == nil {
		a.note("nothing changed in %s", ui.Name(p.Parent))
		return
	}
	line := "one change"
	for _, c := range res.Commands {
		if c.Workspace == p.Parent {
			line = fmt.Sprintf("c%d", c.Command)
		}
	}
	if m.Seq == 0 {
		a.note("%s is in %s at once, if it changed anything: the daemon ended before it said what; `wsfs log` does", line, ui.Name(p.Parent))
		return
	}
	t := tally{m.Created, m.Changed + m.Merged + m.Renamed, m.Removed}
	a.note("%s %s in %s at once; `wsfs undo%s --command %s` takes it back", line, t, ui.Name(p.Parent), a.dashW(p, p.Parent), line)
}

// dropFork drops the fork. What CMD left in the background may still work in it: then it stays.
func (a *app) dropFork(ctx context.Context, p *runPlace) {
	err := a.withDaemon(ctx, p.store, func(c *daemon.Client) error {
		if err := c.LeaveRun(ctx, daemon.RunMountRequest{Workspace: p.Workspace}); err != nil {
			return err
		}
		_, err := c.Drop(ctx, daemon.DropRequest{Workspace: p.Workspace, Force: true})
		return err
	})
	if err != nil {
		a.note("fork %s stays: %v", ui.Quote(p.Workspace), err)
	}
}
