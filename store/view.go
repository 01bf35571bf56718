package store

import "context"

// View is one state of a tree: a read path, nearest timeline first. It is immutable, safe for concurrent use and holds
// no transaction. A view whose first cut is MaxSeq follows the head of that timeline.
type View struct {
	s    *Store
	path []Segment
}

// ViewAt returns the state of timeline at seq; MaxSeq follows the head. A seq that lies on an ancestor is read there.
func (s *Store) ViewAt(ctx context.Context, timeline TimelineID, seq Seq) (*View, error) {
	return nil, errTODO
}

// ViewOf returns the state that a workspace shows: the head of its timeline, or its base.
func (s *Store) ViewOf(ctx context.Context, ws *Workspace) (*View, error) {
	return nil, errTODO
}

// Path is the read path, nearest first. The caller must not change it.
func (v *View) Path() []Segment { return v.path }

// Child returns the head of a timeline that starts at v, whether or not its row is in the database yet. v must not
// follow a head.
func (v *View) Child(t TimelineID) *View {
	return &View{s: v.s, path: append([]Segment{{t, MaxSeq}}, v.path...)}
}

// Lookup finds one directory entry. The error wraps ENOENT if there is none.
func (v *View) Lookup(ctx context.Context, parent Ino, name string) (Name, error) {
	return Name{}, errTODO
}

// Version finds the state of one inode; it wraps ENOENT if the inode does not exist in this view. The state of an
// inode without names has Nlink 0.
func (v *View) Version(ctx context.Context, ino Ino) (*Version, error) {
	return nil, errTODO
}

// ReadDir calls fn with every entry of a directory, in byte order of the names, with its attributes, and stops at the
// first error. It takes a few queries however many entries there are, and no transaction is held while fn runs.
func (v *View) ReadDir(ctx context.Context, parent Ino, fn func(Name, *Version) error) error {
	return errTODO
}

// Resolve walks path from the root: bytes, separated by '/'; empty parts and "." are skipped, ".." and symbolic links
// are not followed. The root itself has the zero Name with Ino RootIno.
func (v *View) Resolve(ctx context.Context, path string) (Name, *Version, error) {
	return Name{}, nil, errTODO
}
