package store

import (
	"context"
	iofs "io/fs"
	"path/filepath"
	"strings"
)

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
	st := Stats{Rows: make(map[string]int64)}
	for _, t := range schemaTables() {
		_, err := scanAll(ctx, s.r, 1, `SELECT count(*) FROM `+t.name, nil, func(c *cells) error {
			st.Rows[t.name] = c.int(0)
			return nil
		})
		if err != nil {
			return st, s.dbError("count the rows of "+t.name, err)
		}
	}
	if _, err := scanAll(ctx, s.r, 1, `SELECT sum(size) FROM blob`, nil, func(c *cells) error {
		st.BlobBytes = c.int(0)
		return nil
	}); err != nil {
		return st, s.dbError("measure blobs", err)
	}
	// Files come and go while this runs; what cannot be seen counts nothing.
	err := filepath.WalkDir(s.dir, func(path string, d iofs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		switch rel, _ := filepath.Rel(s.dir, path); {
		case strings.HasPrefix(rel, "packs"+string(filepath.Separator)):
			st.PackBytes += info.Size()
		case strings.HasPrefix(rel, "journal"+string(filepath.Separator)):
			st.JournalBytes += info.Size()
		case strings.HasPrefix(rel, "wsfs.db"):
			st.DatabaseBytes += info.Size()
		}
		return nil
	})
	return st, err
}
