package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"wsfs/internal/daemon"
	"wsfs/internal/ui"
)

func (a *app) purgeCmd() *cobra.Command {
	var content string
	var yes bool
	cmd := &cobra.Command{
		Use:   "purge PATH... | purge --content TEXT",
		Short: "Remove bytes from the whole store, for good",
		Long: "Removes the past contents of PATH, under whatever name it went, here and in all forks; or with --content every past content that\n" +
			"holds TEXT, and TEXT from command lines, caches and logs (`--content -` reads it from standard input, so that it is in no command\n" +
			"line). What is there now stays: if a workspace shows TEXT it is refused (4). Nothing brings the bytes back. Versions stay in\n" +
			"the log, without their content. It takes as long as reading the whole store.",
		Args: cobra.ArbitraryArgs,
	}
	cmd.Flags().StringVar(&content, "content", "", "the bytes, - for standard input")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		given := cmd.Flags().Changed("content")
		if given == (len(args) > 0) || given && content == "" {
			return daemon.Fail(daemon.ExitUsage, "purge: give paths, or --content; see `wsfs purge --help`")
		}
		w, err := a.here()
		if err != nil {
			return err
		}
		req := daemon.PurgeRequest{Content: []byte(content)}
		if content == "-" {
			b, err := io.ReadAll(io.LimitReader(a.in, 64<<10))
			if err != nil {
				return err
			}
			req.Content = []byte(strings.TrimSuffix(string(b), "\n"))
			yes = true // standard input cannot answer any more
		}
		if !given {
			if w, req.Workspace, req.Paths, err = a.purgePaths(cmd, w, args); err != nil {
				return err
			}
		}
		if !yes {
			fmt.Fprint(a.out.Writer(), "This cannot be undone. Purge? [y/n] ")
			_ = a.out.Flush() // the question, before the answer is waited for
			line, _ := readLine(a.in)
			fmt.Fprintln(a.out.Writer())
			if !strings.HasPrefix(strings.ToLower(strings.TrimSpace(line)), "y") {
				return daemon.Fail(daemon.ExitDecision, "purge: nothing was changed; --yes does it without asking")
			}
		}
		var res daemon.PurgeReply
		if err := a.ask(ctx, w.store, func(c *daemon.Client) (err error) {
			res, err = c.Purge(ctx, req)
			return err
		}); err != nil {
			return err
		}
		if a.json {
			return a.out.JSON(res)
		}
		fmt.Fprintf(a.out.Writer(), "purged %s and %s; the store had %s and has %s\n", ui.Plural(res.Versions, "version"),
			ui.Plural(res.Lines, "command line"), ui.Bytes(res.GC.Before), ui.Bytes(res.GC.After))
		return nil
	}
	a.jsonFlag(cmd)
	a.workspaceOf(cmd)
	return cmd
}

// purgePaths are paths from the root of the workspace that they are in.
func (a *app) purgePaths(cmd *cobra.Command, w where, args []string) (where, string, []daemon.Path, error) {
	first, err := a.placeOf(args[0])
	if err != nil {
		return w, "", nil, err
	}
	if a.workspaceFlag != "" || first.workspace == "" {
		st, err := a.openRead(cmd.Context(), w.store)
		if err != nil {
			return w, "", nil, err
		}
		defer st.Close()
		ws, err := a.workspace(cmd.Context(), st.Store, w)
		if err != nil {
			return w, "", nil, err
		}
		var out []daemon.Path
		for _, p := range args {
			out = append(out, daemon.Path(p))
		}
		return w, ws.Name, out, nil
	}
	var out []daemon.Path
	for _, p := range args {
		at, err := a.placeOf(p)
		if err != nil {
			return w, "", nil, err
		}
		if at.workspace == "" || at.store != w.store && len(out) > 0 {
			return w, "", nil, daemon.Fail(daemon.ExitUsage, "purge %s: it is not on the mount of the workspace: %w", ui.Name(p), os.ErrInvalid)
		}
		w = at
		out = append(out, daemon.Path(at.path))
	}
	return w, w.workspace, out, nil
}
