package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"wsfs/internal/daemon"
	"wsfs/internal/ui"
	"wsfs/store"
	"wsfs/store/sqlite"
)

// backupLine is the answer of `wsfs backup --json`.
type backupLine struct {
	Store    string `json:"store"`
	Dest     string `json:"dest"`
	Database int64  `json:"database_bytes"`
	Copied   int64  `json:"copied_bytes"`
	Kept     int64  `json:"kept_bytes"`
	Linked   int64  `json:"linked_bytes"`
	Verified int64  `json:"verified_blobs"`
	Looked   int64  `json:"compared_blobs"`
}

func (a *app) backupCmd() *cobra.Command {
	var o store.BackupOptions
	cmd := &cobra.Command{
		Use:   "backup DEST",
		Short: "Copy the store while it is in use",
		Long: "Makes the directory DEST a copy of the store with everything that was written before, by whomever: versions are made of\n" +
			"files that are open and dirty. DEST is missing, empty, or an earlier backup of this store, of which only what is new is\n" +
			"copied. The copy is read back. It is a store: `wsfs --store DEST mount WS DIR` shows it, and makes a store of its own of it\n" +
			"that no further backup is written to. An interrupted backup leaves the one before.",
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().BoolVar(&o.Link, "link", false, "hard links of full packs, where DEST is on the same file system: no protection against a failing disk")
	cmd.Flags().BoolVar(&o.Full, "full", false, "read and hash every byte of the backup and test every rule, not only what is new")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		w, err := a.here()
		if err != nil {
			return err
		}
		dest, err := a.backupDest(w.store, args[0])
		if err != nil {
			return err
		}
		bar := ui.NewProgress(a.stderr, a.printer(a.stderr).Terminal && !a.json, "backup")
		o.Progress = func(phase string, done, total int64) { bar.Set(done, total, phase) }
		rep, err := a.backup(ctx, w.store, dest, o)
		bar.Close()
		if err != nil {
			return err
		}
		if a.json {
			return a.out.JSON(backupLine{w.store, dest, rep.Database, rep.Copied, rep.Kept, rep.Linked, rep.Verified, rep.Looked})
		}
		linked := ""
		if rep.Linked > 0 {
			linked = ui.Bytes(rep.Linked) + " linked, "
		}
		fmt.Fprintf(a.out.Writer(), "%s is a backup of %s: %s of database, %s of packs copied, %s%s kept; %s read back\n", ui.Name(dest), ui.Name(w.store),
			ui.Bytes(rep.Database), ui.Bytes(rep.Copied), linked, ui.Bytes(rep.Kept), ui.Plural(rep.Verified, "blob"))
		return nil
	}
	a.jsonFlag(cmd)
	return cmd
}

// backup makes the backup; if the daemon ends meanwhile, it goes on with the next one, or without.
func (a *app) backup(ctx context.Context, dir, dest string, o store.BackupOptions) (rep store.BackupReport, err error) {
	if _, err := store.ReadBackup(dir); err == nil { // opened for writing it would be one no more
		st, err := store.Open(ctx, dir, sqlite.Driver(), store.Options{ReadOnly: true})
		if err != nil {
			return rep, err
		}
		defer st.Close() // nothing was written
		return st.Backup(ctx, dest, o)
	}
	for range 3 {
		err = a.ask(ctx, dir, func(c *daemon.Client) error {
			held, release, err := c.Hold(ctx)
			if err != nil {
				return err
			}
			defer release()
			if _, err := c.Sync(ctx, daemon.SyncRequest{Durable: true}); err != nil {
				return err
			}
			st := c.Local()
			if st == nil {
				beside, err := store.Open(ctx, dir, sqlite.Driver(), store.Options{ReadOnly: true})
				if err != nil {
					return err
				}
				defer beside.Close() // nothing was written
				st = beside
			}
			rep, err = st.Backup(held, dest, o)
			if errors.Is(context.Cause(held), daemon.ErrHoldEnded) && err != nil {
				return daemon.ErrHoldEnded
			}
			return err
		})
		var gone *daemon.GoneError
		if !errors.As(err, &gone) || ctx.Err() != nil {
			break
		}
	}
	return rep, err
}

// backupDest resolves DEST and refuses what would be in the store, in a mount, or have the store in it.
func (a *app) backupDest(dir, arg string) (string, error) {
	mounts, err := daemon.Mounts()
	if err != nil {
		return "", err
	}
	dest, err := a.realPath(mounts, arg)
	if err != nil {
		return "", err
	}
	refuse := func(why string) (string, error) {
		return "", daemon.Fail(daemon.ExitFailed, "back up to %s: %s; choose another directory: %w", dest, why, syscall.EINVAL)
	}
	if m := daemon.MountOf(mounts, dest); m != nil && m.Ours() {
		return refuse(fmt.Sprintf("it would be inside the mount of %s at %s", m.Shown(), m.Point))
	}
	inside := func(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }
	if inside(dest, dir) {
		return refuse("it would be inside the store")
	}
	if inside(dir, dest) {
		return refuse("the store is inside it")
	}
	for up := filepath.Dir(dest); up != "/"; up = filepath.Dir(up) {
		if _, err := os.Stat(filepath.Join(up, sqlite.File)); err == nil {
			return refuse("it would be inside the store " + up)
		}
	}
	return dest, nil
}
