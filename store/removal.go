package store

import (
	"context"
	"encoding/json"
)

// Kinds of Removal.
const (
	RemovalGC    = "gc"
	RemovalPurge = "purge"
)

// Removal is what stays of what was removed for good: that it was.
type Removal struct {
	ID     int64
	At     int64  // ns since the epoch
	Kind   string // RemovalGC, RemovalPurge
	Rule   string // the policy, or what was purged
	Who    string // session and command, as far as known
	Detail string // a JSON object: how much
}

func (r *GCResult) json() string {
	b, err := json.Marshal(r)
	if err != nil { // numbers alone
		return "{}"
	}
	return string(b)
}

func addRemoval(ctx context.Context, w *writer, r *Removal) error {
	_, err := w.exec(ctx, `INSERT INTO removal (id, at, kind, rule, who, detail) SELECT COALESCE(max(id), 0) + 1, ?, ?, ?, ?, ? FROM removal`,
		r.At, r.Kind, r.Rule, r.Who, r.Detail)
	return err
}

// Removals lists what was removed for good, the last first, at most limit; 0: all.
func (s *Store) Removals(ctx context.Context, limit int) ([]Removal, error) {
	if limit <= 0 {
		limit = 1 << 30
	}
	var list []Removal
	_, err := scanAll(ctx, s.r, 6, `SELECT id, at, kind, rule, who, detail FROM removal ORDER BY id DESC LIMIT ?`, []any{int64(limit)},
		func(c *cells) error {
			list = append(list, Removal{c.int(0), c.int(1), c.string(2), c.string(3), c.string(4), c.string(5)})
			return nil
		})
	return list, s.dbError("list what was removed", err)
}
