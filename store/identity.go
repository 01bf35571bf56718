package store

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// identityCounter is the row of table counter with the store's number. It is random and is given to no other store, but
// for copies; a backup gets one of its own when it is first opened for writing, since from then on it goes its own way.
const identityCounter = "store"

// ID is the store's number, 0 if it was never opened for writing by a wsfs that gives one.
func (s *Store) ID(ctx context.Context) (int64, error) {
	id, err := identity(ctx, s.r)
	return id, s.dbError("read the store's number", err)
}

func identity(ctx context.Context, q querier) (id int64, err error) {
	_, err = scanAll(ctx, q, 1, `SELECT next FROM counter WHERE name = ?`, []any{identityCounter}, func(c *cells) error {
		id = c.int(0)
		return nil
	})
	return id, err
}

// becomeOne gives a store that has none its number, and makes a store of a backup. Open calls it before anything else
// is written.
func (s *Store) becomeOne(ctx context.Context) error {
	m, err := ReadBackup(s.dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if m != nil && !m.Complete {
		return fmt.Errorf("open store %s: %w", s.dir, errIncomplete)
	}
	id, err := identity(ctx, s.w)
	if err != nil {
		return s.dbError("read the store's number", err)
	}
	if id != 0 && m == nil {
		return nil
	}
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	id = int64(binary.LittleEndian.Uint64(b[:])&(1<<62-1)) | 1
	err = s.changeCounters(ctx, func(ctx context.Context) error { return s.setCounter(ctx, identityCounter, id) })
	if err != nil {
		return s.dbError("give the store its number", err)
	}
	if m == nil {
		return nil
	}
	if err := os.Remove(filepath.Join(s.dir, backupFile)); err != nil {
		return fmt.Errorf("open store %s, which is a backup: %w", s.dir, err)
	}
	s.o.Log.InfoContext(ctx, "a backup became a store", "store", s.dir, "of", m.Source, "taken", m.Finished)
	return nil
}
