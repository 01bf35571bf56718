package versions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"wsfs/blob"
	"wsfs/store"
)

// Prefer says what becomes of what does not go together.
type Prefer int

const (
	PreferNone   Prefer = iota // ours stays, and the conflict is written down
	PreferOurs                 // ours stays
	PreferTheirs               // theirs comes, where that is possible at all
)

// MergeSelect says what a merge takes in. The zero value is all of it.
type MergeSelect struct {
	Prefer Prefer
	// Only keeps what is at or below one of these paths, on any side. A merge of a part does not move the common point.
	Only []string
	// Hunks are the ids of the changes that are taken in, of those that PlanReview lists; none: all. It does not move the common point either.
	Hunks []string
}

// MergeConflict is something that two sides changed in ways that do not go together. What ours has stays.
type MergeConflict struct {
	Why        string // one of the words below
	Path       string // where it is in ours, else in theirs
	Detail     string // for people
	Ino        store.Ino
	Parent     store.Ino // of Path, as far as ours has it
	Name       string
	Base, Ours *store.Version // nil: not there
	Theirs     *store.Version
	Line       int    // of a text: the first line in ours that both changed, from 1
	There      string // where theirs has it, if that is elsewhere
}

// Why something is a conflict. The words are part of the JSON output: never change one.
const (
	ConflictEdit      = "edit/edit"           // both changed the content
	ConflictBinary    = "binary"              // the same, and it is no text
	ConflictSyntax    = "syntax"              // merged line by line it would parse no more
	ConflictAttr      = "attributes"          // both changed mode, owner, target or an extended attribute
	ConflictAdd       = "add/add"             // both made something of that name
	ConflictRename    = "rename/rename"       // both gave it another name
	ConflictDelete    = "modify/delete"       // we changed it, they removed it
	ConflictModify    = "delete/modify"       // we removed it, they changed it
	ConflictType      = "directory/file"      // the name leads to things of different types
	ConflictName      = "name taken"          // it would have to go where something else is
	ConflictDirectory = "directory not there" // the directory that it would have to go to was removed
	ConflictNotEmpty  = "directory not empty" // they removed a directory that holds something here
	ConflictCycle     = "rename cycle"        // directories would be inside of one another
)

// What a MergeEntry says, besides the words of UndoEntry.
const MergeMerged = "merged" // both sides' changes came together

// MergeEntry is one path that a merge changes.
type MergeEntry struct {
	What string // created, changed, merged, removed, renamed
	Path string
	From string // of a renamed one
	Dir  bool
}

// MergePlan is what a merge does: worked out by reading alone, and valid as long as the target stands At.
type MergePlan struct {
	At, From Place
	Base     Place         // the common point; the newest if there are several
	Merged   *store.Merged // nil if only a part is taken in
	Names    []store.Name
	Versions []store.Version
	texts    map[store.Ino][]byte

	Entries                                    []MergeEntry // by path
	Created, Changed, Merges, Removed, Renamed int
	Conflicts                                  []MergeConflict // by path
	Skipped                                    int             // entities that Only or Hunks leave out, in part at least
	Taken                                      []Taken         // with Hunks: by path
}

// Empty reports whether a plan changes no file and has no conflict.
func (p *MergePlan) Empty() bool { return len(p.Names)+len(p.Versions)+len(p.Conflicts) == 0 }

// Contents stores the texts that were merged and returns what fs.Edit needs of them.
func (p *MergePlan) Contents(st *store.Store) ([]blob.Staged, error) {
	return stageTexts(st, p.Versions, p.texts)
}

// merge works out one merge.
type merge struct {
	st     *store.Store
	sel    *MergeSelect
	apart  *apart
	base   *mergeSide
	ours   *mergeSide
	theirs *mergeSide
	found  []store.Ino // inodes that their changes touched, and that the common point or theirs has
	list   []*entity   // by number
	at     map[store.Ino]*entity
	plan   *MergePlan

	oursView *store.View
	inside   map[store.Ino][]store.Ino // directories of ours that were read
}

// PlanMerge works out how what led to from is taken into the state at. Both must be in the database. The cost is that of the
// changes that one of the two has and the other does not, never that of the trees. ErrNothing: at came from there already.
func PlanMerge(ctx context.Context, st *store.Store, at, from Place, sel MergeSelect) (*MergePlan, error) {
	m, err := newMerge(ctx, st, at, from, sel)
	if err != nil {
		return nil, err
	}
	return m.plan, m.run(ctx)
}

