package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"wsfs/internal/daemon"
	"wsfs/internal/ui"
	"wsfs/store"
)

// statusReply is `wsfs status --json`: one object.
type statusReply struct {
	Store   daemon.Path    `json:"store"`
	Running bool           `json:"running"`
	Daemon  *daemon.Status `json:"daemon,omitempty"`
	Stale   []daemon.Path  `json:"stale_mounts,omitempty"`
	Here    *placeReply    `json:"here,omitempty"`
}

type placeReply struct {
	Workspace  string      `json:"workspace"`
	Mountpoint daemon.Path `json:"mountpoint"`
	Path       daemon.Path `json:"path"`
}

func (a *app) statusCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status [MOUNTPOINT]",
		Short: "Say how the store, its daemon and its mounts are",
		Args:  cobra.MaximumNArgs(1),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		w, err := a.here()
		if len(args) == 1 {
			if w, err = a.placeOf(args[0]); err == nil && w.mount == nil {
				return daemon.Fail(daemon.ExitFailed, "status of %s: it is on no mount of a workspace; `wsfs status` lists the mounts", args[0])
			}
		}
		if err != nil {
			return err
		}
		if err := checkStore(w.store); err != nil {
			return err
		}
		r, err := a.status(cmd.Context(), w, len(args) == 1)
		if err != nil {
			return err
		}
		if a.json {
			return a.out.JSON(r)
		}
		a.printStatus(r)
		return nil
	}
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) status(ctx context.Context, w where, only bool) (*statusReply, error) {
	r := &statusReply{Store: daemon.Path(w.store)}
	if w.mount != nil {
		r.Here = &placeReply{w.workspace, daemon.Path(w.mount.Point), daemon.Path(w.path)}
	}
	c, err := daemon.Dial(w.store)
	if err != nil {
		return nil, err
	}
	if c != nil {
		st, err := c.Status(ctx)
		var gone *daemon.GoneError
		if err != nil && !errors.As(err, &gone) {
			return nil, err
		}
		if err == nil {
			r.Running, r.Daemon = true, &st
		}
	}
	served := map[daemon.Path]bool{}
	if r.Running {
		var keep []daemon.Mount
		for _, m := range r.Daemon.Mounts {
			served[m.Mountpoint] = true
			if !only || string(m.Mountpoint) == w.mount.Point {
				keep = append(keep, m)
			}
		}
		r.Daemon.Mounts = keep
	}
	left, err := daemon.StaleMounts(w.store)
	if err != nil {
		return nil, err
	}
	for i := range left {
		if p := daemon.Path(left[i].Point); !served[p] {
			r.Stale = append(r.Stale, p)
		}
	}
	return r, nil
}

func (a *app) printStatus(r *statusReply) {
	t := a.out.NewTable("", "")
	t.Row("store", ui.Name(string(r.Store)))
	if r.Here != nil {
		t.Row("here", fmt.Sprintf("workspace %s, path %s", r.Here.Workspace, ui.Name("/"+string(r.Here.Path))))
	}
	if !r.Running {
		daemonText := "none is running; `wsfs mount` starts one"
		if info, err := store.ReadLock(string(r.Store)); err == nil && info.Socket == "" && len(r.Stale) == 0 {
			daemonText = "none is running"
		}
		t.Row("daemon", daemonText)
	} else {
		r.Daemon.Print(a.out, t)
	}
	for _, p := range r.Stale {
		t.Row("dead mount", fmt.Sprintf("%s; `wsfs umount %s` clears it", ui.Name(string(p)), ui.Quote(string(p))))
		t.Style(1, ui.Red)
	}
	t.Print()
}
