package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"wsfs/internal/daemon"
	"wsfs/internal/ui"
	"wsfs/store"
)

// workspaceLine is one line of `wsfs workspaces --json`.
type workspaceLine struct {
	Name     string        `json:"name"`
	ID       int64         `json:"id"`
	Seq      int64         `json:"seq"`
	Created  string        `json:"created"`
	Origin   daemon.Path   `json:"origin,omitempty"`
	ReadOnly bool          `json:"read_only"`
	Mounted  []daemon.Path `json:"mounted"`
	Pinned   []pinnedLine  `json:"pinned,omitempty"`
	// Parent and BaseSeq are where a fork started.
	Parent  string `json:"parent,omitempty"`
	BaseSeq int64  `json:"base_seq,omitempty"`
	Dropped string `json:"dropped,omitempty"` // when
}

// pinnedLine is a mount of a past state.
type pinnedLine struct {
	Mountpoint daemon.Path `json:"mountpoint"`
	Seq        int64       `json:"seq"`
}

func (a *app) workspacesCmd() *cobra.Command {
	var dropped bool
	cmd := &cobra.Command{
		Use:     "workspaces",
		Aliases: []string{"ws"},
		Short:   "List the workspaces of the store",
		Args:    noArgs,
	}
	cmd.Flags().BoolVar(&dropped, "dropped", false, "those that were dropped and that `wsfs undrop` can bring back")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		w, err := a.here()
		if err != nil {
			return err
		}
		st, err := a.openRead(ctx, w.store)
		if err != nil {
			return err
		}
		defer st.Close()
		lines, err := workspaceLines(ctx, st.Store, dropped)
		if err != nil {
			return err
		}
		if !dropped {
			if err := addMounts(lines, w.store); err != nil {
				return err
			}
		}
		if a.json {
			for _, l := range lines {
				if err := a.out.JSON(l); err != nil {
					return err
				}
			}
			return nil
		}
		switch {
		case len(lines) > 0:
			a.printWorkspaces(lines, dropped)
		case dropped:
			a.note("the store %s has no dropped workspace", w.store)
		default:
			a.note("the store %s has no workspace yet; `wsfs import DIR WS` makes one", w.store)
		}
		return nil
	}
	a.jsonFlag(cmd)
	return cmd
}

func workspaceLines(ctx context.Context, st *store.Store, dropped bool) ([]*workspaceLine, error) {
	live, err := st.Workspaces(ctx)
	if err != nil {
		return nil, err
	}
	gone, err := st.DroppedWorkspaces(ctx)
	if err != nil {
		return nil, err
	}
	names := map[store.WorkspaceID]string{}
	for _, ws := range append(live, gone...) {
		names[ws.ID] = ws.Name
	}
	list := live
	if dropped {
		list = gone
	}
	heads, err := st.Heads(ctx)
	if err != nil {
		return nil, err
	}
	lines := make([]*workspaceLine, len(list))
	for i, ws := range list {
		l := &workspaceLine{
			Name: ws.Name, ID: int64(ws.ID), Seq: int64(ws.BaseSeq), Created: ui.Stamp(ws.CreatedAt), Origin: daemon.Path(ws.OriginPath),
			ReadOnly: ws.ReadOnly, Mounted: []daemon.Path{}, Parent: names[ws.Parent], BaseSeq: int64(ws.BaseSeq),
		}
		if ws.DroppedAt != 0 {
			l.Dropped = ui.Stamp(ws.DroppedAt)
		}
		if ws.Timeline != 0 {
			l.Seq = int64(heads[ws.Timeline])
		}
		switch {
		case l.Parent == "":
			l.BaseSeq = 0
		case ws.Generation > 1: // its base is where it was rolled back to; the oldest line says where it started
			refs, err := st.RefLog(ctx, ws.ID)
			if err != nil {
				return nil, err
			}
			if len(refs) > 0 {
				l.BaseSeq = int64(refs[len(refs)-1].BaseSeq)
			}
		}
		lines[i] = l
	}
	return lines, nil
}

// addMounts says where each workspace is mounted.
func addMounts(lines []*workspaceLine, dir string) error {
	mounts, err := daemon.Mounts()
	if err != nil {
		return err
	}
	byName := map[string]*workspaceLine{}
	for _, l := range lines {
		byName[l.Name] = l
	}
	for i := range mounts {
		m := &mounts[i]
		if m.Ours() && m.Store() == dir && m.All() {
			for _, l := range lines {
				l.Mounted = append(l.Mounted, daemon.Path(filepath.Join(m.Point, l.Name)))
			}
		}
		if m.Ours() && m.Store() == dir && byName[m.Workspace()] != nil {
			l := byName[m.Workspace()]
			if seq, err := strconv.ParseInt(m.Seq(), 10, 64); err == nil {
				l.Pinned = append(l.Pinned, pinnedLine{daemon.Path(m.Point), seq})
			} else {
				l.Mounted = append(l.Mounted, daemon.Path(m.Point))
			}
		}
	}
	return nil
}

func (a *app) printWorkspaces(lines []*workspaceLine, dropped bool) {
	last := "MOUNTED ON"
	if dropped {
		last = "DROPPED"
	}
	t := a.out.NewTable("WORKSPACE", ">SEQ", "CREATED", "STARTED AS", last)
	when := func(stamp string) string {
		at, err := time.Parse(time.RFC3339Nano, stamp)
		if err != nil {
			return stamp
		}
		return a.out.Time(at.Local())
	}
	for _, l := range lines {
		from, end := "-", "-"
		switch {
		case l.Parent != "":
			from = fmt.Sprintf("%s@%d", l.Parent, l.BaseSeq)
		case l.Origin != "":
			from = ui.Name(string(l.Origin))
		}
		if dropped {
			end = when(l.Dropped)
		} else if len(l.Mounted)+len(l.Pinned) > 0 {
			var points []string
			for _, p := range l.Mounted {
				points = append(points, ui.Name(string(p)))
			}
			for _, p := range l.Pinned {
				points = append(points, fmt.Sprintf("%s (@%d)", ui.Name(string(p.Mountpoint)), p.Seq))
			}
			end = strings.Join(points, ", ")
		}
		t.Row(l.Name, fmt.Sprint(l.Seq), when(l.Created), from, end)
	}
	t.Print()
}
