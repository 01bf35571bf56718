package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"wsfs/internal/daemon"
	"wsfs/internal/ui"
	"wsfs/versions"
)

func (a *app) mountCmd() *cobra.Command {
	var req daemon.MountRequest
	var options []string
	var foreground, create bool
	cmd := &cobra.Command{
		Use: "mount WS[@REV] MOUNTPOINT | --all MOUNTPOINT", ValidArgsFunction: a.completeWorkspace,
		Short: "Mount a workspace, or all",
		Long: "Mounts workspace WS on the directory MOUNTPOINT. One daemon serves all mounts of a store; it is started by the\n" +
			"first mount and ends after the last one. WS@REV mounts that state, read-only: it stays what it is for as long as it is\n" +
			"mounted. With --ephemeral-fork a fork of it is mounted, which is dropped when it is unmounted. --all mounts every\n" +
			"workspace as a directory: what `wsfs fork` makes appears there at once.",
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case req.All && len(args) != 1:
				return errors.New("give the mountpoint alone with --all")
			case !req.All && len(args) != 2:
				return errors.New("give a workspace and a mountpoint")
			}
			return nil
		},
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if req.All {
			args = append([]string{""}, args...)
		}
		if err := a.mountTarget(&req, args[0], create); err != nil {
			return err
		}
		if err := mountOptions(&req, options); err != nil {
			return err
		}
		mounts, err := daemon.Mounts()
		if err != nil {
			return err
		}
		point, err := a.realPath(mounts, args[1])
		if err != nil {
			return err
		}
		req.Mountpoint = daemon.Path(point)
		w, err := a.here()
		if err != nil {
			return err
		}
		if err := peek(cmd.Context(), w.store); err != nil {
			return err
		}
		if foreground {
			return a.mountHere(cmd.Context(), w.store, req, create)
		}
		return a.mountThere(cmd.Context(), w.store, req, create)
	}
	f := cmd.Flags()
	f.BoolVar(&req.All, "all", false, "every workspace of the store, as directories")
	f.BoolVar(&req.ReadOnly, "read-only", false, "nobody may change anything through this mount")
	f.StringVar(&req.Session, "session", "", "session of processes that have no WSFS_SESSION of their own")
	f.StringSliceVarP(&options, "options", "o", nil, "mount options: allow_other, ro, rw, suid, dev, exec, noexec, nonempty, echo, noecho, durability=close")
	f.BoolVar(&foreground, "foreground", false, "serve in this process, until it is interrupted or the mount is gone")
	f.BoolVar(&create, "create", false, "make an empty workspace if there is none of that name")
	f.BoolVar(&req.Temporary, "ephemeral-fork", false, "mount a fork of it, which is dropped when it is unmounted")
	f.StringVar(&req.Durability, "durability", daemon.DurableFsync, "what survives a power loss: `fsync`, what was synced; close, every close and change")
	f.StringArrayVar(&req.Conflicts, "conflicts", nil, "what becomes of a write over a change of another session that the writer has not seen: merge (default),\n"+
		"keep or reject, or PATTERN=POLICY for some paths; may be given several times")
	f.StringVar(&req.Transport, "transport", "", "own, uring or stock")
	_ = f.MarkHidden("transport") // it is there
	return cmd
}

// isOf is what a mount shows with its verb.
func isOf(label string, all bool) string {
	if all {
		return label + " are"
	}
	return label + " is"
}

// mountTarget reads what is to be mounted: WS, or WS@REV, or @REV of the workspace one is in.
func (a *app) mountTarget(req *daemon.MountRequest, arg string, create bool) error {
	if req.All {
		if create || req.Temporary {
			return daemon.Fail(daemon.ExitUsage, "mount --all: --create and --ephemeral-fork are for one workspace")
		}
		return nil
	}
	if !strings.Contains(arg, "@") {
		req.Workspace = arg
		if err := versions.CheckWorkspaceName(arg); err != nil {
			return &daemon.Error{Exit: daemon.ExitUsage, Err: err}
		}
		if create && req.Temporary {
			return daemon.Fail(daemon.ExitUsage, "mount %s: --create and --ephemeral-fork do not go together: there would be nothing to fork", arg)
		}
		return nil
	}
	_, rev, err := a.revisionHere(arg)
	if err != nil {
		return err
	}
	if create {
		return daemon.Fail(daemon.ExitUsage, "mount %s: --create makes an empty workspace, which has no past; leave one of them out", arg)
	}
	req.Workspace, req.Revision = rev.Workspace, rev.String()
	return nil
}

