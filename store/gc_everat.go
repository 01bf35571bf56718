package store

import (
	"context"
	"fmt"
	"strings"
)

// EverAt finds the inodes that were ever at or below a path, in a workspace, in what it comes from, and in everything else that
// comes from there.
func (s *Store) EverAt(ctx context.Context, ws *Workspace, path string) ([]Ino, error) {
	list, err := s.everAt(ctx, ws, path)
	return list, s.dbError(fmt.Sprintf("find what was ever at a path of workspace %q", ws.Name), err)
}

func (s *Store) everAt(ctx context.Context, ws *Workspace, path string) ([]Ino, error) {
	v, err := s.viewOf(ctx, s.r, ws)
	if err != nil {
		return nil, err
	}
	line, err := v.lineage(ctx)
	if err != nil {
		return nil, err
	}
	all, err := timelineRows(ctx, s.r)
	if err != nil {
		return nil, err
	}
	family := map[TimelineID]bool{line[len(line)-1].Timeline: true}
	for _, t := range all { // parents come first
		if family[t.Parent] && !t.Hidden {
			family[t.ID] = true
		}
	}
	at := map[Ino]bool{RootIno: true}
	found := func(dirs map[Ino]bool, name string) (map[Ino]bool, error) {
		out := make(map[Ino]bool)
		for t := range family {
			for dir := range dirs {
				query, args := `SELECT DISTINCT ino FROM change_item WHERE timeline_id = ? AND parent_ino = ?`, []any{int64(t), int64(dir)}
				if name != "" {
					query, args = query+` AND name = ?`, append(args, []byte(name))
				}
				if _, err := scanAll(ctx, s.r, 1, query, args, func(c *cells) error {
					out[Ino(c.int(0))] = true
					return nil
				}); err != nil {
					return nil, err
				}
			}
		}
		return out, nil
	}
	for name := range strings.SplitSeq(path, "/") {
		if name == "" {
			continue
		}
		if at, err = found(at, name); err != nil {
			return nil, err
		}
	}
	if at[RootIno] {
		return nil, nil // no name was given
	}
	for next := at; len(next) > 0; {
		below, err := found(next, "")
		if err != nil {
			return nil, err
		}
		next = make(map[Ino]bool)
		for ino := range below {
			if !at[ino] {
				at[ino], next[ino] = true, true
			}
		}
	}
	list := make([]Ino, 0, len(at))
	for ino := range at {
		list = append(list, ino)
	}
	return list, nil
}
