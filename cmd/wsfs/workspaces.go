package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"wsfs/internal/daemon"
	"wsfs/internal/ui"
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
}

func (a *app) workspacesCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "workspaces",
		Aliases: []string{"ws"},
		Short:   "List the workspaces of the store",
		Args:    noArgs,
	}
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
		list, err := st.Workspaces(ctx)
		if err != nil {
			return err
		}
		mounts, err := daemon.Mounts()
		if err != nil {
			return err
		}
		t := a.out.NewTable("WORKSPACE", ">SEQ", "CREATED", "MOUNTED ON", "IMPORTED FROM")
		for _, ws := range list {
			line := workspaceLine{
				Name: ws.Name, ID: int64(ws.ID), Seq: int64(ws.BaseSeq), Created: ui.Stamp(ws.CreatedAt), Origin: daemon.Path(ws.OriginPath),
				ReadOnly: ws.ReadOnly, Mounted: []daemon.Path{},
			}
			if ws.Timeline != 0 {
				tl, err := st.Timeline(ctx, ws.Timeline)
				if err != nil {
					return err
				}
				line.Seq = int64(tl.Head)
			}
			var points []string
			for i := range mounts {
				if m := &mounts[i]; m.Ours() && m.Store() == w.store && m.Workspace() == ws.Name {
					line.Mounted = append(line.Mounted, daemon.Path(m.Point))
					points = append(points, ui.Name(m.Point))
				}
			}
			if a.json {
				if err := a.out.JSON(line); err != nil {
					return err
				}
				continue
			}
			origin := "-"
			if ws.OriginPath != "" {
				origin = ui.Name(ws.OriginPath)
			}
			if len(points) == 0 {
				points = []string{"-"}
			}
			t.Row(ws.Name, fmt.Sprint(line.Seq), a.out.Time(time.Unix(0, ws.CreatedAt)), strings.Join(points, ", "), origin)
		}
		switch {
		case a.json:
		case len(list) == 0:
			a.note("the store %s has no workspace yet; `wsfs import DIR WS` makes one", w.store)
		default:
			t.Print()
		}
		return nil
	}
	a.jsonFlag(cmd)
	return cmd
}
