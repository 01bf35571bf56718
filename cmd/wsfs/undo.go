package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"wsfs/internal/daemon"
	"wsfs/internal/ui"
	"wsfs/versions"
)

// undoFlags are those that undo, redo and rollback have in common.
type undoFlags struct {
	dryRun, names, yes, exact bool
}

func (a *app) undoFlags(cmd *cobra.Command, f *undoFlags) {
	cmd.Flags().BoolVarP(&f.dryRun, "dry-run", "n", false, "say what would be done, change nothing")
	cmd.Flags().BoolVar(&f.names, "names", false, "print the paths that change, one a line")
	cmd.Flags().BoolVarP(&f.yes, "yes", "y", false, "do not ask, however much is removed")
	a.jsonFlag(cmd)
	a.workspaceOf(cmd)
}

func (a *app) undoCmd() *cobra.Command {
	var f undoFlags
	var commands, except []string
	var session, since string
	var patch bool
	cmd := &cobra.Command{
		Use:   "undo [PATH...]",
		Short: "Take back what a command, a session or the last minutes changed",
		Long: "Takes back the last command of this session that changed files; outside of a named session, the last one of anybody. What\n" +
			"others changed since is kept, line by line, or nothing is changed and the conflicts are listed (exit code 4). With PATH,\n" +
			"only what it changed there. Everything comes back: bytes, modes, links, extended attributes, empty directories.",
		Example: "  wsfs undo --command c12          what command 12 did\n" +
			"  wsfs undo --session agent-1      all that the session did\n" +
			"  wsfs undo --since 10m --except src/kept.go",
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		req := daemon.UndoRequest{
			Session: session, DryRun: f.dryRun, List: f.names || a.json, Yes: f.yes, ExactTimes: f.exact,
		}
		for _, s := range commands {
			n, err := strconv.ParseInt(strings.TrimPrefix(s, "c"), 10, 64)
			if err != nil || n <= 0 {
				return daemon.Fail(daemon.ExitUsage, "undo --command %s: a command is a number as `wsfs commands` prints it, such as c12", ui.Quote(s))
			}
			req.Commands = append(req.Commands, n)
		}
		if len(commands) > 0 && (session != "" || since != "") {
			return daemon.Fail(daemon.ExitUsage, "undo: --command does not go with --session or --since")
		}
		if since != "" {
			rev, err := versions.ParseHere(since, time.Local)
			if err != nil {
				return err
			}
			if rev.Workspace != "" {
				return daemon.Fail(daemon.ExitUsage, "undo --since %s: give only a point, such as 10m", ui.Quote(since))
			}
			req.Since = "@" + rev.Point.String()
		}
		w, paths, err := a.undoPlace("undo", append(args[:len(args):len(args)], except...))
		if err != nil {
			return err
		}
		req.Workspace, req.Paths, req.Except = w.workspace, paths[:len(args)], paths[len(args):]
		return a.ask(cmd.Context(), w.store, func(c *daemon.Client) error {
			if patch {
				return a.undoByHunks(cmd.Context(), c, req)
			}
			return a.undoDo(&f, "undo", req.DryRun, func(yes bool, plan func(daemon.UndoReply)) (daemon.UndoReply, error) {
				req.Yes = yes
				return c.Undo(cmd.Context(), req, plan)
			})
		})
	}
	cmd.Flags().StringArrayVar(&commands, "command", nil, "what this command changed (c12); may be repeated")
	cmd.Flags().StringVar(&session, "session", "", "what this session changed")
	cmd.Flags().StringVar(&since, "since", "", "what was changed since: 10m, a time, a change, c12+, @TAG")
	cmd.Flags().StringArrayVar(&except, "except", nil, "leave this path as it is; may be repeated")
	cmd.Flags().BoolVarP(&patch, "patch", "p", false, "choose hunk by hunk")
	cmd.Flags().BoolVar(&f.exact, "exact-times", false, "bring back recorded times also where bytes change")
	a.undoFlags(cmd, &f)
	return cmd
}

func (a *app) redoCmd() *cobra.Command {
	var f undoFlags
	cmd := &cobra.Command{
		Use: "redo", Short: "Take the last undo back", Args: noArgs,
		Long: "Takes the last undo of this session (outside of a named session: of anybody) back, unless another command changed files since.",
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		w, _, err := a.undoPlace("redo", nil)
		if err != nil {
			return err
		}
		req := daemon.RedoRequest{Workspace: w.workspace, DryRun: f.dryRun, List: f.names || a.json}
		return a.ask(cmd.Context(), w.store, func(c *daemon.Client) error {
			return a.undoDo(&f, "redo", f.dryRun, func(yes bool, plan func(daemon.UndoReply)) (daemon.UndoReply, error) {
				req.Yes = yes
				return c.Redo(cmd.Context(), req, plan)
			})
		})
	}
	a.undoFlags(cmd, &f)
	return cmd
}

// undoPlace finds the workspace that is meant, and paths in it: of the mount that the current directory is on, or as seen
// from the root of --workspace.
func (a *app) undoPlace(what string, args []string) (where, []daemon.Path, error) {
	w, err := a.here()
	if err != nil {
		return w, nil, err
	}
	paths := make([]daemon.Path, len(args))
	if a.workspaceFlag != "" {
		w.workspace = a.workspaceFlag
		for i, p := range args {
			paths[i] = daemon.Path(versions.Clean(p))
		}
		return w, paths, nil
	}
	for i, p := range args {
		at, err := a.placeOfName(p)
		if err != nil {
			return w, nil, err
		}
		if i == 0 && w.workspace == "" {
			w = at
		}
		if at.workspace == "" || at.workspace != w.workspace || at.store != w.store {
			return w, nil, daemon.Fail(daemon.ExitUsage, "%s %s: it is not on the mount of the workspace; with --workspace paths count from its root", what, ui.Quote(p))
		}
		paths[i] = daemon.Path(at.path)
	}
	if w.workspace == "" {
		return w, nil, daemon.Fail(daemon.ExitUsage, "%s: in which workspace? You are in no mount; go into one, or give --workspace", what)
	}
	if w.mount != nil && w.mount.Seq() != "" {
		return w, nil, daemon.Fail(daemon.ExitUsage, "%s: %s shows a state of the past, which stays what it is; `--workspace %s` means the present: %w",
			what, w.mount.Point, w.workspace, syscall.EROFS)
	}
	return w, paths, nil
}

