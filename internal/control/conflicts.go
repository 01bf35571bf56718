package control

import (
	"context"
	"fmt"
	"strconv"
	"syscall"

	"wsfs/fs"
	"wsfs/internal/report"
	"wsfs/internal/ui"
	"wsfs/store"
	"wsfs/versions"
)

// conflicts/ has a directory for each open conflict, by its number, with the sides and what is known of it. It leads to resolved ones by
// name alone. An id is the number, marked, with what it is in the lowest bits.
const (
	conflictMark  = 1 << 37
	conflictShift = 3
	conflictDir   = 0
	conflictInfo  = 4
)

// conflictFiles are the names in such a directory, in the order of their ids.
var conflictFiles = []string{"base", "ours", "theirs", "info"}

// conflictFor is how long kernels may believe what is below conflicts/: it stays, but for the list itself.
const conflictFor = 0

func (t *Tree) conflict(ctx context.Context, id store.ConflictID) (*versions.Conflict, error) {
	if _, err := t.o.View(ctx); err != nil { // what just happened is in the database
		return nil, err
	}
	list, err := versions.Conflicts(ctx, t.o.Store, store.ConflictQuery{Workspace: t.o.Workspace, ID: id, Resolved: true})
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, syscall.ENOENT
	}
	return &list[0], nil
}

func (t *Tree) lookupConflict(c *fs.Call, dir uint64, name string) (fs.Found, error) {
	if dir == idConflicts {
		id, err := strconv.ParseUint(name, 10, 32)
		if err != nil || id == 0 || name[0] == '0' {
			return fs.Found{}, syscall.ENOENT
		}
		c.Blocks()
		if _, err := t.conflict(context.Background(), store.ConflictID(id)); err != nil {
			return fs.Found{}, err
		}
		a, err := t.GetAttr(c, conflictMark|id<<conflictShift)
		return fs.Found{Attr: a, Valid: conflictFor}, err
	}
	if dir&(1<<conflictShift-1) != conflictDir {
		return fs.Found{}, syscall.ENOTDIR
	}
	for i, n := range conflictFiles {
		if n == name {
			a, err := t.GetAttr(c, dir|uint64(i+1))
			return fs.Found{Attr: a, Valid: conflictFor}, err
		}
	}
	return fs.Found{}, syscall.ENOENT
}

func (t *Tree) readConflicts(c *fs.Call, id uint64) ([]fs.DirEntry, error) {
	var list []fs.DirEntry
	if id != idConflicts {
		if id&(1<<conflictShift-1) != conflictDir {
			return nil, syscall.ENOTDIR
		}
		for i, n := range conflictFiles {
			list = append(list, fs.DirEntry{Name: n, Ino: store.Ino(id | uint64(i+1)), Type: syscall.S_IFREG})
		}
		return list, nil
	}
	c.Blocks()
	ctx := context.Background()
	if _, err := t.o.View(ctx); err != nil {
		return nil, err
	}
	rows, err := t.o.Store.Conflicts(ctx, store.ConflictQuery{Workspace: t.o.Workspace})
	for _, r := range rows {
		list = append(list, fs.DirEntry{
			Name: strconv.FormatInt(int64(r.ID), 10), Ino: store.Ino(conflictMark | uint64(r.ID)<<conflictShift), Type: syscall.S_IFDIR,
		})
	}
	return list, err
}

func (t *Tree) openConflict(id uint64) (fs.Generated, error) {
	what := id & (1<<conflictShift - 1)
	if what == conflictDir {
		return nil, syscall.EISDIR
	}
	return whole(func(ctx context.Context) ([]byte, error) {
		c, err := t.conflict(ctx, store.ConflictID(id&^conflictMark>>conflictShift))
		if err != nil {
			return nil, err
		}
		if what == conflictInfo {
			return t.print(func(o *ui.Out) error { return printConflict(o, c) })
		}
		return [](*versions.Side){&c.Base, &c.Ours, &c.Theirs}[what-1].Text(ctx, t.o.Store)
	}), nil
}

// printConflict is info: lines of a word and what it says, then how to decide.
func printConflict(o *ui.Out, c *versions.Conflict) error {
	l := report.ConflictLineOf(c)
	w := o.Writer()
	fmt.Fprintf(w, "conflict %d\npath %s\nwhy %s: %s\ntime %s\n", l.ID, ui.Name(c.Path), l.Why, report.ConflictWhy(c), l.Time)
	for _, s := range []struct {
		name string
		side *report.ConflictSide
	}{{"base", l.Base}, {"ours", l.Ours}, {"theirs", l.Theirs}} {
		switch {
		case s.side == nil:
			fmt.Fprintf(w, "%s is not known\n", s.name)
		case s.side.Session == "":
			fmt.Fprintf(w, "%s %d bytes\n", s.name, s.side.Size)
		default:
			fmt.Fprintf(w, "%s %d bytes, session %s\n", s.name, s.side.Size, ui.Name(s.side.Session))
		}
	}
	if c.Command != nil {
		fmt.Fprintf(w, "command c%d %s\n", c.Command.ID, ui.Command(c.Command.Argv))
	}
	if l.Resolved != "" {
		_, err := fmt.Fprintf(w, "resolved %s\n", l.Resolved)
		return err
	}
	_, err := fmt.Fprintf(w, "open; decide with: wsfs resolve %d --ours | --theirs | --merge\n", l.ID)
	return err
}
