package store

import "context"

// Budget is how large a store is, and how large it may be.
type Budget struct {
	Bytes int64 `json:"bytes"` // of all its files
	Cap   int64 `json:"cap"`   // what the policy says; 0: nothing
}

// budgetShare is the part of the cap, in percent, from which on somebody should know.
const budgetShare = 80

// Tight reports whether four fifths of what the policy allows are used.
func (b Budget) Tight() bool { return b.Cap > 0 && b.Percent() >= budgetShare }

// Percent is how much of the cap is used; 0 if there is none.
func (b Budget) Percent() int64 {
	if b.Cap == 0 {
		return 0
	}
	return int64(float64(b.Bytes) / float64(b.Cap) * 100)
}

// Budget looks how large the store is; its cost is that of listing its files.
func (s *Store) Budget(ctx context.Context) (Budget, error) {
	keep, err := s.Retention(ctx)
	if err != nil {
		return Budget{}, err
	}
	b := Budget{Cap: keep.Cap}
	b.Bytes, err = s.bytes()
	return b, s.dbError("find out how large the store is", err)
}
