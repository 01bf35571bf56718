package main

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"wsfs/internal/daemon"
	"wsfs/internal/ui"
	"wsfs/store"
	"wsfs/store/sqlite"
)

func (a *app) initCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "init",
		Short: "Make a store",
		Long:  "Makes an empty store in --store, $WSFS_STORE or $XDG_DATA_HOME/wsfs (~/.local/share/wsfs), in this order.",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			mounts, err := daemon.Mounts()
			if err != nil {
				return err
			}
			dir := a.storeFlag
			if dir == "" {
				// Not the mount one stands in: that has a store.
				if dir, err = a.defaultStore(); err != nil {
					return err
				}
			}
			if dir, err = a.realPath(mounts, dir); err != nil {
				return err
			}
			if m := daemon.MountOf(mounts, dir); m != nil && m.Ours() {
				return daemon.Fail(daemon.ExitFailed, "make store %s: it would be inside the mount of %s at %s; choose a directory outside: %w",
					dir, m.Shown(), m.Point, syscall.EINVAL)
			}
			for up := filepath.Dir(dir); up != "/"; up = filepath.Dir(up) {
				if _, err := os.Stat(filepath.Join(up, sqlite.File)); err == nil {
					return daemon.Fail(daemon.ExitFailed, "make store %s: it would be inside the store %s; choose a directory outside: %w", dir, up, syscall.EINVAL)
				}
			}
			if _, err := os.Stat(filepath.Join(dir, sqlite.File)); err == nil {
				return daemon.Fail(daemon.ExitNothing, "make store %s: there is one already", dir)
			}
			if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
				return err
			}
			if err := store.Init(cmd.Context(), dir, sqlite.Driver()); err != nil {
				if errors.Is(err, store.ErrExists) {
					return daemon.Fail(daemon.ExitNothing, "%w", err)
				}
				return err
			}
			a.out.Writer().WriteString("made store " + ui.Name(dir) + "\n")
			return nil
		},
	}
}
