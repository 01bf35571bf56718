package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"wsfs/fs/fuse"
	"wsfs/internal/daemon"
	"wsfs/internal/ui"
)

func (a *app) umountCmd() *cobra.Command {
	var all, lazy bool
	cmd := &cobra.Command{
		Use:     "umount MOUNTPOINT | --all",
		Aliases: []string{"unmount"},
		Short:   "Unmount workspaces",
		Long: "Unmounts the workspace on MOUNTPOINT, or all mounts of the store. What was closed there is in the database when\n" +
			"this returns. A mount whose daemon died is cleared.",
		Args: func(_ *cobra.Command, args []string) error {
			if all != (len(args) == 0) || len(args) > 1 {
				return errors.New("give either one mountpoint or --all")
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "every mount of the store")
	cmd.Flags().BoolVarP(&lazy, "lazy", "l", false, "take it away now, although somebody uses it; users may finish")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		mounts, err := daemon.Mounts()
		if err != nil {
			return err
		}
		if all {
			w, err := a.here()
			if err != nil {
				return err
			}
			return a.umountAll(ctx, w.store, mounts, lazy)
		}
		point, err := a.realPath(mounts, args[0])
		if err != nil {
			return err
		}
		m := daemon.MountAt(mounts, point)
		switch {
		case m == nil:
			hint := "`wsfs status` lists the mounts of the store"
			if on := daemon.MountOf(mounts, point); on != nil && on.Ours() {
				hint = "did you mean " + on.Point + "?"
			}
			return daemon.Fail(daemon.ExitNothing, "unmount %s: nothing is mounted there; %s", point, hint)
		case !m.Ours():
			return daemon.Fail(daemon.ExitFailed, "unmount %s: a file system of type %s is mounted there, not a workspace; use umount(8)", point, m.Type)
		}
		return a.umountOne(ctx, m, lazy)
	}
	return cmd
}

func (a *app) umountOne(ctx context.Context, m *daemon.MountInfo, lazy bool) error {
	if err := a.end(ctx, m, lazy); err != nil {
		return err
	}
	fmt.Fprintf(a.out.Writer(), "%s unmounted from %s\n", isOf(ui.Name(m.Label()), m.All()), ui.Name(m.Point))
	return nil
}

// end unmounts through the mount's daemon; a mount that no daemon answers for is dead and is cleared.
func (a *app) end(ctx context.Context, m *daemon.MountInfo, lazy bool) error {
	c, err := daemon.Dial(m.Store())
	if err != nil {
		return err
	}
	if c != nil {
		_, err := c.Unmount(ctx, m.Point, lazy)
		var gone *daemon.GoneError
		if err == nil {
			waitEnd(ctx, c, m.Store())
			return nil
		}
		if !errors.As(err, &gone) && daemon.ExitCode(err) != daemon.ExitNothing {
			return err
		}
	}
	// Whoever answers no request cannot be asked; lazily, because programs may still hold its files.
	return fuse.UnmountPath(ctx, m.Point, true)
}

// waitEnd waits for a daemon that ends because it lost its last mount, so that the store is free afterwards. The socket
// is the last thing that a daemon removes.
func waitEnd(ctx context.Context, c *daemon.Client, dir string) {
	if st, err := c.Status(ctx); err == nil && !st.Ending {
		return
	}
	for range 1000 {
		if _, err := os.Lstat(daemon.SocketPath(dir)); err != nil || ctx.Err() != nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (a *app) umountAll(ctx context.Context, dir string, mounts []daemon.MountInfo, lazy bool) error {
	var errs []error
	found := 0
	for i := len(mounts) - 1; i >= 0; i-- {
		m := &mounts[i]
		if !m.Ours() || m.Store() != dir {
			continue
		}
		found++
		if err := a.umountOne(ctx, m, lazy); err != nil && !gone(m) {
			errs = append(errs, err)
		}
	}
	if c, err := daemon.Dial(dir); found == 0 && err == nil && c != nil {
		// Its mounts are in another mount namespace: only it can reach them.
		res, err := c.Unmount(ctx, "", lazy)
		for _, p := range res.Unmounted {
			found++
			fmt.Fprintf(a.out.Writer(), "unmounted %s\n", ui.Name(string(p)))
		}
		if err != nil {
			return err
		}
		waitEnd(ctx, c, dir)
	}
	if found == 0 {
		return daemon.Fail(daemon.ExitNothing, "unmount all: the store %s has no mounts", dir)
	}
	return errors.Join(errs...)
}

// gone reports whether m is mounted no longer: whoever mounted it, such as a `wsfs run` that ended, may have taken it away
// since the mounts were listed.
func gone(m *daemon.MountInfo) bool {
	now, err := daemon.Mounts()
	return err == nil && !slices.ContainsFunc(now, func(n daemon.MountInfo) bool { return n.ID == m.ID && n.Source == m.Source })
}
