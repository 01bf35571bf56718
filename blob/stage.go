package blob

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
)

// StageSmall makes content of at most MaxBlob bytes readable. It takes over data and does no I/O. The bytes ride in the
// Op and are stored by Settle. It panics on more than MaxBlob bytes: those are for Edit.
func (s *Store) StageSmall(data []byte) Staged {
	if len(data) > MaxBlob {
		panic(fmt.Sprintf("blob: StageSmall of %d bytes, the most is %d", len(data), MaxBlob))
	}
	st := Staged{Content: Content{Ref: Sum(data), Size: int64(len(data))}}
	if len(data) > 0 {
		st.Small, st.turn = data, s.guard.enter()
		s.pending.add(st)
	}
	return st
}

// Restage makes what a journal's Op staged readable again, before the Op is applied after a restart.
func (s *Store) Restage(st Staged) {
	for i := range st.Packed {
		if st.Packed[i].Pack != 0 {
			s.packs.reserve(st.Packed[i])
		}
	}
	s.stage(st)
}

// Settle stores what is not stored yet, and returns the location of every blob of items that the index does not know:
// the rows to insert, each Ref once. The applier calls it before its transaction. Calling it again after the
// transaction failed is fine. The rows may be committed after the next Sync at the earliest, lest they name bytes that a
// power failure takes.
func (s *Store) Settle(ctx context.Context, items []Staged) ([]Location, error) {
	if err := s.writable(); err != nil {
		return nil, err
	}
	items, err := s.settlePatches(ctx, items)
	if err != nil {
		return nil, err
	}
	refs := make([]Ref, 0, len(items))
	seen := make(map[Ref]bool, len(items)) // false: seen, true: the index has it
	note := func(ref Ref) {
		if _, ok := seen[ref]; !ok {
			seen[ref] = false
			refs = append(refs, ref)
		}
	}
	for i := range items {
		if len(items[i].Small) > 0 {
			note(items[i].Content.Ref)
		}
		for j := range items[i].Packed {
			note(items[i].Packed[j].Ref)
		}
	}
	if err := s.known(ctx, refs, func(ref Ref) { seen[ref] = true }); err != nil {
		return nil, err
	}
	locs := make([]Location, 0, len(refs))
	w := s.newRecordWriter(s.o.Small, s.o.InlineMax)
	defer w.release()
	// After a failure too: what was written stays where it is, so that trying again on a full disk does not write it again.
	defer func() {
		for i := range w.locs[:w.first] {
			s.pending.settled(w.locs[i])
		}
	}()
	take := func(ref Ref) bool {
		if seen[ref] {
			return false
		}
		seen[ref] = true
		return true
	}
	for i := range items {
		it := &items[i]
		for j := range it.Packed {
			if take(it.Packed[j].Ref) {
				loc := it.Packed[j]
				if loc.Pack != 0 {
					loc.Data = nil // decoding an Op may have left an empty slice
				}
				locs = append(locs, loc)
			}
		}
		if len(it.Small) == 0 || !take(it.Content.Ref) {
			continue
		}
		if loc, ok := s.pending.place(it.Content.Ref); ok && s.guard.fresh(loc) {
			locs = append(locs, loc)
		} else if err := w.add(it.Content.Ref, it.Small); err != nil {
			return nil, err
		}
	}
	if err := w.flush(); err != nil {
		return nil, err
	}
	return append(locs, w.locs...), nil
}

// settlePatches puts in the place of each patch what it is in truth.
func (s *Store) settlePatches(ctx context.Context, items []Staged) ([]Staged, error) {
	var out []Staged
	for i := range items {
		if !items[i].Patch {
			continue
		}
		p := s.patch(items[i].Content.Ref)
		if p == nil {
			return nil, fmt.Errorf("blob: settling the patch %v, which is not staged: %w", items[i].Content.Ref, syscall.EINVAL)
		}
		st, err := s.settlePatch(ctx, p)
		if err != nil {
			return nil, err
		}
		if out == nil {
			out = slices.Clone(items)
		}
		out[i] = *st
	}
	if out == nil {
		return items, nil
	}
	return out, nil
}

// Applied says that the index has all blobs of items, or that items will never be applied. Each Staged that a call
// returned or Restage got is passed exactly once.
func (s *Store) Applied(items []Staged) {
	for i := range items {
		settled := s.pending.remove(items[i], s.cache.put)
		for _, st := range []*Staged{&items[i], settled} {
			if st != nil && st.Content.Size > 0 {
				s.guard.count(st.turn, -1)
			}
		}
	}
}

// stage makes st readable until it is applied.
func (s *Store) stage(st Staged) {
	s.pending.add(st)
	if st.Content.Size > 0 {
		s.guard.count(st.turn, 1)
	}
}

