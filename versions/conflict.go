package versions

import (
	"context"
	"fmt"
	"strings"

	"wsfs/blob"
	"wsfs/store"
)

// Side is one content of a conflict.
type Side struct {
	Known   bool // false: there is none, or it is not kept any more
	Version store.VersionID
	Content blob.Content
	Session string // who brought it, "" if that is not known
}

// Conflict is a conflict with what there is to say of it.
type Conflict struct {
	store.ConflictRow
	Path    string // of what stands in the workspace, from its root
	Base    Side   // what the writer had seen; for a merge, where the lines part
	Ours    Side   // what the writer wrote; for a merge, what the workspace had
	Theirs  Side   // what the other session had made; for a merge, what came from there
	Command *store.CommandRow
}

// Stands is the side that became the content of the workspace when the conflict was met: what was written, but where it was
// refused.
func (c *Conflict) Stands(ctx context.Context, st *store.Store) (Side, error) {
	if merges(c.Why) {
		return c.Ours, nil
	}
	// What was refused is in no version.
	has, err := st.HasContent(ctx, c.Timeline, c.Ino, c.Content)
	if err != nil || has {
		return c.Ours, err
	}
	return c.Theirs, nil
}

// Conflicts lists the conflicts of a workspace, as q says, with what the database knows of each.
func Conflicts(ctx context.Context, st *store.Store, q store.ConflictQuery) ([]Conflict, error) {
	rows, err := st.Conflicts(ctx, q)
	if err != nil {
		return nil, err
	}
	list := make([]Conflict, 0, len(rows))
	for i := range rows {
		c, err := conflictOf(ctx, st, &rows[i])
		if err != nil {
			return nil, fmt.Errorf("conflict %d: %w", rows[i].ID, err)
		}
		list = append(list, *c)
	}
	return list, nil
}

func conflictOf(ctx context.Context, st *store.Store, row *store.ConflictRow) (*Conflict, error) {
	c := &Conflict{ConflictRow: *row}
	dir, err := st.LastPath(ctx, row.Timeline, row.Parent)
	if err != nil {
		return nil, err
	}
	c.Path = strings.TrimPrefix(dir+"/"+row.Name, "/")
	who, command, err := st.ConflictParties(ctx, row)
	if err != nil {
		return nil, err
	}
	c.Command = command
	if c.Base, err = sideOf(ctx, st, row.Base); err != nil {
		return nil, err
	}
	met, err := sideOf(ctx, st, row.Head)
	if err != nil {
		return nil, err
	}
	wrote := Side{Known: true, Content: blob.Content{Ref: row.Content}}
	if who != nil {
		wrote.Session = who.Name
	}
	if !row.Content.IsZero() {
		if wrote.Content.Size, err = st.Blobs().SizeOf(ctx, row.Content); err != nil {
			return nil, err
		}
	}
	c.Ours, c.Theirs = wrote, met
	if merges(row.Why) {
		c.Ours, c.Theirs = met, wrote
	}
	return c, nil
}

func sideOf(ctx context.Context, st *store.Store, id store.VersionID) (Side, error) {
	if id == 0 {
		return Side{}, nil
	}
	past, err := st.PastOf(ctx, id, 1)
	if err != nil || len(past) == 0 {
		return Side{}, err
	}
	s := Side{Known: true, Version: id, Content: past[0].Content}
	if past[0].Session != 0 {
		who, err := st.SessionByID(ctx, past[0].Session)
		if err != nil {
			return Side{}, err
		}
		s.Session = who.Name
	}
	return s, nil
}

// merges reports whether a conflict comes from two lines of history; behind the word there may be more.
func merges(why string) bool { return strings.HasPrefix(why, store.WhyMerge) }

// OfContent reports whether the sides of a conflict differ in what the file holds, and not in its name, its place, its attributes or whether it is there.
func (c *Conflict) OfContent() bool {
	if !merges(c.Why) {
		return true
	}
	switch strings.TrimPrefix(c.Why, store.WhyMerge+": ") {
	case ConflictEdit, ConflictBinary, ConflictSyntax, ConflictAdd:
		return true
	}
	return false
}

// maxConflict is the largest side of a conflict that is read as a whole.
const maxConflict = 16 << 20

// Text is the content of a side; empty if there is none.
func (s *Side) Text(ctx context.Context, st *store.Store) ([]byte, error) {
	if s.Content.Size > maxConflict {
		return nil, fmt.Errorf("a side of the conflict has %d bytes, more than the %d that are compared", s.Content.Size, int64(maxConflict))
	}
	b := make([]byte, s.Content.Size)
	if len(b) == 0 {
		return b, nil
	}
	_, err := st.Blobs().ReadAt(ctx, s.Content, b, 0)
	return b, err
}
