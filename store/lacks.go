package store

import (
	"context"

	"wsfs/blob"
)

// Lacks lists the files of a state whose bytes are not kept any more because of their class, in no order; nil if it is whole. The present of a
// workspace always is, and what a tag or a fork named before anything was let go. Its cost is that of the state, but nothing for one
// that is younger than what was ever let go of its timeline.
func (s *Store) Lacks(ctx context.Context, v *View) ([]Ino, error) {
	list, err := s.lacks(ctx, v)
	return list, s.dbError("find out what a past state lacks", err)
}

// LetsGo is the class because of which a content is just being let go, "" if it is not.
func (s *Store) LetsGo(ref blob.Ref) PathClass {
	s.letting.mu.RLock()
	defer s.letting.mu.RUnlock()
	return s.letting.refs[ref]
}

func (s *Store) lacks(ctx context.Context, v *View) ([]Ino, error) {
	t, seq := v.Head()
	if before, err := letGoBefore(ctx, s.r, t); err != nil || seq >= before {
		return nil, err // where a timeline begins is whole: something names it
	}
	gone, err := s.goneRefs(ctx)
	if err != nil {
		return nil, err
	}
	s.letting.mu.RLock()
	for r := range s.letting.refs {
		gone[r] = false
	}
	s.letting.mu.RUnlock()
	if len(gone) == 0 {
		return nil, nil
	}
	var out []Ino
	err = s.shownIn(ctx, v, func(ino Ino, _ VersionID, c blob.Content) error {
		if _, ok := gone[c.Ref]; ok {
			out = append(out, ino)
		}
		return nil
	})
	return out, err
}
