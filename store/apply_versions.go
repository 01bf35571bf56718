package store

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"syscall"

	"wsfs/blob"
)

// versionKey is what names a row of file_version.
type versionKey struct {
	timeline TimelineID
	ino      Ino
	seq      Seq
}

// versionRow is a version with the timeline it goes to.
type versionRow struct {
	timeline TimelineID
	v        *Version
	parent   VersionID // v.Parent, or that of the versions that were merged into v
	fixed    bool      // brought more than new times of a directory
	amend    bool
	dropped  bool
}

// versionBatch collects the versions of a batch of ops. A directory gets a version with every name in it that comes or
// goes. Of those in a batch that brought nothing but new times, only the last is kept: a past state is right in all but
// the times of directories, which may be older by a group.
type versionBatch struct {
	rows []versionRow
	at   map[versionKey]int32 // index into rows
	dirs map[versionKey]int32 // last row of each directory; seq 0 in the key
	bulk bulk
	// older moves the newest versions of inodes to those of before.
	older  bulk
	places map[blob.Ref][]byte // of contents that come with the batch or that files keep, as they are stored
	stored []byte              // those that come with the batch, one behind the other
	// settled is what to write in the place of provisional contents.
	settled map[blob.Ref]blob.Ref
}

// newVersionBatch: an amended version keeps the parent that its row has. The one that its maker knows may have been
// merged away in the group that the row came with.
func newVersionBatch(drv *Driver) versionBatch {
	return versionBatch{
		at:     make(map[versionKey]int32),
		dirs:   make(map[versionKey]int32),
		places: make(map[blob.Ref][]byte),
		older:  bulk{head: "UPDATE file_version SET past = 1, place = NULL WHERE (timeline_id, past, ino) IN (VALUES ", row: "(?,0,?)", cols: 2, tail: ")"},
		bulk: newInsert(drv, `file_version (timeline_id, past, ino, seq, version_id, parent_version_id, replaced_version_id,
			merge_version_id, origin_timeline_id, mode, uid, gid, nlink, rdev, size, holes, mtime, ctime, atime, content_hash,
			target, xattrs, place)`, tuples(1, 2+versionWidth), ` ON CONFLICT (timeline_id, past, ino, seq) DO UPDATE SET
			version_id = excluded.version_id, parent_version_id = CASE WHEN file_version.version_id = excluded.version_id
			THEN file_version.parent_version_id ELSE excluded.parent_version_id END,
			replaced_version_id = excluded.replaced_version_id, merge_version_id = excluded.merge_version_id,
			origin_timeline_id = excluded.origin_timeline_id, mode = excluded.mode, uid = excluded.uid, gid = excluded.gid,
			nlink = excluded.nlink, rdev = excluded.rdev, size = excluded.size, holes = excluded.holes,
			mtime = excluded.mtime, ctime = excluded.ctime, atime = excluded.atime, content_hash = excluded.content_hash,
			target = excluded.target, xattrs = excluded.xattrs, place = excluded.place`),
	}
}

func (b *versionBatch) reset() {
	clear(b.rows)
	b.rows = b.rows[:0]
	clear(b.at)
	clear(b.dirs)
	clear(b.places)
	b.stored = b.stored[:0]
	b.bulk.reset()
	b.older.reset()
}

func (b *versionBatch) add(op *Op) {
	for i := range op.Versions {
		v := &op.Versions[i]
		key := versionKey{op.Timeline, v.Ino, v.Seq}
		row := versionRow{timeline: op.Timeline, v: v, parent: v.Parent, amend: op.Amend}
		dir := v.Mode&syscall.S_IFMT == syscall.S_IFDIR
		if dir {
			row.fixed = op.Amend || v.Parent == 0 || !onlyTimes(op, v)
		}
		// The same key again: an amended version, or an op that touched a directory twice.
		if j, ok := b.at[key]; ok && !b.rows[j].dropped {
			old := &b.rows[j]
			row.fixed = row.fixed || old.fixed
			if v.Parent == old.v.ID || v.Parent == old.v.Parent {
				row.parent = old.parent
			}
			*old = row
			continue
		}
		j := int32(len(b.rows))
		if dir && !op.Amend {
			key0 := versionKey{op.Timeline, v.Ino, 0}
			if k, ok := b.dirs[key0]; ok {
				row.fixed = row.fixed || !sameButTimes(b.rows[k].v, v)
				if !b.rows[k].fixed && !replaces(op, b.rows[k].v.ID) {
					b.rows[k].dropped = true
					row.parent = b.rows[k].parent
				}
			}
			b.dirs[key0] = j
		}
		b.at[key] = j
		b.rows = append(b.rows, row)
	}
}