// PutPacked stores content of at most MaxBlob bytes right now. data stays the caller's.
func (s *Store) PutPacked(data []byte) (Staged, error) {
	if len(data) > MaxBlob {
		return Staged{}, fmt.Errorf("blob: PutPacked of %d bytes, the most is %d: %w", len(data), MaxBlob, syscall.EINVAL)
	}
	st := Staged{Content: Content{Ref: Sum(data), Size: int64(len(data))}}
	if len(data) == 0 {
		return st, nil
	}
	b := s.newBatch(s.o.Small, s.o.InlineMax)
	defer b.leave()
	if err := b.place(context.Background(), []candidate{{st.Content.Ref, data}}); err != nil {
		return Staged{}, err
	}
	st.Packed, st.turn = b.packed, b.turn
	s.stage(st)
	return st, nil
}

// known calls yes for each of refs that the index has.
func (s *Store) known(ctx context.Context, refs []Ref, yes func(Ref)) error {
	if len(refs) == 0 {
		return nil
	}
	s.guard.ask(refs)
	found := func(ref Ref) {
		if s.guard.has(ref) {
			yes(ref)
		}
	}
	if batch, ok := s.index.(BatchIndex); ok {
		if err := batch.LocateMany(ctx, refs, func(l Location) { found(l.Ref) }); err != nil {
			return fmt.Errorf("blob: looking up %d blobs: %w", len(refs), err)
		}
		return nil
	}
	for _, ref := range refs {
		_, err := s.index.Locate(ctx, ref)
		if err == nil {
			found(ref)
		} else if !errors.Is(err, ErrNotFound) {
			return fmt.Errorf("blob: looking up %v: %w", ref, err)
		}
	}
	return nil
}

// candidate is a blob that may have to be stored.
type candidate struct {
	ref  Ref
	data []byte
}

// batch stores the blobs of one content, each once. Its methods may be called from several goroutines.
type batch struct {
	s         *Store
	encoding  Encoding
	inlineMax int
	stream    bool // see recordWriter
	keepOwn   bool // note what is stored, to give it back
	turn      int  // of the guard

	mu     sync.Mutex
	seen   map[Ref]struct{} // guarded by mu; what a call of place took care of or is about to
	packed []Location       // guarded by mu
	own    []Location       // guarded by mu; those of packed that it has stored itself
	stats  EditStats        // guarded by mu
	left   bool             // guarded by mu
}

// newBatch begins a batch, which whoever made it leaves after staging the content, or giving it up.
func (s *Store) newBatch(e Encoding, inlineMax int) *batch {
	return &batch{s: s, encoding: e, inlineMax: inlineMax, turn: s.guard.enter(), seen: map[Ref]struct{}{}}
}

func (b *batch) leave() {
	b.mu.Lock()
	left := b.left
	b.left = true
	b.mu.Unlock()
	if !left {
		b.s.guard.count(b.turn, -1)
	}
}

// place stores those of cands that are not stored yet. Blobs of another Staged that is not applied yet go into packed
// as well: that one's Op may never reach the journal, this one's has to do without it.
func (b *batch) place(ctx context.Context, cands []candidate) error {
	if err := b.s.writable(); err != nil {
		return err
	}
	fresh := make([]candidate, 0, len(cands))
	refs := make([]Ref, 0, len(cands))
	b.mu.Lock()
	for _, c := range cands {
		if _, ok := b.seen[c.ref]; ok {
			continue
		}
		b.seen[c.ref] = struct{}{}
		if loc, ok := b.s.pending.place(c.ref); ok && b.s.guard.fresh(loc) {
			b.packed = append(b.packed, loc)
			continue
		}
		fresh = append(fresh, c)
		refs = append(refs, c.ref)
	}
	b.mu.Unlock()
	have := map[Ref]struct{}{}
	if err := b.s.known(ctx, refs, func(r Ref) { have[r] = struct{}{} }); err != nil {
		if ctx.Err() != nil {
			return err
		}
		// Storing a blob twice costs space, refusing to store it loses bytes. Settle asks again.
		b.s.o.Log.Warn("not known which blobs are stored already, so all are stored", "blobs", len(refs), "err", err)
	}
	w := b.s.newRecordWriter(b.encoding, b.inlineMax)
	w.stream, w.room = b.stream, b.s.o.Room
	defer w.release()
	for _, c := range fresh {
		if _, ok := have[c.ref]; ok {
			continue
		}
		if err := w.add(c.ref, c.data); err != nil {
			return err
		}
	}
	if err := w.flush(); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.packed = append(b.packed, w.locs...)
	if b.keepOwn {
		b.own = append(b.own, w.locs...)
	}
	b.stats.ChunksNew += int64(len(w.locs))
	b.stats.BytesStored += w.written
	return nil
}

func (b *batch) addStats(e EditStats) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stats.BytesHashed += e.BytesHashed
	b.stats.BytesRead += e.BytesRead
}
