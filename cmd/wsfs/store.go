package main

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"wsfs/internal/daemon"
	"wsfs/store"
	"wsfs/store/sqlite"
)

func (a *app) storeCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "store",
		Short: "Look after a store or a backup",
		Args:  noArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.storeVerifyCmd())
	return cmd
}

func (a *app) storeVerifyCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify [DIR]",
		Short: "Read and hash everything in a store or a backup",
		Long: "Reads all of the store or backup in DIR (default: the store that commands use here): the files of a backup are what they\n" +
			"were when it was made, every rule of docs/format.md holds, every byte of content has its hash. 1 if anything is wrong. A\n" +
			"store that nobody serves, and a backup, are not changed, and may be on a disk that cannot be written.",
		Args: cobra.MaximumNArgs(1),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		w, err := a.here()
		if err != nil {
			return err
		}
		dir := w.store
		if len(args) == 1 {
			mounts, err := daemon.Mounts()
			if err != nil {
				return err
			}
			if dir, err = a.realPath(mounts, args[0]); err != nil {
				return err
			}
		}
		st, err := a.openToVerify(ctx, dir)
		if err != nil {
			return err
		}
		defer st.Close()
		return a.check(ctx, dir, st.Store, st.Store.CheckFiles)
	}
	a.jsonFlag(cmd)
	return cmd
}

// openToVerify opens a backup as it lies there, and a store with what a daemon or its journal still has.
func (a *app) openToVerify(ctx context.Context, dir string) (*reading, error) {
	switch _, err := store.ReadBackup(dir); {
	case errors.Is(err, os.ErrNotExist):
		return a.openRead(ctx, dir)
	case err != nil:
		return nil, err
	}
	st, err := store.Open(ctx, dir, sqlite.Driver(), store.Options{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	return &reading{st, st.Close}, nil
}
