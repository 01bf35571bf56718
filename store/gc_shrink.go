package store

import (
	"context"
	"errors"
	iofs "io/fs"
	"path/filepath"
	"syscall"
	"time"
)

const (
	// shrinkStep is how many bytes of the database one step gives back.
	shrinkStep = 512 << 10
	// freeLeft is what may stay free: it is used again soon.
	freeLeft = 1 << 20
)

// shrink gives room in the database's file back.
func (g *collector) shrink(ctx context.Context) error {
	least := int64(freeLeft)
	if g.o.Thorough {
		least = 0
	}
	for {
		if err := g.pause(ctx); err != nil {
			return err
		}
		more, able, err := g.shrinkOnce(ctx, least)
		if err != nil {
			return err
		}
		if !able && g.o.Thorough {
			if err := g.s.rebuild(ctx); err != nil {
				return err
			}
		}
		if !more || !able {
			break
		}
	}
	wait := time.Duration(0)
	if g.o.Thorough {
		wait = patience
	}
	_, err := g.s.checkpoint(ctx, wait)
	return err
}

func (g *collector) shrinkOnce(ctx context.Context, least int64) (more, able bool, err error) {
	w := g.s.w
	w.mu.Lock()
	defer w.mu.Unlock()
	free, err := g.s.drv.Free(ctx, w.conn)
	if err != nil || free <= least {
		return false, true, err
	}
	g.s.at("gc step")
	defer g.s.at("gc stepped")
	able, err = g.s.drv.Shrink(ctx, w.conn, min(free-least, shrinkStep))
	if err != nil {
		return false, able, err
	}
	left, err := g.s.drv.Free(ctx, w.conn)
	return left > least && left < free, able, err
}

// rebuild writes the database once more. It needs its room a second time.
func (s *Store) rebuild(ctx context.Context) error {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	err := s.drv.Rebuild(context.WithoutCancel(ctx), s.w.conn)
	if err != nil && s.drv.Classify(err) == ClassFull {
		return errors.Join(err, syscall.ENOSPC)
	}
	return err
}

// bytes is the size of all files of the store.
func (s *Store) bytes() (sum int64, err error) {
	err = filepath.WalkDir(s.dir, func(_ string, d iofs.DirEntry, err error) error {
		if errors.Is(err, iofs.ErrNotExist) {
			return nil // files come and go
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		if info, err := d.Info(); err == nil {
			sum += info.Size()
		}
		return nil
	})
	return sum, err
}

// freeBytes is how much of the database's file holds nothing.
func (s *Store) freeBytes(ctx context.Context) (int64, error) { return s.drv.Free(ctx, s.r.db) }
