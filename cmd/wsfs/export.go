package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"wsfs/blob"
	"wsfs/internal/daemon"
	"wsfs/internal/ui"
	"wsfs/store"
	"wsfs/versions"
)

func (a *app) exportCmd() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use: "export WS[@REV] DIR|FILE.tar|-", ValidArgsFunction: a.completeWorkspace,
		Short: "Write out a workspace as it is or was",
		Long: "Writes the whole tree with modes, times, symbolic and hard links and extended attributes into the directory DIR, which\n" +
			"must be empty or missing, into the archive FILE.tar, or as an archive to the standard output (-). Owners are kept if\n" +
			"the caller is root.",
		Args: cobra.ExactArgs(2),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		rev, err := versions.Parse(args[0], time.Local)
		if err != nil {
			return err
		}
		w, err := a.here()
		if err != nil {
			return err
		}
		if rev.Workspace == "" {
			rev.Workspace = w.workspace
		}
		st, err := a.openRead(ctx, w.store)
		if err != nil {
			return err
		}
		defer st.Close()
		res, err := versions.Resolve(ctx, st.Store, rev, a.out.Now)
		if err != nil {
			return err
		}
		root, err := versions.Find(ctx, res.View, "", false)
		if err != nil {
			return err
		}
		e := &export{ctx: ctx, st: st.Store, view: res.View, root: root, note: a.note}
		switch target := args[1]; {
		case target == "-":
			if a.out.Terminal {
				return daemon.Fail(daemon.ExitUsage, "export %s: an archive is nothing for a terminal; redirect the output or name a file", rev)
			}
			return e.tar(a.stdout)
		case strings.HasSuffix(target, ".tar"):
			err = e.tarFile(target, force)
		default:
			err = e.dir(target)
		}
		if err != nil {
			return fmt.Errorf("export %s to %s: %w", rev, args[1], err)
		}
		fmt.Fprintf(a.out.Writer(), "exported %s to %s: %s, %s\n", rev, ui.Name(args[1]), ui.Plural(e.count, "path"), ui.Bytes(e.bytes))
		return nil
	}
	cmd.Flags().BoolVar(&force, "force", false, "replace FILE.tar if it exists")
	return cmd
}

// export is one run of the command.
type export struct {
	ctx   context.Context
	st    *store.Store
	view  *store.View
	root  *store.Version
	note  func(string, ...any)
	count int64
	bytes int64
}

func (e *export) content(v *store.Version) io.Reader {
	return e.st.Blobs().Reader(e.ctx, blob.Content{Ref: v.Content, Size: v.Size})
}

// dir exports into a directory. If it fails, what it wrote is removed again.
func (e *export) dir(target string) error {
	d, err := openTree(target)
	if err != nil {
		return err
	}
	defer d.close()
	if !d.made {
		names, err := d.top().Readdirnames(1)
		if len(names) > 0 {
			return fmt.Errorf("%w: it holds %s; give an empty directory or a new name", syscall.ENOTEMPTY, ui.Name(names[0]))
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	d.e = e
	err = versions.Walk(e.ctx, e.view, e.root, d.enter, d.leave)
	if err == nil {
		return nil
	}
	if cerr := d.undo(); cerr != nil {
		return fmt.Errorf("%w (and what was written could not be removed: %w)", err, cerr)
	}
	return err
}
