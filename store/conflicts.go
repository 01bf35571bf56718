package store

import "context"

// OpenConflicts is how many conflicts nobody has resolved.
func (s *Store) OpenConflicts(ctx context.Context) (n int64, err error) {
	_, err = scanAll(ctx, s.r, 1, `SELECT count(*) FROM conflict WHERE resolved_at IS NULL`, nil, func(c *cells) error {
		n = c.int(0)
		return nil
	})
	return n, s.dbError("count conflicts", err)
}
