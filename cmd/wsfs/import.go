package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"wsfs/internal/daemon"
	"wsfs/internal/ui"
	"wsfs/versions"
)

func (a *app) importCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import DIR [WS]",
		Short: "Read a directory into a workspace",
		Long: "Makes workspace WS (default: the directory's name) equal to DIR, with modes, times, owners, symbolic and hard\n" +
			"links and extended attributes. If WS exists, only what differs is recorded, as one change.",
		Args: cobra.RangeArgs(1, 2),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		mounts, err := daemon.Mounts()
		if err != nil {
			return err
		}
		dir, err := a.realPath(mounts, args[0])
		if err != nil {
			return err
		}
		name := filepath.Base(dir)
		if len(args) == 2 {
			name = args[1]
		}
		if err := versions.CheckWorkspaceName(name); err != nil {
			return &daemon.Error{Exit: daemon.ExitUsage, Err: err}
		}
		w, err := a.here()
		if err != nil {
			return err
		}
		c, err := a.connect(ctx, w.store)
		if err != nil {
			return err
		}
		bar := a.importBar(name)
		res, err := c.Import(ctx, daemon.ImportRequest{Workspace: name, Dir: daemon.Path(dir)}, bar.line)
		bar.Close()
		if cerr := c.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return err
		}
		for _, s := range res.Skipped {
			a.note("skipped: %s", s)
		}
		switch {
		case a.json:
			return a.out.JSON(res)
		case res.Seq == 0 && !res.Created:
			return daemon.Fail(daemon.ExitNothing, "import %s: workspace %q is equal to it already", dir, name)
		}
		fmt.Fprintf(a.out.Writer(), "imported %s into %s: %s added, %s changed, %s removed, %s unchanged, %s read\n", ui.Name(dir), name,
			ui.Count(res.Added), ui.Count(res.Changed), ui.Count(res.Removed), ui.Count(res.Unchanged), ui.Bytes(res.Bytes))
		return nil
	}
	a.jsonFlag(cmd)
	return cmd
}

// importBar shows how far an import is.
type importBar struct{ *ui.Progress }

func (a *app) importBar(name string) importBar {
	return importBar{ui.NewProgress(a.stderr, a.printer(a.stderr).Terminal && !a.json, "import "+name)}
}

func (b importBar) line(l daemon.ImportLine) {
	note := l.Phase
	switch {
	case l.Phase == "store":
		note = fmt.Sprintf("storing %s files, %s", ui.Count(l.Total), ui.Bytes(l.Bytes))
	case l.Total > 0:
		note = fmt.Sprintf("%s of %s files, %s", ui.Count(l.Files), ui.Count(l.Total), ui.Bytes(l.Bytes))
	case l.Files > 0:
		note = fmt.Sprintf("%s files found", ui.Count(l.Files))
	}
	b.Set(l.Files, l.Total, note)
}