// newMerge relates two states.
func newMerge(ctx context.Context, st *store.Store, at, from Place, sel MergeSelect) (*merge, error) {
	sel.Only = cleanAll(sel.Only)
	a := newAncestry(st)
	rel, err := a.between(ctx, at, from)
	if err != nil {
		return nil, err
	}
	if len(rel.theirs) == 0 {
		return nil, nothing("merge: everything that was changed there is here already")
	}
	m := &merge{st: st, sel: &sel, apart: rel, at: map[store.Ino]*entity{}, plan: &MergePlan{At: at, From: from, Base: rel.common[0], texts: map[store.Ino][]byte{}}}
	if len(sel.Only)+len(sel.Hunks) == 0 {
		m.plan.Merged = &store.Merged{Timeline: from.Timeline, Seq: from.Seq}
	}
	base, err := m.commonState(ctx)
	if err != nil {
		return nil, err
	}
	ours, err := st.ViewAt(ctx, at.Timeline, at.Seq)
	if err != nil {
		return nil, err
	}
	theirs, err := st.ViewAt(ctx, from.Timeline, from.Seq)
	if err != nil {
		return nil, err
	}
	m.oursView, m.inside = ours, map[store.Ino][]store.Ino{}
	m.base, m.ours, m.theirs = newMergeSide(base), newMergeSide(ours), newMergeSide(theirs)
	return m, nil
}

// commonState is the state that both came from. If its history was collected, an older one has to do: changes that both have
// count as made by both then, which is right if they are the same, and a conflict at worst.
func (m *merge) commonState(ctx context.Context) (treeState, error) {
	var views []treeState
	var first error
	for i, p := range slices.Concat(m.apart.common, m.apart.older) {
		if i >= len(m.apart.common) && len(views) > 0 {
			break
		}
		v, err := m.st.ViewAt(ctx, p.Timeline, p.Seq)
		switch {
		case errors.Is(err, store.ErrCollected):
			if first == nil {
				first = err
			}
		case err != nil:
			return nil, fmt.Errorf("read the common point: %w", err)
		default:
			if len(views) == 0 {
				m.plan.Base = p
			}
			views = append(views, v)
		}
	}
	switch len(views) {
	case 0:
		return nil, fmt.Errorf("read the common point: %w", first)
	case 1:
		return views[0], nil
	}
	return m.crossed(ctx, views)
}

// meet finds what has changed, and what it is on each side.
func (m *merge) meet(ctx context.Context) error {
	if err := m.collect(ctx); err != nil {
		return err
	}
	if err := m.pairs(ctx, m.theirs, m.apart.theirs); err != nil {
		return err
	}
	if err := m.pairs(ctx, m.ours, m.apart.ours); err != nil {
		return err
	}
	if err := m.twins(ctx); err != nil {
		return err
	}
	return m.entities(ctx)
}

func (m *merge) run(ctx context.Context) error {
	if err := m.meet(ctx); err != nil {
		return err
	}
	for _, e := range m.list {
		if err := m.decide(ctx, e); err != nil {
			return err
		}
	}
	m.spare()
	if err := m.settle(ctx); err != nil {
		return err
	}
	if err := m.states(ctx); err != nil {
		return err
	}
	return m.finish(ctx)
}

// conflict writes down that something does not go together.
func (m *merge) conflict(ctx context.Context, e *entity, why, detail string) error {
	for i := range e.conflicts {
		if e.conflicts[i].Why == why {
			return nil
		}
	}
	c := MergeConflict{Why: why, Detail: detail, Base: e.b, Ours: e.o, Theirs: e.t, Ino: m.inoHere(e.id)}
	path, ok, err := m.ours.path(ctx, e.id)
	if err != nil {
		return err
	}
	there, known, err := m.theirs.path(ctx, e.id)
	if err != nil {
		return err
	}
	if !ok {
		path = there
	} else if there != path {
		c.There = there
	}
	k := store.DirName{}
	switch {
	case ok && len(m.ours.names[m.ours.ino(e.id)]) > 0:
		k = m.ours.names[m.ours.ino(e.id)][0]
	case len(e.nt) > 0:
		k = store.DirName{Parent: m.inoHere(e.nt[0].Parent), Name: e.nt[0].Name}
	case len(e.nb) > 0:
		k = store.DirName{Parent: m.inoHere(e.nb[0].Parent), Name: e.nb[0].Name}
	}
	if !ok && !known {
		if path, _, err = m.base.path(ctx, e.id); err != nil {
			return err
		}
	}
	c.Path, c.Parent, c.Name = path, k.Parent, k.Name
	if e.part != nil {
		c.Theirs = e.part.full
	}
	e.conflicts = append(e.conflicts, c)
	return nil
}

// inoHere is the inode that an entity is in the target, or will be.
func (m *merge) inoHere(e store.Ino) store.Ino {
	if _, other := m.ours.here[e]; other || m.ours.vers[e] != nil {
		return m.ours.ino(e)
	}
	return m.theirs.ino(e)
}

// inGit reports whether a path is below a directory .git, whose files mean something together.
func inGit(path string) bool { return slices.Contains(strings.Split(path, "/"), ".git") }
