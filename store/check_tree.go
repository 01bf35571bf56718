package store

import (
	"context"
	"math"
	"strings"
	"syscall"
)

// intervals checks the rows of names against each other and against the ancestors of their timeline.
func (c *checker) intervals(ctx context.Context) error {
	list, err := timelineRows(ctx, c.q)
	if err != nil {
		return err
	}
	for _, t := range list {
		if t.Hidden {
			continue // see segments
		}
		if err := c.timelineIntervals(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// interval is one row of a name; end is MaxSeq for the one of now.
type interval struct {
	name     dirName
	seq, end Seq
	ino      Ino
}

func (c *checker) timelineIntervals(ctx context.Context, t *Timeline) error {
	var last interval
	var ask []interval // what the ancestors decide: tombstones, and ends that nothing follows
	_, err := scanAll(ctx, c.q, 5, `SELECT parent_ino, name, seq, end_seq, ino FROM (
			SELECT parent_ino, name, seq, end_seq, ino FROM file_node_history WHERE timeline_id = ?
			UNION ALL SELECT parent_ino, name, seq, ?, ino FROM file_node WHERE timeline_id = ?
		) u ORDER BY parent_ino, name, seq, end_seq`,
		[]any{int64(t.ID), int64(MaxSeq), int64(t.ID)}, func(cl *cells) error {
			r := interval{
				name: dirName{Ino(cl.int(0)), cl.string(1)}, seq: Seq(cl.int(2)), end: Seq(cl.int(3)),
				ino: Ino(cl.int(4)),
			}
			if bad := badName(r.name.name); bad != "" && r.name != last.name {
				c.problem(ruleBadName, "timeline %d, directory %d: name %q %s", t.ID, r.name.parent, r.name.name, bad)
			}
			if r.name == last.name && r.seq < last.end {
				c.problem(ruleOverlap, "timeline %d, directory %d, name %q: rows from seq %d to %d and from seq %d to %d overlap", t.ID,
					r.name.parent, r.name.name, last.seq, last.end, r.seq, r.end)
			}
			if last.end > t.GCSeq && last.end != MaxSeq && (r.name != last.name || r.seq != last.end) {
				ask = append(ask, interval{name: last.name, seq: last.end, ino: last.ino, end: 1})
			}
			if r.ino == 0 {
				ask = append(ask, r)
			}
			last = r
			return nil
		})
	if err != nil {
		return err
	}
	if last.end > t.GCSeq && last.end != MaxSeq {
		ask = append(ask, interval{name: last.name, seq: last.end, ino: last.ino, end: 1})
	}
	names := make([]dirName, len(ask))
	for i := range ask {
		names[i] = ask[i].name
	}
	under := make([]nameHit, len(ask))
	if len(t.Chain) > 0 {
		if under, err = namesOn(ctx, c.q, t.Chain, names); err != nil {
			return err
		}
	}
	for i, r := range ask {
		switch gap := r.end == 1; {
		case gap && under[i].ino != 0:
			c.problem(ruleGap, "timeline %d, directory %d, name %q: removed at seq %d without a tombstone, though an ancestor has it",
				t.ID, r.name.parent, r.name.name, r.seq)
		case !gap && under[i].ino == 0:
			c.problem(ruleTombstone, "timeline %d, directory %d, name %q: a tombstone at seq %d, though no ancestor has the name",
				t.ID, r.name.parent, r.name.name, r.seq)
		}
	}
	return nil
}

// trees walks every tree that can be written to or mounted: the head of every timeline, every base, and every state that is kept of
// a history that was collected.
func (c *checker) trees(ctx context.Context) error {
	list, err := timelineRows(ctx, c.q)
	if err != nil {
		return err
	}
	spaces, err := workspaceRows(ctx, c.q, `WHERE timeline_id IS NULL AND dropped_at IS NULL`)
	if err != nil {
		return err
	}
	seen := make(map[Segment]bool)
	walk := func(t TimelineID, seq Seq) error {
		v, err := c.s.viewAt(ctx, c.q, t, seq)
		if err != nil {
			return nil // rules 2 and 7 tell
		}
		if seen[v.path[0]] {
			return nil
		}
		seen[v.path[0]] = true
		return c.tree(ctx, v)
	}
	for _, t := range list {
		if t.Hidden {
			continue
		}
		if t.GCSeq <= t.Head { // else nobody comes to its head any more
			if err := walk(t.ID, MaxSeq); err != nil {
				return err
			}
		}
		if t.GCSeq == 0 {
			continue
		}
		kept, err := points(ctx, c.q, t.ID)
		if err != nil {
			return err
		}
		for _, seq := range kept {
			if err := walk(t.ID, seq); err != nil {
				return err
			}
		}
	}
	for _, ws := range spaces {
		if err := walk(ws.Base, ws.BaseSeq); err != nil {
			return err
		}
	}
	return nil
}

// treeWalk counts what one tree holds.
type treeWalk struct {
	names   map[Ino]uint32 // how many names
	subdirs map[Ino]uint32 // of each directory that was reached
}

func (c *checker) tree(ctx context.Context, v *View) error {
	w := &treeWalk{names: make(map[Ino]uint32), subdirs: make(map[Ino]uint32)}
	t, seq := v.Head()
	at := func(rule int, format string, args ...any) {
		c.problem(rule, "timeline %d at seq %s: "+format, append([]any{t, seqText(seq)}, args...)...)
	}
	dirs := []Ino{RootIno}
	w.subdirs[RootIno] = 0
	for len(dirs) > 0 {
		dir := dirs[len(dirs)-1]
		dirs = dirs[:len(dirs)-1]
		list, err := dirNames(ctx, v.q, v.path, dir, math.MaxInt)
		if err != nil {
			return err
		}
		inos := make([]Ino, len(list))
		for i := range list {
			inos[i] = list[i].ino
		}
		vers, err := versionsOn(ctx, v.q, v.path, inos)
		if err != nil {
			return err
		}
		for i, e := range list {
			w.names[e.ino]++
			switch ver := vers[i]; {
			case ver == nil:
				at(ruleNoVersion, "name %q in directory %d is inode %d, which has no version", e.name, dir, e.ino)
			case ver.Type() != e.kind:
				at(ruleType, "name %q in directory %d says type %#o, inode %d has mode %#o", e.name, dir, e.kind, e.ino, ver.Mode)
			case ver.IsDir():
				w.subdirs[dir]++
				if _, again := w.subdirs[e.ino]; again {
					at(ruleDirNames, "directory %d has more than one name, the last is %q in directory %d", e.ino, e.name, dir)
					continue
				}
				w.subdirs[e.ino] = 0
				dirs = append(dirs, e.ino)
			}
		}
	}
	if err := c.links(ctx, v, w, at); err != nil {
		return err
	}
	return c.lostNames(ctx, v, w, at)
}

// links compares the number of names of every inode with what its version says.
func (c *checker) links(ctx context.Context, v *View, w *treeWalk, at func(int, string, ...any)) error {
	done := make(map[Ino]bool)
	for _, seg := range v.path {
		query, args := stateOf(`v.ino, v.mode, v.nlink`, seg)
		_, err := scanAll(ctx, v.q, 3, query, args, func(cl *cells) error {
			ino, mode, nlink := Ino(cl.int(0)), uint32(cl.int(1)), uint32(cl.int(2))
			if done[ino] {
				return nil
			}
			done[ino] = true
			names := w.names[ino]
			subdirs, reached := w.subdirs[ino]
			switch {
			case mode&syscall.S_IFMT != syscall.S_IFDIR && names > 0 && names != nlink:
				at(ruleNlink, "inode %d has %d names and link count %d", ino, names, nlink)
			case reached && nlink != 2+subdirs:
				at(ruleDirNlink, "directory %d has %d subdirectories and link count %d, not 2 more", ino, subdirs, nlink)
			case names == 0 && nlink > 0 && ino != RootIno:
				at(ruleOrphan, "inode %d has link count %d and no name", ino, nlink)
			}
			return cl.bad
		})
		if err != nil {
			return err
		}
	}
	if !done[RootIno] {
		at(ruleNoVersion, "the root directory has no version")
	}
	return nil
}

// lostNames looks for names in what is not a directory of the tree.
func (c *checker) lostNames(ctx context.Context, v *View, w *treeWalk, at func(int, string, ...any)) error {
	asked := make(map[Ino]bool)
	var lost []Ino
	for _, seg := range v.path {
		for _, table := range []string{"file_node", "file_node_history"} {
			_, err := scanAll(ctx, v.q, 1, `SELECT DISTINCT parent_ino FROM `+table+` WHERE timeline_id = ?`,
				[]any{int64(seg.Timeline)}, func(cl *cells) error {
					ino := Ino(cl.int(0))
					if _, reached := w.subdirs[ino]; !reached && !asked[ino] {
						asked[ino] = true
						lost = append(lost, ino)
					}
					return cl.bad
				})
			if err != nil {
				return err
			}
		}
	}
	for _, ino := range lost {
		list, err := dirNames(ctx, v.q, v.path, ino, math.MaxInt)
		if err != nil {
			return err
		}
		for _, e := range list {
			at(ruleLostNames, "name %q is in inode %d, which is no directory of the tree", e.name, ino)
		}
	}
	return nil
}

func seqText(s Seq) any {
	if s == MaxSeq {
		return "head"
	}
	return s
}

// badName says what is wrong with a file name, "" if nothing.
func badName(name string) string {
	switch {
	case name == "":
		return "is empty"
	case len(name) > MaxName:
		return "is too long"
	case name == "." || name == "..":
		return "is reserved"
	case strings.ContainsAny(name, "/\x00"):
		return "holds '/' or NUL"
	}
	return ""
}