// mountOptions reads what mount(8) would pass behind -o.
func mountOptions(req *daemon.MountRequest, options []string) error {
	for _, o := range options {
		switch o {
		case "allow_other":
			req.AllowOther = true
		case "ro":
			req.ReadOnly = true
		case "rw":
			req.ReadOnly = false
		case "suid":
			req.Suid = true
		case "nosuid":
			req.Suid = false
		case "dev":
			req.Dev = true
		case "nodev":
			req.Dev = false
		case "noexec":
			req.NoExec = true
		case "exec":
			req.NoExec = false
		case "nonempty":
			req.NonEmpty = true
		case "noecho":
			req.NoEcho = true
		case "echo":
			req.NoEcho = false
		case "default_permissions", "auto", "noauto", "_netdev", "noatime", "nodiratime", "relatime", "":
			// Always on, or the business of whoever reads fstab; reading moves no atime anyway.
		case "durability=fsync", "durability=close":
			_, req.Durability, _ = strings.Cut(o, "=")
		default:
			return daemon.Fail(daemon.ExitUsage, "mount option %q is not known; there are allow_other, ro, rw, suid, nosuid, dev, nodev, exec, noexec, nonempty, echo, noecho, durability=fsync, durability=close", o)
		}
	}
	if req.Durability != "" && req.Durability != daemon.DurableFsync && req.Durability != daemon.DurableClose {
		return daemon.Fail(daemon.ExitUsage, "durability %q is not known; there are fsync and close", req.Durability)
	}
	switch req.Transport {
	case "", "own", "uring", "stock":
		return nil
	}
	return daemon.Fail(daemon.ExitUsage, "transport %q is not known; there are own, uring and stock", req.Transport)
}

// mountThere mounts through the store's daemon, which it starts if there is none.
func (a *app) mountThere(ctx context.Context, dir string, req daemon.MountRequest, create bool) error {
	for deadline := time.Now().Add(lockPatience); ; {
		c, err := daemon.Dial(dir)
		if err != nil {
			return err
		}
		if c == nil {
			err = a.startDaemon(ctx, dir)
			if err != nil {
				// Another command may have started one in the same moment.
				c, _ = daemon.Dial(dir)
				if c == nil && errors.Is(err, syscall.EBUSY) && time.Now().Before(deadline) {
					time.Sleep(20 * time.Millisecond) // it has the store, but does not listen yet or no more
					continue
				}
				if c == nil {
					return err
				}
			}
			if c, err = daemon.Dial(dir); c == nil && err == nil {
				err = fmt.Errorf("mount %s on %s: the daemon ended right after its start; the end of %s may say why", req.Workspace, req.Mountpoint, daemon.LogFile(dir))
			}
			if err != nil {
				return err
			}
		}
		m, err := a.askMount(ctx, c, req, create)
		var gone *daemon.GoneError
		if (errors.As(err, &gone) || errors.Is(err, syscall.EAGAIN)) && time.Now().Before(deadline) {
			time.Sleep(20 * time.Millisecond) // it was just ending
			continue
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(a.out.Writer(), "%s mounted on %s\n", isOf(m.Label(), m.All), ui.Name(string(m.Mountpoint)))
		return nil
	}
}

func (a *app) askMount(ctx context.Context, c *daemon.Client, req daemon.MountRequest, create bool) (daemon.Mount, error) {
	if create {
		if err := c.CreateWorkspace(ctx, req.Workspace); err != nil && !errors.Is(err, syscall.EEXIST) {
			return daemon.Mount{}, err
		}
	}
	return c.Mount(ctx, req)
}

func (a *app) startDaemon(ctx context.Context, dir string) error {
	exe := a.exe
	if path, err := os.Executable(); err == nil {
		if _, err := os.Stat(path); err == nil {
			exe = path // ps shows a name instead of "exe"
		}
	}
	_, err := daemon.Spawn(ctx, dir, exe, keeperName, dir)
	return err
}

// mountHere serves the mount in this process. If a daemon runs already it does the work, and this process stays for as
// long as the mount does.
func (a *app) mountHere(ctx context.Context, dir string, req daemon.MountRequest, create bool) error {
	c, err := daemon.Dial(dir)
	if err != nil {
		return err
	}
	if c == nil {
		return a.serve(ctx, dir, true, nil, func(c *daemon.Client) error {
			m, err := a.askMount(ctx, c, req, create)
			if err == nil {
				a.note("%s mounted on %s; interrupt to unmount", isOf(m.Label(), m.All), ui.Name(string(m.Mountpoint)))
			}
			return err
		})
	}
	m, err := a.askMount(ctx, c, req, create)
	if err != nil {
		return err
	}
	a.note("%s mounted on %s by the daemon that runs already; interrupt to unmount", isOf(m.Label(), m.All), ui.Name(string(m.Mountpoint)))
	for {
		select {
		case <-ctx.Done():
			_, err := c.Unmount(context.WithoutCancel(ctx), string(req.Mountpoint), false)
			return err
		case <-time.After(time.Second):
		}
		mounts, err := daemon.Mounts()
		if err != nil {
			return err
		}
		if m := daemon.MountAt(mounts, string(req.Mountpoint)); m == nil || !m.Ours() {
			return nil
		}
	}
}