// undoDo runs a request: the plan is printed as it comes, then what was done. What removes much is asked about once, on a
// terminal.
func (a *app) undoDo(f *undoFlags, what string, dry bool, do func(yes bool, plan func(daemon.UndoReply)) (daemon.UndoReply, error)) error {
	plan := func(p daemon.UndoReply) {
		if a.json {
			return
		}
		line := what + p.Plan()
		if f.names {
			a.note("%s", line)
			return
		}
		fmt.Fprintln(a.out.Writer(), line)
		_ = a.out.Flush() // before it happens; the end of the command reports what fails here
	}
	res, err := do(f.yes, plan)
	if err != nil && daemon.NeedsYes(err) && a.isTerminal() {
		fmt.Fprintf(a.stderr, "%v\ndo it? [y/N] ", err)
		if line, _ := readLine(a.in); strings.HasPrefix(strings.ToLower(strings.TrimSpace(line)), "y") {
			res, err = do(true, plan)
		}
	}
	if err != nil {
		if list := daemon.Conflicts(err); a.json && len(list) > 0 {
			if jerr := a.out.JSON(map[string]any{"conflicts": list}); jerr != nil {
				return jerr
			}
		}
		return err
	}
	return a.undoResult(f, &res, dry)
}

func (a *app) undoResult(f *undoFlags, res *daemon.UndoReply, dry bool) error {
	switch {
	case a.json:
		return a.out.JSON(res)
	case f.names:
		above := map[string]bool{}
		for _, l := range res.Paths {
			for dir := string(l.Path); strings.Contains(dir, "/"); {
				dir = dir[:strings.LastIndexByte(dir, '/')]
				above[dir] = true
			}
		}
		for _, l := range res.Paths {
			// As in `diff --name-only`: what is in a directory that comes or goes says it.
			if !l.Dir || l.What == versions.UndoChanged || !above[string(l.Path)] {
				fmt.Fprintln(a.out.Writer(), ui.Name(string(l.Path)))
			}
		}
	default:
		fmt.Fprintln(a.out.Writer(), res.Done())
	}
	return nil
}

func (a *app) isTerminal() bool { return a.printer(a.in).Terminal && a.printer(a.stderr).Terminal }

// readLine reads up to a newline and not beyond it.
func readLine(r io.Reader) (string, error) {
	var line []byte
	var b [1]byte
	for {
		n, err := r.Read(b[:])
		if n == 1 {
			if b[0] == '\n' {
				return string(line), nil
			}
			line = append(line, b[0])
		}
		if err != nil {
			return string(line), err
		}
	}
}

// undoByHunks shows a plan piece by piece and takes back what is said yes to.
func (a *app) undoByHunks(ctx context.Context, c *daemon.Client, req daemon.UndoRequest) error {
	var f undoFlags
	look := req
	look.DryRun, look.Hunks, look.List = true, true, true
	plan, err := c.Undo(ctx, look, func(daemon.UndoReply) {})
	if err != nil {
		return err
	}
	picks, all := []daemon.UndoPick{}, 0
	for i := range plan.Paths {
		l := &plan.Paths[i]
		n := max(1, len(l.Hunks))
		pick := daemon.UndoPick{Path: l.Path}
		for k := range n {
			if all++; a.askHunk(l, k) {
				pick.Hunks = append(pick.Hunks, k)
			}
		}
		if len(pick.Hunks) > 0 {
			picks = append(picks, pick)
		}
	}
	if len(picks) == 0 {
		return daemon.Fail(daemon.ExitNothing, "undo: none of the %d hunks was chosen", all)
	}
	req.Picks, req.At = picks, &plan.At
	return a.undoDo(&f, "undo", req.DryRun, func(yes bool, say func(daemon.UndoReply)) (daemon.UndoReply, error) {
		return c.Undo(ctx, req, say)
	})
}

// askHunk shows one piece and asks for it. The end of the input means no.
func (a *app) askHunk(l *daemon.UndoLine, k int) bool {
	w := a.out.Writer()
	if len(l.Hunks) == 0 {
		fmt.Fprintf(w, "%s %s\n", l.What, ui.Name(string(l.Path)))
	} else {
		h := l.Hunks[k]
		fmt.Fprintf(w, "%s line %d\n", ui.Name(string(l.Path)), h.Line)
		for _, t := range h.Old {
			fmt.Fprintln(w, a.out.Styled("-"+ui.Visible(strings.TrimSuffix(string(t), "\n")), ui.Red))
		}
		for _, t := range h.New {
			fmt.Fprintln(w, a.out.Styled("+"+ui.Visible(strings.TrimSuffix(string(t), "\n")), ui.Green))
		}
	}
	fmt.Fprintf(w, "take this back (%d of %d)? [y/n] ", k+1, max(1, len(l.Hunks)))
	_ = a.out.Flush() // the question, before the answer is waited for
	line, _ := readLine(a.in)
	fmt.Fprintln(w)
	return strings.HasPrefix(strings.ToLower(strings.TrimSpace(line)), "y")
}
