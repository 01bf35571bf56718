package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
)

const (
	// The head of a timeline without ancestors, names and attributes in one go. The + keeps SQLite on the primary key.
	sqlDirHead = `SELECT f.name, f.kind, ` + versionCols + ` FROM file_node f
		JOIN file_version v ON v.timeline_id = f.timeline_id AND v.ino = f.ino
		AND v.seq = (SELECT max(w.seq) FROM file_version w WHERE w.timeline_id = f.timeline_id AND w.ino = f.ino)
		WHERE f.timeline_id = ? AND f.parent_ino = ? ORDER BY f.name`
	// Names of now and of the past for every segment of a chain: number, timeline, directory, cut.
	sqlDirLive = `WITH k(n, t, p, c) AS (VALUES %s)
		SELECT k.n, f.name, f.ino, f.kind FROM k CROSS JOIN file_node f
		WHERE f.timeline_id = k.t AND f.parent_ino = k.p AND +f.seq <= k.c`
	sqlDirPast = `WITH k(n, t, p, c) AS (VALUES %s)
		SELECT k.n, h.name, h.ino, h.kind FROM k CROSS JOIN file_node_history h
		WHERE h.timeline_id = k.t AND h.parent_ino = k.p AND h.end_seq > k.c AND +h.seq <= k.c`
)

// entry is a name that one segment of a chain has an opinion about.
type entry struct {
	name string
	seg  int32
	kind uint32
	ino  Ino // 0: removed here
	ver  *Version
}

// ReadDir calls fn with every entry of a directory, in byte order of the names, with its attributes, and stops at the
// first error, which it returns. It takes a few queries however many entries there are. All entries are of one moment,
// and no transaction is held while fn runs. A directory that does not exist has no entries.
func (v *View) ReadDir(ctx context.Context, parent Ino, fn func(Name, *Version) error) error {
	var list []entry
	read := func(q querier) (err error) {
		list, err = readDir(ctx, q, v.path, parent)
		return err
	}
	var err error
	if len(v.path) == 1 && v.path[0].Cut == MaxSeq || v.q != querier(v.s.r) {
		err = read(v.q) // one query, or in a transaction already
	} else {
		err = v.s.r.snapshot(ctx, read)
	}
	if err != nil {
		return v.s.dbError(fmt.Sprintf("read directory %d", parent), err)
	}
	for i := range list {
		e := &list[i]
		if err := fn(Name{Parent: parent, Name: e.name, Ino: e.ino, Type: e.kind}, e.ver); err != nil {
			return err
		}
	}
	return nil
}

func readDir(ctx context.Context, q querier, path []Segment, parent Ino) ([]entry, error) {
	if len(path) == 1 && path[0].Cut == MaxSeq {
		return readDirHead(ctx, q, path[0].Timeline, parent)
	}
	list, err := dirNames(ctx, q, path, parent)
	if err != nil {
		return nil, err
	}
	inos := make([]Ino, len(list))
	for i := range list {
		inos[i] = list[i].ino
	}
	vers, err := versionsOn(ctx, q, path, inos)
	if err != nil {
		return nil, err
	}
	for i := range list {
		if vers[i] == nil {
			return nil, fmt.Errorf("%q is inode %d, which has no version: run `wsfs check`: %w", list[i].name, list[i].ino, ErrCorrupt)
		}
		list[i].ver = vers[i]
	}
	return list, nil
}

func readDirHead(ctx context.Context, q querier, t TimelineID, parent Ino) ([]entry, error) {
	var list []entry
	c := newCells(2 + versionWidth)
	err := eachRow(ctx, q, sqlDirHead, []any{int64(t), int64(parent)}, func(rows *sql.Rows) error {
		if err := c.scan(rows); err != nil {
			return err
		}
		ver, err := c.version(2)
		if err != nil {
			return err
		}
		list = append(list, entry{name: c.string(0), kind: uint32(c.int(1)), ino: ver.Ino, ver: ver})
		return nil
	})
	return list, err
}

// dirNames merges the names of a directory over a read path: the nearest segment that has a row decides.
func dirNames(ctx context.Context, q querier, path []Segment, parent Ino) ([]entry, error) {
	var list []entry
	c := newCells(4)
	scan := func(rows *sql.Rows) error {
		if err := c.scan(rows); err != nil {
			return err
		}
		list = append(list, entry{seg: int32(c.int(0)), name: c.string(1), ino: Ino(c.int(2)), kind: uint32(c.int(3))})
		return c.bad
	}
	var live, past []any
	for i, seg := range path {
		key := []any{int64(i), int64(seg.Timeline), int64(parent), int64(seg.Cut)}
		live = append(live, key...)
		if seg.Cut != MaxSeq {
			past = append(past, key...)
		}
	}
	if err := keyed(ctx, q, sqlDirLive, 4, live, scan); err != nil {
		return nil, err
	}
	if err := keyed(ctx, q, sqlDirPast, 4, past, scan); err != nil {
		return nil, err
	}
	// On one segment a name is either live or in the past at a cut, never both.
	slices.SortFunc(list, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.seg, b.seg))
	})
	list = slices.CompactFunc(list, func(a, b entry) bool { return a.name == b.name })
	return slices.DeleteFunc(list, func(e entry) bool { return e.ino == 0 }), nil
}
