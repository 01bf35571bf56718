package store

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
)

// migrations are the steps from each schema version to the next; step i leads to version i+1. A step is never changed
// once a release had it.
func migrations(t Types) [][]string {
	return [][]string{
		createSchema(t), append(createTables(t, 2), schema2()...), createTables(t, 3),
		slices.Concat(createTables(t, 4), schema4(t), schemaMerges(), schemaReviews()),
	}
}

// migrate brings the database to SchemaVersion, one transaction a step.
func (s *Store) migrate(ctx context.Context) error {
	v, err := s.drv.Version(ctx, s.w.conn)
	if err != nil {
		return s.dbError("read the schema version", err)
	}
	if v > SchemaVersion {
		return newerSchema(s.dir, v)
	}
	steps := migrations(s.drv.Types)
	for ; v < SchemaVersion; v++ {
		err := s.w.tx(ctx, func(ctx context.Context) error {
			for _, q := range steps[v] {
				s.at("migrate")
				if _, err := s.w.conn.ExecContext(ctx, q); err != nil {
					return fmt.Errorf("%s: %w", short(q), err)
				}
			}
			return s.drv.SetVersion(ctx, s.w.conn, v+1)
		})
		if err != nil {
			return s.dbError(fmt.Sprintf("bring the schema from version %d to %d", v, v+1), err)
		}
		s.at("migrated")
		if s.o.Log != nil {
			s.o.Log.InfoContext(ctx, "schema migrated", "store", s.dir, "version", v+1)
		}
	}
	// Probe reads the version in the main file.
	_, err = s.checkpoint(ctx, patience)
	return err
}

// probe refuses what cannot be opened before a byte is changed.
func probe(dir string, drv *Driver, readOnly bool) error {
	dir = filepath.Clean(dir)
	if err := plainFiles(dir); err != nil {
		return err
	}
	v, err := drv.Probe(dir)
	switch {
	case err != nil:
		return fmt.Errorf("open store %s: %w", dir, err)
	case v == 0 && isUnfinished(dir):
		return fmt.Errorf("open store %s: %w", dir, errIncomplete)
	case v == 0:
		return fmt.Errorf("open store %s: there is none; `wsfs init` makes one: %w", dir, ErrNotFound)
	case v > SchemaVersion:
		return newerSchema(dir, v)
	case v < SchemaVersion && readOnly:
		return fmt.Errorf("open store %s for reading: it has schema version %d, this wsfs reads %d: %w; `wsfs sync` brings it "+
			"up to date", dir, v, SchemaVersion, ErrOlderSchema)
	}
	return nil
}

func newerSchema(dir string, v int) error {
	return fmt.Errorf("open store %s: it has schema version %d and this wsfs knows versions up to %d: %w; use that one; "+
		"nothing was changed", dir, v, SchemaVersion, ErrNewerSchema)
}
