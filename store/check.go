package store

import "context"

// Problem is one broken invariant. Rule is its number in docs/format.md.
type Problem struct {
	Rule int
	Text string
}

// Check tests every invariant of the schema on one consistent state of the database, and that the bytes of every blob
// can be read, and calls report for each one that is broken. An error means that checking itself failed.
func (s *Store) Check(ctx context.Context, report func(Problem)) error {
	return errTODO
}

// CheckRows is Check without reading the bytes of blobs.
func (s *Store) CheckRows(ctx context.Context, report func(Problem)) error {
	return errTODO
}

// Stats is what `wsfs stat` shows of a store.
type Stats struct {
	Rows          map[string]int64 // by table
	DatabaseBytes int64            // the database and its own log
	PackBytes     int64
	JournalBytes  int64
	BlobBytes     int64 // uncompressed size of all blobs
}

// Stats counts rows and bytes. It reads whole tables: seconds for millions of rows.
func (s *Store) Stats(ctx context.Context) (Stats, error) {
	return Stats{}, errTODO
}
