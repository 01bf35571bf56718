package store

import "wsfs/blob"

// group is what one database transaction applies: ops in the order of their slots, the locations of the blobs that
// they are the first to name, and the place in the journal that is reached with it.
type group struct {
	ops       []*Op
	blobs     []blob.Location
	settled   map[blob.Ref]blob.Ref // what to write in the place of provisional contents
	journalID int64
	applied   int64
	behind    func() bool // whether somebody waits for what comes next; nil: nobody
}
