package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"wsfs/internal/ui"
	"wsfs/store"
	"wsfs/versions"
)

// duReply is what `wsfs du --json` prints.
type duReply struct {
	store.Usage
	Keep       string        `json:"keep"`
	Workspaces []duWorkspace `json:"workspaces,omitempty"`
	Paths      []duPath      `json:"paths,omitempty"`
}

type duWorkspace struct {
	Workspace string `json:"workspace"`
	Dropped   bool   `json:"dropped,omitempty"`
	Bytes     int64  `json:"bytes"`
	Versions  int64  `json:"versions"`
}

type duPath struct {
	Workspace  string `json:"workspace"`
	Dropped    bool   `json:"dropped,omitempty"`
	Path       string `json:"path"`
	PathBase64 string `json:"path_base64,omitempty"`
	Bytes      int64  `json:"bytes"`
	Versions   int64  `json:"versions"`
}

func (a *app) duCmd() *cobra.Command {
	var history bool
	var most int
	cmd := &cobra.Command{
		Use:   "du",
		Short: "Say what the bytes of the store are",
		Long: "The parts add up to the size of the store's files. Content counts once: for what is shown now, else for history, else for\n" +
			"dropped workspaces. --history tells which workspaces and which paths have the most of it.",
		Args: noArgs,
	}
	cmd.Flags().BoolVar(&history, "history", false, "also the workspaces and paths whose past takes most")
	cmd.Flags().IntVarP(&most, "number", "n", 20, "at most so many paths")
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
		u, spaces, paths, err := versions.DiskUsage(ctx, st.Store, max(most, 0))
		if err != nil {
			return err
		}
		keep, err := st.Retention(ctx)
		if err != nil {
			return err
		}
		r := duReply{Usage: u, Keep: keep.String()}
		if history {
			for _, s := range spaces {
				r.Workspaces = append(r.Workspaces, duWorkspace(s))
			}
			for _, p := range paths {
				d := duPath{Workspace: p.Workspace, Dropped: p.Dropped, Bytes: p.Bytes, Versions: p.Versions}
				d.Path, d.PathBase64 = ui.Text(p.Path)
				r.Paths = append(r.Paths, d)
			}
		}
		if a.json {
			return a.out.JSON(r)
		}
		a.printDU(&r)
		return nil
	}
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) printDU(r *duReply) {
	t := a.out.NewTable("", "", "")
	row := func(what string, n int64, more string) { t.Row(what, ui.Bytes(n), more) }
	row("live", r.Live, ui.Plural(r.LiveFiles, "file")+" as they are now")
	row("history", r.History, fmt.Sprintf("%s, %s; keep: %s", ui.Plural(r.Versions, "version"), ui.Plural(r.Changes, "change"), r.Keep))
	for _, class := range store.ClassNames() {
		if n := r.Classes[class]; class != store.Versioned && (n > 0 || class == store.Scratch && r.LetGo > 0) {
			more := "of the history; see `wsfs class`"
			if class == store.Scratch && r.LetGo > 0 {
				more += "; " + ui.Plural(r.LetGo, "content") + " of classes let go"
			}
			row("  "+string(class), n, more)
		}
	}
	row("dropped", r.Dropped, "workspaces that can still be brought back")
	row("unneeded", r.Unneeded+r.PackWaste, "`wsfs gc` gives back what is worth it")
	row("rows", r.Rows, "names, versions, who did what")
	row("free", r.Free, "in the database, used again")
	row("journal", r.Journal+r.Log, "what is under way, and its reserve")
	row("other", r.Other, "logs, caches")
	row("total", r.Total, "")
	t.Print()
	if r.Pinned+r.PolicyKept > 0 {
		fmt.Fprintf(a.out.Writer(), "of collected history, %s kept by tags, forks and mounts, %d by the policy\n",
			ui.Plural(r.Pinned, "state"), r.PolicyKept)
	}
	if len(r.Workspaces) > 0 {
		t := a.out.NewTable("HISTORY OF", "BYTES", "VERSIONS")
		for _, s := range r.Workspaces {
			name := ui.Name(s.Workspace)
			if s.Dropped {
				name += " (dropped)"
			}
			t.Row(name, ui.Bytes(s.Bytes), fmt.Sprint(s.Versions))
		}
		t.Print()
	}
	if len(r.Paths) > 0 {
		t := a.out.NewTable("PATH", "BYTES", "VERSIONS")
		for _, p := range r.Paths {
			t.Row(ui.Name(p.Workspace+":"+p.Path), ui.Bytes(p.Bytes), fmt.Sprint(p.Versions))
		}
		t.Print()
	}
}