// onlyTimes reports whether all that op did to the directory v is that names of other things than directories came or
// went. What its version was before need not be known for that.
func onlyTimes(op *Op, v *Version) bool {
	for i := range op.Names {
		if op.Names[i].Type == syscall.S_IFDIR {
			return false
		}
	}
	for i := range op.Items {
		it := &op.Items[i]
		switch it.Op {
		case OpCreate, OpWrite, OpSymlink, OpMknod, OpLink, OpUnlink, OpRename, OpExchange:
		default:
			if it.Ino == v.Ino || it.Parent == v.Ino || it.FromParent == v.Ino {
				return false
			}
		}
	}
	return op.Kind != OpWorkspace && op.Kind != OpNone && v.Replaced == 0 && v.Merge == 0
}

// replaces reports whether op put something in the place of version id, as a rename over an empty directory does: that
// version is named for good.
func replaces(op *Op, id VersionID) bool {
	return slices.ContainsFunc(op.Versions, func(v Version) bool { return v.Replaced == id })
}

// sameButTimes reports whether a and b, two states of one directory, differ in nothing but their times.
func sameButTimes(a, b *Version) bool {
	return a.Mode == b.Mode && a.UID == b.UID && a.GID == b.GID && a.Nlink == b.Nlink && a.Size == b.Size &&
		maps.EqualFunc(a.Xattrs, b.Xattrs, func(x, y []byte) bool { return slices.Equal(x, y) })
}

func (b *versionBatch) flush(ctx context.Context, w *writer) error {
	if len(b.rows) == 0 {
		return nil
	}
	slices.SortFunc(b.rows, func(x, y versionRow) int {
		return cmp.Or(cmp.Compare(x.timeline, y.timeline), cmp.Compare(x.v.Ino, y.v.Ino), cmp.Compare(x.v.Seq, y.v.Seq))
	})
	b.rows = slices.DeleteFunc(b.rows, func(r versionRow) bool { return r.dropped })
	runs := b.inodes()
	if err := b.supersede(ctx, w, runs); err != nil {
		return err
	}
	for _, run := range runs {
		for i := range run.rows {
			b.addRow(&run.rows[i], run.newest)
		}
	}
	if err := b.bulk.flush(ctx, w); err != nil {
		return err
	}
	b.reset()
	return nil
}

// versionRun is the rows of one inode, oldest first.
type versionRun struct {
	rows   []versionRow
	newest Seq // of them and of those in the table
}

func (r *versionRun) last() *versionRow { return &r.rows[len(r.rows)-1] }

func (b *versionBatch) inodes() []versionRun {
	var runs []versionRun
	for rows := b.rows; len(rows) > 0; {
		n := 1
		for n < len(rows) && rows[n].timeline == rows[0].timeline && rows[n].v.Ino == rows[0].v.Ino {
			n++
		}
		runs = append(runs, versionRun{rows[:n], rows[n-1].v.Seq})
		rows = rows[n:]
	}
	return runs
}

const (
	sqlNewest = `WITH k(n, t, i) AS (VALUES %s)
	SELECT k.n, v.seq, v.content_hash, v.place FROM k CROSS JOIN file_version v WHERE v.timeline_id = k.t AND v.past = 0 AND v.ino = k.i`
	sqlNewestPast = `WITH k(n, t, i) AS (VALUES %s)
	SELECT k.n, v.seq FROM k CROSS JOIN file_version v WHERE v.timeline_id = k.t AND v.past = 1 AND v.ino = k.i
	AND v.seq = (SELECT max(w.seq) FROM file_version w WHERE w.timeline_id = k.t AND w.past = 1 AND w.ino = k.i)`
	sqlUnpast = `DELETE FROM file_version WHERE timeline_id = ? AND past = 1 AND ino = ? AND seq = ?`
)

