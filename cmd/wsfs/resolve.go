package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"wsfs/fs"
	"wsfs/internal/daemon"
	"wsfs/internal/diff"
	"wsfs/internal/ui"
	"wsfs/store"
	"wsfs/versions"
)

func (a *app) resolveCmd() *cobra.Command {
	var ours, theirs, merge bool
	var tool string
	cmd := &cobra.Command{
		Use:   "resolve ID --ours | --theirs | --merge [--tool CMD]",
		Short: "Decide a conflict",
		Long: "Decides a conflict that `wsfs conflicts` lists. --ours takes what was written, --theirs what the other session had made,\n" +
			"--merge both; what was changed since stays in any case. With --tool, CMD is run by sh with BASE, OURS, THEIRS and MERGED\n" +
			"naming files; it must leave the result in $MERGED and exit with 0. The change is one like any other: `wsfs undo` takes it back.",
		Args: cobra.ExactArgs(1),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		id, err := strconv.ParseInt(args[0], 10, 64)
		if err != nil || id <= 0 {
			return daemon.Fail(daemon.ExitUsage, "resolve %s: give the number of a conflict, as `wsfs conflicts` shows it", ui.Quote(args[0]))
		}
		req := daemon.ResolveRequest{ID: id}
		n := 0
		for how, on := range map[string]bool{daemon.ResolveOurs: ours, daemon.ResolveTheirs: theirs, daemon.ResolveMerge: merge} {
			if on {
				n++
				req.How = how
			}
		}
		if n != 1 || tool != "" && !merge {
			return daemon.Fail(daemon.ExitUsage, "resolve %d: give one of --ours, --theirs and --merge; --tool goes with --merge", id)
		}
		w, err := a.here()
		if err != nil {
			return err
		}
		if req.Workspace, err = a.conflictPlace(ctx, w, &req, tool); err != nil {
			return err
		}
		var res daemon.ResolveReply
		if err := a.ask(ctx, w.store, func(c *daemon.Client) (err error) {
			res, err = c.Resolve(ctx, req)
			return err
		}); err != nil {
			return err
		}
		switch {
		case a.json:
			return a.out.JSON(res)
		case res.Gone:
			fmt.Fprintf(a.out.Writer(), "conflict %d is resolved: %s is gone\n", id, ui.Name(string(res.Path)))
		case res.Seq == 0:
			fmt.Fprintf(a.out.Writer(), "conflict %d is resolved: %s was like that already\n", id, ui.Name(string(res.Path)))
		default:
			fmt.Fprintf(a.out.Writer(), "conflict %d is resolved: %s is %s@%d\n", id, ui.Name(string(res.Path)), res.Workspace, res.Seq)
		}
		return nil
	}
	f := cmd.Flags()
	f.BoolVar(&ours, "ours", false, "what was written stands")
	f.BoolVar(&theirs, "theirs", false, "what the other session had made stands")
	f.BoolVar(&merge, "merge", false, "both, merged line by line")
	f.StringVar(&tool, "tool", "", "command that merges")
	a.jsonFlag(cmd)
	a.workspaceOf(cmd)
	return cmd
}

// conflictPlace finds the workspace, and has the tool merge, if there is one.
func (a *app) conflictPlace(ctx context.Context, w where, req *daemon.ResolveRequest, tool string) (string, error) {
	st, err := a.openRead(ctx, w.store)
	if err != nil {
		return "", err
	}
	defer st.Close()
	ws, err := a.workspace(ctx, st.Store, w)
	if err != nil || tool == "" {
		return nameOf(ws), err
	}
	list, err := versions.Conflicts(ctx, st.Store, store.ConflictQuery{Workspace: ws.ID, ID: store.ConflictID(req.ID)})
	if err != nil || len(list) == 0 {
		return ws.Name, err // whoever resolves it says that there is none
	}
	text, err := a.runTool(ctx, st.Store, &list[0], tool)
	if err != nil {
		return "", err
	}
	req.Text = &text
	return ws.Name, nil
}

func nameOf(ws *store.Workspace) string {
	if ws == nil {
		return ""
	}
	return ws.Name
}

// runTool lets a command merge: its result is what it leaves in MERGED.
func (a *app) runTool(ctx context.Context, st *store.Store, c *versions.Conflict, tool string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "wsfs-resolve-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var texts [3][]byte
	for i, side := range []*versions.Side{&c.Base, &c.Ours, &c.Theirs} {
		if texts[i], err = side.Text(ctx, st); err != nil {
			return nil, err
		}
	}
	merged, ok := fs.MergeText(c.Path, texts[0], texts[1], texts[2])
	if !ok && !diff.Binary(texts[1]) && !diff.Binary(texts[2]) {
		merged, _, _ = diff.Merge3(texts[0], texts[1], texts[2]) // with markers
	} else if !ok {
		merged = texts[1]
	}
	env := os.Environ()
	name := filepath.Base(c.Path)
	for i, file := range []struct {
		key  string
		text []byte
	}{{"BASE", texts[0]}, {"OURS", texts[1]}, {"THEIRS", texts[2]}, {"MERGED", merged}} {
		at := filepath.Join(dir, strconv.Itoa(i)+"-"+name)
		if err := os.WriteFile(at, file.text, 0o600); err != nil {
			return nil, err
		}
		env = append(env, file.key+"="+at)
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", tool)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, a.in, a.stderr, a.stderr
	if err := cmd.Run(); err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return nil, daemon.Fail(daemon.ExitDecision, "resolve %d: the tool ended with %d; nothing was changed", c.ID, exit.ExitCode())
		}
		return nil, fmt.Errorf("resolve %d: run the tool: %w", c.ID, err)
	}
	return os.ReadFile(filepath.Join(dir, "3-"+name))
}
