package versions

import (
	"context"
	"slices"

	"wsfs/store"
)

// PathUsage is what the past of one path takes.
type PathUsage struct {
	Workspace string // "" if it is not known any more
	Dropped   bool
	Path      string // where it was last
	Bytes     int64
	Versions  int64
}

// WorkspaceUsage is what the past of one workspace takes.
type WorkspaceUsage struct {
	Workspace string
	Dropped   bool
	Bytes     int64
	Versions  int64
}

// DiskUsage explains the bytes of a store: with most paths that take most, and all workspaces.
func DiskUsage(ctx context.Context, st *store.Store, most int) (store.Usage, []WorkspaceUsage, []PathUsage, error) {
	var top []store.UsageOf
	spaces := map[store.WorkspaceID]*WorkspaceUsage{}
	cut := func() {
		slices.SortFunc(top, func(a, b store.UsageOf) int {
			switch {
			case a.Bytes != b.Bytes:
				return int(max(-1, min(1, b.Bytes-a.Bytes)))
			default:
				return int(a.Ino) - int(b.Ino)
			}
		})
		top = top[:min(len(top), most)]
	}
	u, err := st.Usage(ctx, func(of store.UsageOf) {
		ws := spaces[of.Workspace]
		if ws == nil {
			ws = &WorkspaceUsage{Dropped: of.Dropped}
			spaces[of.Workspace] = ws
		}
		ws.Bytes += of.Bytes
		ws.Versions += of.Versions
		if of.Bytes == 0 {
			return
		}
		if top = append(top, of); len(top) > 4*most+64 {
			cut()
		}
	})
	if err != nil {
		return u, nil, nil, err
	}
	cut()
	name := func(id store.WorkspaceID) string {
		if ws, err := st.WorkspaceByID(ctx, id); err == nil {
			return ws.Name
		}
		return ""
	}
	var paths []PathUsage
	for _, of := range top {
		p, err := st.LastPath(ctx, of.Timeline, of.Ino)
		if err != nil {
			return u, nil, nil, err
		}
		paths = append(paths, PathUsage{name(of.Workspace), of.Dropped, p, of.Bytes, of.Versions})
	}
	var list []WorkspaceUsage
	for id, ws := range spaces {
		ws.Workspace = name(id)
		list = append(list, *ws)
	}
	slices.SortFunc(list, func(a, b WorkspaceUsage) int { return int(max(-1, min(1, b.Bytes-a.Bytes))) })
	return u, list, paths, nil
}
