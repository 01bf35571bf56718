package store

import "context"

// Group is a group for tests that apply without the queue.
type Group struct {
	Ops                []*Op
	JournalID, Applied int64
}

// ApplyGroup applies g with every attribution row of it fresh.
func (s *Store) ApplyGroup(ctx context.Context, g Group) error {
	return s.applyGroup(ctx, &group{ops: g.Ops, journalID: g.JournalID, applied: g.Applied})
}

// Fresh makes op the first to name its attribution.
func (op *Op) Fresh() *Op {
	var rows emitted
	op.fresh = rows.missing(op.Who)
	return op
}

// Queries are those whose plans matter, by name, with keys for n rows.
func Queries(n int) map[string]string {
	return map[string]string{
		"dir head":   sqlDirHead,
		"dir live":   withKeys(sqlDirLive, n, 4),
		"dir past":   withKeys(sqlDirPast, n, 4),
		"names live": withKeys(sqlNamesLive, n, 5),
		"names past": withKeys(sqlNamesPast, n, 5),
		"versions":   withKeys(sqlVersions, n, 4),
	}
}

// SetCrashPoint has f called at named points of the applier.
func (o *Options) SetCrashPoint(f func(point string)) { o.crashPoint = f }