// supersede moves what was the newest version of each inode to the others. Seqs only grow, so that a new one is newer than all that are there;
// one that is amended mostly is the newest itself. A file that was just made, which most are, has no older ones. What a file keeps of its
// content, it keeps of its place.
func (b *versionBatch) supersede(ctx context.Context, w *writer, runs []versionRun) error {
	var ask, amended []any
	old := make([]bool, len(runs)) // what the table has goes to the others
	for i := range runs {
		r, first := runs[i].last(), &runs[i].rows[0]
		made := first.parent == 0 && !first.amend && !first.v.IsDir()
		old[i] = !made && !r.amend
		key := []any{int64(i), int64(r.timeline), int64(r.v.Ino)}
		if r.amend {
			amended = append(amended, key...)
		}
		if r.amend || !made && r.v.Size > 0 && r.v.Size <= blob.MaxBlob && !r.v.Content.IsZero() && b.places[b.content(r.v)] == nil {
			ask = append(ask, key...)
		}
	}
	c := newCells(4)
	if err := keyed(ctx, w, sqlNewest, 3, ask, func(rows result) error {
		if err := c.scan(rows); err != nil {
			return err
		}
		i, seq := int(c.int(0)), Seq(c.int(1))
		old[i] = seq < runs[i].newest || runs[i].last().v.Nlink == 0
		runs[i].newest = max(runs[i].newest, seq)
		if place := c.bytes(3); place != nil {
			b.places[c.ref(2)] = place
		}
		return c.bad
	}); err != nil {
		return err
	}
	var again []*versionRow // what was without names and has some
	c = newCells(2)
	if err := keyed(ctx, w, sqlNewestPast, 3, amended, func(rows result) error {
		if err := c.scan(rows); err != nil {
			return err
		}
		i, seq := int(c.int(0)), Seq(c.int(1))
		if r := runs[i].last(); seq == r.v.Seq && r.v.Nlink != 0 {
			again = append(again, r)
		}
		runs[i].newest = max(runs[i].newest, seq)
		return c.bad
	}); err != nil {
		return err
	}
	for _, r := range again {
		if _, err := w.exec(ctx, sqlUnpast, int64(r.timeline), int64(r.v.Ino), int64(r.v.Seq)); err != nil {
			return err
		}
	}
	for i := range runs {
		if old[i] {
			r := runs[i].last()
			b.older.add(int64(r.timeline), int64(r.v.Ino))
		}
	}
	return b.older.flush(ctx, w)
}

// place notes where a content is that comes with the batch.
func (b *versionBatch) place(l *blob.Location) {
	if l.Size <= blob.MaxBlob && len(l.Data)+int(l.Pack) > 0 {
		at := len(b.stored)
		b.stored = appendPlace(b.stored, l)
		b.places[l.Ref] = b.stored[at:len(b.stored):len(b.stored)]
	}
}

// content is what v is written with; zero if it is empty.
func (b *versionBatch) content(v *Version) blob.Ref {
	if ref, ok := b.settled[v.Content]; ok {
		return ref
	}
	return v.Content
}

// addRow writes a row of the timeline that made it. Only hidden segments have rows that come from elsewhere.
func (b *versionBatch) addRow(r *versionRow, newest Seq) {
	v := r.v
	past := int64(0)
	if v.Seq < newest || v.Nlink == 0 {
		past = 1
	}
	var atime, content, target, xattrs, place any
	if v.Atime != v.Mtime {
		atime = v.Atime
	}
	if ref := b.content(v); !ref.IsZero() {
		content = ref[:]
		if p := b.places[ref]; p != nil && past == 0 && v.Size <= blob.MaxBlob {
			place = p
		}
	}
	if v.Target != "" {
		target = []byte(v.Target)
	}
	if len(v.Xattrs) > 0 {
		xattrs = encodeXattrs(v.Xattrs)
	}
	b.bulk.add(int64(r.timeline), past, int64(v.Ino), int64(v.Seq), int64(v.ID), int64(r.parent), int64(v.Replaced),
		int64(v.Merge), int64(0), int64(v.Mode), int64(v.UID), int64(v.GID), int64(v.Nlink), int64(v.Rdev), v.Size, v.Holes,
		v.Mtime, v.Ctime, atime, content, target, xattrs, place)
}
