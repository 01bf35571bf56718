package main

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"wsfs/internal/daemon"
	"wsfs/internal/report"
	"wsfs/internal/ui"
	"wsfs/store"
	"wsfs/versions"
)

func (a *app) blameCmd() *cobra.Command {
	var lines string
	cmd := &cobra.Command{
		Use:   "blame PATH[@REV] | WS@REV:PATH",
		Short: "Tell who wrote each line, with which command",
		Long: "Tells for each line of a file, as it is or was, which change brought it: its number, command, session, time and command\n" +
			"line. Lines are followed through renames and saves by replacement. Of a file that is gone it tells who deleted it, and\n" +
			"blames its last version.",
		Args: cobra.ExactArgs(1),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		r, err := parseLines(lines)
		if err != nil {
			return err
		}
		w, rev, path, unclear, err := a.parsePast(args[0])
		if err != nil {
			return err
		}
		if unclear == nil {
			if done, err := a.printKept(ctx, w, rev, path, r); done {
				return err
			}
		}
		p, err := a.openPast(ctx, w, rev, path, unclear)
		if err != nil {
			return err
		}
		defer p.st.Close()
		ver, err := a.blamed(ctx, p)
		if err != nil {
			return err
		}
		// Texts come and go, little stays: collecting less often saves a tenth of the time.
		defer debug.SetGCPercent(debug.SetGCPercent(400))
		b, err := versions.Blame(ctx, p.st.Store, ver, r)
		var none *versions.LinesError
		if errors.As(err, &none) {
			return &daemon.Error{Exit: daemon.ExitUsage, Err: err}
		}
		if err != nil {
			return fmt.Errorf("%s of %s: %w", ui.Quote(p.path), p.rev.Revision, err)
		}
		return a.printBlame(b)
	}
	cmd.Flags().StringVarP(&lines, "lines", "L", "", "only these lines: 10,20 or 10,+5 or 10, or ,20")
	a.jsonFlag(cmd)
	a.workspaceOf(cmd)
	return cmd
}

func (a *app) printBlame(b *versions.Blamed) error {
	notes, err := report.Blame(a.out, b, a.json)
	for _, n := range notes {
		a.note("%s", n)
	}
	return err
}

// printKept prints what a daemon has of an earlier blame, and reports whether it did: the store need not be opened for that. Whatever
// keeps it from doing so is met again on the long way.
func (a *app) printKept(ctx context.Context, w where, rev versions.Revision, path string, r versions.BlameRange) (done bool, err error) {
	if rev.Point.Kind == versions.AtAge || checkStore(w.store) != nil {
		return false, nil
	}
	req := daemon.BlameRequest{Revision: rev.String(), Path: daemon.Path(path)}
	if whole := r == (versions.BlameRange{}); whole && !a.json && !a.out.Terminal {
		if done, err := daemon.PrintKeptBlame(ctx, w.store, req, a.out.W); done {
			return true, err
		}
	}
	k, err := daemon.KeptBlame(ctx, w.store, req)
	if k == nil || err != nil {
		return false, nil
	}
	b, ok, err := k.Blame(r)
	if !ok || err != nil {
		return false, nil
	}
	return true, a.printBlame(b)
}

// parseLines reads what -L takes.
func parseLines(s string) (versions.BlameRange, error) {
	var r versions.BlameRange
	if s == "" {
		return r, nil
	}
	bad := daemon.Fail(daemon.ExitUsage, "blame: -L %q: write lines as 10,20 or 10,+5 or 10, or ,20; they count from 1", s)
	from, to, comma := strings.Cut(s, ",")
	number := func(s string, empty int) (int, bool) {
		if s == "" {
			return empty, true
		}
		n, err := strconv.Atoi(s)
		return n, err == nil && n > 0 && n < 1<<31
	}
	var ok bool
	if r.First, ok = number(from, 1); !ok || from == "" && to == "" {
		return r, bad
	}
	count, relative := strings.CutPrefix(to, "+")
	switch r.Last, ok = number(count, 0); {
	case !ok || relative && count == "":
		return r, bad
	case relative:
		r.Last += r.First - 1
	case !comma:
		r.Last = r.First
	case to != "" && r.Last < r.First:
		return r, bad
	}
	return r, nil
}

// blamed is the version to blame; of what is gone the last one, with a word about who deleted it.
func (a *app) blamed(ctx context.Context, p *past) (*store.Version, error) {
	ver, err := versions.Find(ctx, p.rev.View, p.path, true)
	if !errors.Is(err, syscall.ENOENT) {
		return ver, err
	}
	gone, gerr := versions.WhatBecameOf(ctx, p.st.Store, p.rev.View, p.path)
	if gerr != nil {
		return nil, gerr
	}
	if gone == nil {
		return nil, fmt.Errorf("%s: %w", p.rev.Revision, err) // a link that leads nowhere
	}
	name := ui.Name(p.path)
	lp := &report.Log{Out: a.out}
	switch {
	case gone.Entry != nil && a.json:
		if err := a.out.JSON(report.LogLineOf(gone.Entry)); err != nil {
			return nil, err
		}
	case gone.Entry != nil && gone.Entry.What == versions.Renamed:
		a.note("%s was renamed to %s at @%d: %s", name, ui.Name(gone.Entry.Path), gone.Entry.Seq, lp.Headline(gone.Entry))
	case gone.Entry != nil:
		a.note("%s was deleted at @%d: %s", name, gone.Entry.Seq, lp.Headline(gone.Entry))
	case gone.Path != "":
		a.note("%s is %s now", name, ui.Name(gone.Path))
	}
	if gone.Last == nil || gone.Last.Type() != syscall.S_IFREG {
		return nil, fmt.Errorf("%s: %w", p.rev.Revision, err)
	}
	return gone.Last, nil
}
