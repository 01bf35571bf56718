package versions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"wsfs/store"
)

// target is what a log of one path is about.
type target struct {
	path   string
	parent store.Ino
	name   string
	ino    store.Ino
	dir    bool
}

// holds reports whether something is the directory t or in it: by the directory's identity, or by its path, which
// another directory may have had before.
func (t *target) holds(ino store.Ino, path string, chain []store.Ino) bool {
	return ino == t.ino || slices.Contains(chain, t.ino) || path == t.path || strings.HasPrefix(path, t.path+"/")
}

// findTarget finds what path is in v or, if it is gone, what it was last.
func findTarget(ctx context.Context, st *store.Store, v *store.View, path string) (*target, error) {
	t := &target{path: path, ino: store.RootIno, dir: true}
	for _, part := range split(path) {
		t.parent, t.name = t.ino, part
		name, err := v.Lookup(ctx, t.parent, part)
		if err == nil {
			t.ino, t.dir = name.Ino, name.Type == syscall.S_IFDIR
			continue
		}
		if !errors.Is(err, syscall.ENOENT) {
			return nil, err
		}
		if err := t.lastHolder(ctx, st, v); err != nil {
			return nil, fmt.Errorf("log of %q: %w", "/"+path, err)
		}
	}
	return t, nil
}

// lastHolder finds the inode that had t's name last.
func (t *target) lastHolder(ctx context.Context, st *store.Store, v *store.View) error {
	found := false
	q := store.ChangeQuery{View: v, Parent: t.parent, Name: t.name, Limit: 1}
	err := st.Changes(ctx, q, func(row *store.ChangeRow) error {
		for i := range row.Items {
			it := &row.Items[i]
			here := it.Parent == t.parent && it.Name == t.name
			if (here || it.FromParent == t.parent && it.FromName == t.name) && !found {
				t.ino, found = it.Ino, true
				t.dir = it.Op == store.OpMkdir || it.Op == store.OpRmdir ||
					it.Version != nil && it.Version.IsDir() || it.Before != nil && it.Before.IsDir()
			}
		}
		return nil
	})
	if err == nil && !found {
		err = fmt.Errorf("no change ever touched %q: %w", t.name, syscall.ENOENT)
	}
	return err
}

// follow tells the history of one file backwards: its inode, what it replaced, and whatever else had its name, while it had it.
func (l *logger) follow(ctx context.Context, t *target) error {
	m := &merger{st: l.st, q: store.ChangeQuery{View: l.q.View, After: l.q.After, Limit: 64}, inos: map[store.Ino]bool{}}
	m.track(cursor{parent: t.parent, name: t.name, upTo: store.MaxSeq})
	m.track(cursor{ino: t.ino, upTo: store.MaxSeq})
	for {
		row, err := m.next(ctx)
		if row == nil || err != nil || row.Seq <= l.q.After {
			return err
		}
		l.places.forget()
		l.places.at(row)
		for i := len(row.Items) - 1; i >= 0; i-- {
			it := &row.Items[i]
			named := it.Parent == t.parent && it.Name == t.name || it.FromName != "" && it.FromParent == t.parent && it.FromName == t.name
			if !named && !m.has(it.Ino) {
				continue
			}
			m.track(cursor{ino: it.Ino, upTo: row.Seq - 1})
			if err := l.trackReplaced(ctx, m, it, row.Seq); err != nil {
				return err
			}
			if l.wanted(row) {
				if err := l.item(ctx, row, it, nil); err != nil {
					return err
				}
			}
		}
	}
}

func (l *logger) trackReplaced(ctx context.Context, m *merger, it *store.ChangeItem, seq store.Seq) error {
	if it.Version == nil || it.Version.Replaced == 0 {
		return nil
	}
	old, err := l.st.VersionByID(ctx, it.Version.Replaced)
	if errors.Is(err, syscall.ENOENT) {
		return nil
	}
	if err == nil {
		m.track(cursor{ino: old.Ino, upTo: seq - 1})
	}
	return err
}

// cursor walks the changes of one inode or one name, newest first.
type cursor struct {
	ino    store.Ino
	parent store.Ino
	name   string
	upTo   store.Seq // what it still has to read
	rows   []*store.ChangeRow
	done   bool
}

// merger is the changes of several cursors in one order, each change once. Cursors are added while it runs.
type merger struct {
	st      *store.Store
	q       store.ChangeQuery
	cursors []*cursor // that have something left
	inos    map[store.Ino]bool
	last    store.Seq // of the change returned last
}

func (m *merger) has(ino store.Ino) bool { return m.inos[ino] }

func (m *merger) track(c cursor) {
	if c.ino == 0 && c.name == "" || c.ino != 0 && m.has(c.ino) {
		return
	}
	if c.ino != 0 {
		m.inos[c.ino] = true
	}
	m.cursors = append(m.cursors, &c)
}

// next is the newest change that was not returned, nil at the end. It may be one that q.After excludes.
func (m *merger) next(ctx context.Context) (*store.ChangeRow, error) {
	var best *store.ChangeRow
	for i := 0; i < len(m.cursors); i++ { // holder adds some
		c := m.cursors[i]
		for {
			for len(c.rows) > 0 && m.last != 0 && c.rows[0].Seq >= m.last {
				c.rows = c.rows[1:]
			}
			if len(c.rows) > 0 || c.done {
				break
			}
			if err := m.fill(ctx, c); err != nil {
				return nil, err
			}
		}
		if len(c.rows) == 0 {
			continue
		}
		if c.ino == 0 {
			m.holder(c)
		}
		if best == nil || c.rows[0].Seq > best.Seq {
			best = c.rows[0]
		}
	}
	m.cursors = slices.DeleteFunc(m.cursors, func(c *cursor) bool { return len(c.rows) == 0 })
	if best != nil {
		m.last = best.Seq
	}
	return best, nil
}

// holder follows what a name was given to from there on: what was done to it since, under this name, is found by its inode
// only, and that it lost the name need not be told by an item (restore, import).
func (m *merger) holder(c *cursor) {
	upTo := store.MaxSeq
	if m.last != 0 {
		upTo = m.last - 1
	}
	for i := range c.rows[0].Items {
		it := &c.rows[0].Items[i]
		if it.Parent == c.parent && it.Name == c.name && it.Op != store.OpUnlink && it.Op != store.OpRmdir {
			m.track(cursor{ino: it.Ino, upTo: upTo})
		}
	}
}

func (m *merger) fill(ctx context.Context, c *cursor) error {
	q := m.q
	if c.name != "" {
		q.After = 0 // what had the name then may have got it before
	}
	q.Ino, q.Parent, q.Name, q.UpTo = c.ino, c.parent, c.name, c.upTo
	if m.last != 0 && m.last-1 < q.UpTo {
		q.UpTo = m.last - 1
	}
	if q.UpTo < 1 {
		c.done = true
		return nil
	}
	if err := m.st.Changes(ctx, q, func(row *store.ChangeRow) error {
		c.rows = append(c.rows, row)
		return nil
	}); err != nil {
		return err
	}
	if len(c.rows) < q.Limit {
		c.done = true
	} else {
		c.upTo = c.rows[len(c.rows)-1].Seq - 1
	}
	return nil
}
