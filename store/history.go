package store

import "context"

// NamesOf lists the names that ino has in this view, in no particular order; none if it has no name or does not exist.
// The root has none.
func (v *View) NamesOf(ctx context.Context, ino Ino) ([]Name, error) {
	return nil, errTODO
}

// SeqAt is the newest seq on v's read path whose change was made at or before at (ns since the epoch), and the
// timeline it is on. It wraps ENOENT if every change on the path is younger.
func (v *View) SeqAt(ctx context.Context, at int64) (TimelineID, Seq, error) {
	return 0, 0, errTODO
}
