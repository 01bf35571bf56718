package store

import (
	"context"
	"fmt"
)

// commitDurably returns when everything committed so far survives a power cut.
func (s *Store) commitDurably(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	// With mu held no commit is half way into the log.
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if err := s.drv.Sync(s.dir); err != nil {
		return s.dbError("sync", err)
	}
	return nil
}

// reserveIDs durably adds n to each of the counters and returns their values before that: 1 where there was none.
func (s *Store) reserveIDs(ctx context.Context, names []string, n int64) ([]int64, error) {
	next := make([]int64, len(names))
	err := s.changeCounters(ctx, func(ctx context.Context) error {
		for i, name := range names {
			next[i] = 1
			_, err := scanAll(ctx, s.w, 1, `SELECT next FROM counter WHERE name = ?`, []any{name}, func(c *cells) error {
				next[i] = c.int(0)
				return nil
			})
			if err != nil {
				return err
			}
			if err := s.setCounter(ctx, name, next[i]+n); err != nil {
				return err
			}
		}
		return nil
	})
	return next, s.dbError(fmt.Sprintf("reserve numbers of %v", names), err)
}

// returnIDs durably sets counters back to next. Nothing from there on was used.
func (s *Store) returnIDs(ctx context.Context, names []string, next []int64) error {
	err := s.changeCounters(ctx, func(ctx context.Context) error {
		for i, name := range names {
			if err := s.setCounter(ctx, name, next[i]); err != nil {
				return err
			}
		}
		return nil
	})
	return s.dbError(fmt.Sprintf("give back numbers of %v", names), err)
}

func (s *Store) changeCounters(ctx context.Context, fn func(ctx context.Context) error) error {
	if err := s.w.tx(ctx, fn); err != nil {
		return err
	}
	return s.drv.Sync(s.dir)
}

func (s *Store) setCounter(ctx context.Context, name string, next int64) error {
	_, err := s.w.exec(ctx, `INSERT INTO counter (name, next) VALUES (?, ?)
		ON CONFLICT (name) DO UPDATE SET next = excluded.next`, name, next)
	return err
}
