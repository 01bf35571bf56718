package blob

import (
	"context"
	"fmt"
	"syscall"
)

// PutMany is PutPacked of many contents: it looks into the index once and writes all of them with few calls. The data stays the
// caller's. The results are in the order of data; after an error nothing is staged.
func (s *Store) PutMany(ctx context.Context, data [][]byte) ([]Staged, error) {
	if err := s.writable(); err != nil {
		return nil, err
	}
	turn := s.guard.enter()
	defer s.guard.count(turn, -1)
	out := make([]Staged, len(data))
	at := make(map[Ref]Location, len(data)) // what has to be staged; without a Size: not written yet
	var ask []Ref
	for i, d := range data {
		if len(d) > MaxBlob {
			return nil, fmt.Errorf("blob: PutMany of %d bytes, the most is %d: %w", len(d), MaxBlob, syscall.EINVAL)
		}
		ref := Sum(d)
		out[i].Content = Content{Ref: ref, Size: int64(len(d))}
		if _, ok := at[ref]; ok || len(d) == 0 {
			continue
		}
		loc, placed := s.pending.place(ref)
		if !placed || !s.guard.fresh(loc) {
			loc, placed = Location{}, false
		}
		if at[ref] = loc; !placed {
			ask = append(ask, ref)
		}
	}
	err := s.known(ctx, ask, func(ref Ref) { delete(at, ref) })
	if err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		s.o.Log.Warn("not known which blobs are stored already, so all are stored", "blobs", len(ask), "err", err)
	}
	w := s.newRecordWriter(s.o.Small, s.o.InlineMax)
	w.room = s.o.Room
	defer w.release()
	for i, d := range data {
		ref := out[i].Content.Ref
		if loc, ok := at[ref]; !ok || loc.Size != 0 {
			continue
		}
		at[ref] = Location{Ref: ref, Size: int64(len(d))}
		if err := w.add(ref, d); err != nil {
			return nil, err
		}
	}
	if err := w.flush(); err != nil {
		return nil, err
	}
	for _, loc := range w.locs {
		at[loc.Ref] = loc
	}
	for i := range out {
		if loc, ok := at[out[i].Content.Ref]; ok {
			out[i].Packed = []Location{loc}
		}
		out[i].turn = turn
		s.stage(out[i])
	}
	return out, nil
}
