package store

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
)

const (
	// The head of a timeline: the primary key gives the names in their order.
	sqlDirHead = `SELECT f.name, f.ino, f.kind FROM file_node f WHERE f.timeline_id = ? AND f.parent_ino = ? ORDER BY f.name`
	// Names of now and of the past for every segment of a chain: number, timeline, directory, cut. The + keeps SQLite on the primary key.
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
}

// ReadDir calls fn with every entry of a directory, in byte order of the names, with its attributes, and stops at the
// first error, which it returns. It takes a few queries however many entries there are. All entries are of one moment,
// and no transaction is held while fn runs. A directory that does not exist has no entries.
func (v *View) ReadDir(ctx context.Context, parent Ino, fn func(Name, *Version) error) error {
	return v.ReadNames(ctx, parent, math.MaxInt, math.MaxInt, func(int) {}, fn)
}

// ReadNames is ReadDir, but of a directory with more than attrs entries it reads only the names: the versions are nil. Names cost a quarter
// of what attributes do. If there are more names than most it reads no more of them and returns ErrTooMany. Before the first call of fn it
// says to begin how many there will be.
func (v *View) ReadNames(ctx context.Context, parent Ino, attrs, most int, begin func(n int), fn func(Name, *Version) error) error {
	var list []entry
	var vers []*Version
	read := func(q querier) (err error) {
		list, vers, err = readDir(ctx, q, v.path, parent, attrs, most)
		return err
	}
	var err error
	if v.q != querier(v.s.r) {
		err = read(v.q) // in a transaction already
	} else {
		err = v.s.r.snapshot(ctx, read)
	}
	if err != nil {
		return v.s.dbError(fmt.Sprintf("read directory %d", parent), err)
	}
	begin(len(list))
	for i := range list {
		e := &list[i]
		var ver *Version
		if vers != nil {
			ver = vers[i]
		}
		if err := fn(Name{Parent: parent, Name: e.name, Ino: e.ino, Type: e.kind}, ver); err != nil {
			return err
		}
	}
	return nil
}

func readDir(ctx context.Context, q querier, path []Segment, parent Ino, attrs, most int) ([]entry, []*Version, error) {
	list, err := dirNames(ctx, q, path, parent, most)
	if err != nil || len(list) > attrs {
		return list, nil, err
	}
	inos := make([]Ino, len(list))
	for i := range list {
		inos[i] = list[i].ino
	}
	vers, err := versionsOf(ctx, q, path, inos, true)
	if err != nil {
		return nil, nil, err
	}
	for i := range list {
		if vers[i] == nil {
			return nil, nil, fmt.Errorf("%q is inode %d, which has no version: run `wsfs check`: %w", list[i].name, list[i].ino, ErrCorrupt)
		}
	}
	return list, vers, nil
}

// dirList collects entries, in pieces: a list that grows in one would be copied ten times until it holds 100,000.
type dirList struct {
	full  [][]entry
	list  []entry          // the last piece
	names *strings.Builder // of names that lie beside each other
	count int
	most  int
}

const (
	dirPiece  = 1024     // entries
	namePiece = 16 << 10 // bytes
)

func (d *dirList) add(c *cells, col int, seg int32) error {
	if d.count == d.most {
		return ErrTooMany
	}
	if len(d.list) == dirPiece {
		d.full, d.list = append(d.full, d.list), make([]entry, 0, dirPiece)
	}
	d.list = append(d.list, entry{name: d.name(c.lent(col)), seg: seg, ino: Ino(c.int(col + 1)), kind: uint32(c.int(col + 2))})
	d.count++
	return c.bad
}

// name keeps a name. Names hold the whole piece that they are in, so small directories have small ones.
func (d *dirList) name(b []byte) string {
	if d.names == nil || d.names.Len()+len(b) > d.names.Cap() {
		grow := 48
		if d.names != nil {
			grow = min(2*d.names.Cap(), namePiece)
		}
		d.names = &strings.Builder{}
		d.names.Grow(max(grow, len(b)))
	}
	at := d.names.Len()
	d.names.Write(b)
	return d.names.String()[at:]
}

func (d *dirList) entries() []entry {
	if d.full == nil {
		return d.list
	}
	return slices.Concat(append(d.full, d.list)...)
}

// dirNames merges the names of a directory over a read path: the nearest segment that has a row decides. It looks at most at so many rows.
func dirNames(ctx context.Context, q querier, path []Segment, parent Ino, most int) ([]entry, error) {
	d := dirList{most: most}
	if len(path) == 1 && path[0].Cut == MaxSeq {
		_, err := scanAll(ctx, q, 3, sqlDirHead, []any{int64(path[0].Timeline), int64(parent)}, func(c *cells) error { return d.add(c, 0, 0) })
		return slices.DeleteFunc(d.entries(), func(e entry) bool { return e.ino == 0 }), err
	}
	c := newCells(4)
	scan := func(rows result) error {
		if err := c.scan(rows); err != nil {
			return err
		}
		return d.add(c, 1, int32(c.int(0)))
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
	list := d.entries()
	slices.SortFunc(list, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.seg, b.seg))
	})
	list = slices.CompactFunc(list, func(a, b entry) bool { return a.name == b.name })
	return slices.DeleteFunc(list, func(e entry) bool { return e.ino == 0 }), nil
}
