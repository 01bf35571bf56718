package daemon

import (
	"context"
	"strconv"
	"strings"
	"syscall"
	"time"

	"wsfs/internal/ui"
	"wsfs/versions"
)

// cleaned is paths of a command line, which count from the root of the workspace.
func cleaned(words []string) []Path {
	var out []Path
	for _, w := range words {
		out = append(out, Path(versions.Clean(w)))
	}
	return out
}

// told runs fn and collects what it says: what will be done, and what was done or why not.
func told(what string, fn func(say func(UndoReply)) (UndoReply, error)) (string, error) {
	var lines []string
	out, err := fn(func(plan UndoReply) {
		lines = []string{what + plan.Plan()} // a second one is for a workspace that somebody has changed meanwhile
		for _, l := range plan.Paths {
			lines = append(lines, l.What+" "+ui.Name(string(l.Path)))
		}
	})
	if err == nil {
		lines = append(lines, out.Done())
	}
	return strings.Join(lines, "\n"), err
}

func (d *Daemon) undoWords(ctx context.Context, s *slot, words []string) (string, error) {
	f := newWordFlags("undo")
	req := UndoRequest{Workspace: s.name}
	var commands, except wordList
	var since string
	f.Var(&commands, "command", "")
	f.Var(&except, "except", "")
	f.StringVar(&req.Session, "session", "", "")
	f.StringVar(&since, "since", "", "")
	f.BoolVar(&req.Yes, "yes", false, "")
	f.BoolVar(&req.ExactTimes, "exact-times", false, "")
	f.BoolVar(&req.DryRun, "dry-run", false, "")
	paths, err := f.parse(words)
	if err != nil {
		return "", err
	}
	for _, c := range commands {
		n, err := strconv.ParseInt(strings.TrimPrefix(c, "c"), 10, 64)
		if err != nil || n <= 0 {
			return "", Fail(ExitUsage, "undo --command %s: a command is a number as .wsfs/commands has it, such as c12: %w", ui.Quote(c), syscall.EINVAL)
		}
		req.Commands = append(req.Commands, n)
	}
	if len(commands) > 0 && (req.Session != "" || since != "") {
		return "", Fail(ExitUsage, "undo: --command does not go with --session or --since: %w", syscall.EINVAL)
	}
	if since != "" {
		if req.Since, err = pointOf(since); err != nil {
			return "", err
		}
	}
	req.Paths, req.Except, req.List = cleaned(paths), cleaned(except), req.DryRun
	return told("undo", func(say func(UndoReply)) (UndoReply, error) { return d.undoSaying(ctx, req, say) })
}

func (d *Daemon) redoWords(ctx context.Context, s *slot, words []string) (string, error) {
	f := newWordFlags("redo")
	req := RedoRequest{Workspace: s.name}
	f.BoolVar(&req.Yes, "yes", false, "")
	f.BoolVar(&req.DryRun, "dry-run", false, "")
	args, err := f.parse(words)
	if err != nil {
		return "", err
	}
	if len(args) > 0 {
		return "", Fail(ExitUsage, "redo takes no arguments: %w", syscall.EINVAL)
	}
	req.List = req.DryRun
	return told("redo", func(say func(UndoReply)) (UndoReply, error) { return d.redoSaying(ctx, req, say) })
}

func (d *Daemon) rollbackWords(ctx context.Context, s *slot, words []string) (string, error) {
	f := newWordFlags("rollback")
	req := RollbackRequest{Workspace: s.name}
	f.BoolVar(&req.Yes, "yes", false, "")
	f.BoolVar(&req.ExactTimes, "exact-times", false, "")
	f.BoolVar(&req.DryRun, "dry-run", false, "")
	args, err := f.parse(words)
	if err != nil {
		return "", err
	}
	if len(args) == 0 {
		return "", Fail(ExitUsage, "rollback: write rollback REV [PATH...]: %w", syscall.EINVAL)
	}
	if req.Revision, err = pointOf(args[0]); err != nil {
		return "", err
	}
	req.Paths, req.List = cleaned(args[1:]), req.DryRun
	return told("rollback to "+args[0], func(say func(UndoReply)) (UndoReply, error) { return d.rollbackSaying(ctx, req, say) })
}

// pointOf reads a point of the workspace as revisionOf does, for requests that name the workspace themselves.
func pointOf(word string) (string, error) {
	rev, err := versions.Parse("@"+strings.TrimPrefix(word, "@"), time.Local)
	return "@" + rev.Point.String(), err
}
