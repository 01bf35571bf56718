package versions

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"syscall"

	"wsfs/blob"
	"wsfs/store"
)

// Damage is a version of a file whose bytes cannot be read.
type Damage struct {
	Workspace string // "" if no live workspace has it
	Path      string
	Seq       store.Seq // of the damaged version: WS@Seq:Path names it
	Now       bool      // the workspace shows this version today
}

// Damages finds the files that are made of damaged blobs, in all of history: those that are shown today first.
func Damages(ctx context.Context, st *store.Store, refs map[blob.Ref]bool) ([]Damage, error) {
	all, err := st.Workspaces(ctx)
	if err != nil {
		return nil, err
	}
	heads := make([]*store.View, len(all))
	for i, ws := range all {
		if heads[i], err = st.ViewOf(ctx, ws); err != nil {
			return nil, fmt.Errorf("workspace %q: %w", ws.Name, err)
		}
	}
	var out []Damage
	err = st.VersionsWith(ctx, refs, func(v *store.Version) error {
		if v.Nlink == 0 {
			return nil // the end of a file: no path leads to this version
		}
		d := Damage{Seq: v.Seq}
		at, err := st.ViewAt(ctx, v.Origin, v.Seq)
		if err == nil {
			d.Path, err = PathOf(ctx, at, v.Ino)
		}
		if err != nil && !errors.Is(err, syscall.ENOENT) {
			return err
		}
		if err != nil {
			d.Path = fmt.Sprintf("#%d", v.Ino) // it had no name then, or history was collected
		}
		for i, ws := range all {
			from, err := st.Lineage(ctx, heads[i])
			if err != nil {
				return err
			}
			for _, seg := range from {
				if seg.Timeline == v.Origin && v.Seq <= seg.Cut {
					d.Workspace = ws.Name
				}
			}
			now, err := heads[i].Version(ctx, v.Ino)
			if err == nil && now.ID == v.ID && now.Nlink > 0 {
				d.Workspace, d.Now = ws.Name, true
				if d.Path, err = PathOf(ctx, heads[i], v.Ino); err != nil {
					return err
				}
				break
			}
		}
		out = append(out, d)
		return nil
	})
	sort.SliceStable(out, func(i, j int) bool {
		a, b := out[i], out[j]
		switch {
		case a.Now != b.Now:
			return a.Now
		case a.Workspace != b.Workspace:
			return a.Workspace < b.Workspace
		case a.Path != b.Path:
			return a.Path < b.Path
		}
		return a.Seq > b.Seq
	})
	return out, err
}
