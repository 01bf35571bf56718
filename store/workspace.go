package store

// Timeline is one append-only line of changes. Its state is Parent@ParentSeq plus its own rows.
type Timeline struct {
	ID        TimelineID
	Parent    TimelineID
	ParentSeq Seq
	Head      Seq // highest seq used; starts at the workspace's highest
	GCSeq     Seq
	Epoch     int64
	Chain     []Segment // the read path below it, nearest first
	Hidden    bool

	state int64 // of the column hidden, which Hidden is not 0
}

// Segment is a timeline read up to and including Cut.
type Segment struct {
	Timeline TimelineID
	Cut      Seq
}

// Workspace is a named tree that can be mounted: a pointer to a place on a timeline.
type Workspace struct {
	ID         WorkspaceID
	Name       string
	Timeline   TimelineID // 0 until the first write after a fork or rollback
	Base       TimelineID
	BaseSeq    Seq
	Generation int64
	ReadOnly   bool
	Parent     WorkspaceID
	OriginPath string // absolute directory it was imported from, "" if none
	CreatedAt  int64  // ns
	DroppedAt  int64  // ns, 0 if live
}
