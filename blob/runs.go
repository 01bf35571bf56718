package blob

import (
	"bytes"
	"slices"
	"sync"
	"sync/atomic"
)

// Small contents that are read one after the other were most likely written one after the other: those of a directory by
// tar, clone or import lie side by side in a pack. So the second miss in a stretch of a pack brings the whole stretch, a
// run, in one read, and since records name themselves, what else is in it needs no look-up any more. Which blob a record
// really is shows when it is verified, as ever.
const (
	runSize    = 512 << 10
	runOverlap = 32 << 10 // what of the next stretch is read, too: a record may reach into it
	maxRuns    = 16       // kept at a time: 8.5 MiB
	recentRuns = 64       // stretches of which one blob was asked for
	// aheadAfter is how many blobs of a run must have been asked for until the others are decoded ahead.
	aheadAfter = 3
)

// runs is the cache of runs. Safe for any number of goroutines.
type runs struct {
	mu     sync.Mutex
	recent []runKey           // guarded by mu; newest last
	list   []*run             // guarded by mu; oldest first
	where  map[Ref]*runRecord // guarded by mu
	ahead  sync.WaitGroup     // decoders at work
	busy   atomic.Bool        // there is one
}

type runKey struct {
	pack  uint32
	block int64
}

type run struct {
	key     runKey
	end     int64       // of the bytes that were there
	records []runRecord // in the order of the pack
	hits    int         // guarded by runs.mu
}

// runRecord is one blob in a run.
type runRecord struct {
	run *run
	loc Location // its Data are the stored bytes; it names no pack
}

// get returns the stored bytes of a blob as a Location without a pack.
func (r *runs) get(ref Ref) (Location, *run, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec := r.where[ref]
	if rec == nil {
		return Location{}, nil, false
	}
	rec.run.hits++
	if rec.run.hits == aheadAfter {
		return rec.loc, rec.run, true
	}
	return rec.loc, nil, true
}

// has reports whether get finds it.
func (r *runs) has(ref Ref) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.where[ref] != nil
}

// drop forgets a blob that is not what its record says.
func (r *runs) drop(ref Ref) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.where, ref)
}

// again notes a miss and reports whether the run around loc is worth reading.
func (r *runs) again(loc Location) bool {
	if loc.Pack == 0 {
		return false
	}
	key := runKey{loc.Pack, loc.Offset / runSize}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range r.list {
		if x.key == key && loc.Offset+loc.Length <= x.end {
			return false // it was read, and this is no record of it
		}
	}
	if i := slices.Index(r.recent, key); i >= 0 {
		r.recent = slices.Delete(r.recent, i, i+1)
		return true
	}
	if len(r.recent) >= recentRuns {
		r.recent = slices.Delete(r.recent, 0, 1)
	}
	r.recent = append(r.recent, key)
	return false
}

// put adds the run that buf holds from the start of its stretch on, in the place of the oldest.
func (r *runs) put(key runKey, buf []byte) {
	x := &run{key: key, end: key.block*runSize + int64(len(buf))}
	for at := 0; at < len(buf); {
		rec, err := parseRecord(buf[at:])
		if err != nil || rec.stored > int64(len(buf)-at-recordHeader) {
			// What is here is the end of a record, or was never finished.
			next := bytes.Index(buf[at+1:], []byte(recordMagic))
			if next < 0 {
				break
			}
			at += 1 + next
			continue
		}
		from := at + recordHeader
		at = from + int(rec.stored)
		if rec.size <= MaxBlob {
			x.records = append(x.records, runRecord{x, Location{
				Ref: rec.ref, Size: rec.size, Encoding: rec.encoding, Length: rec.stored, Data: buf[from:at:at],
			}})
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.where == nil {
		r.where = make(map[Ref]*runRecord)
	}
	drop := func(i int) {
		for j := range r.list[i].records {
			if rec := &r.list[i].records[j]; r.where[rec.loc.Ref] == rec {
				delete(r.where, rec.loc.Ref)
			}
		}
		r.list = slices.Delete(r.list, i, i+1)
	}
	if i := slices.IndexFunc(r.list, func(o *run) bool { return o.key == key }); i >= 0 {
		drop(i)
	}
	if len(r.list) >= maxRuns {
		drop(0)
	}
	r.list = append(r.list, x)
	for i := range x.records {
		r.where[x.records[i].loc.Ref] = &x.records[i]
	}
}

// fromRun returns a small blob that lies in a run, decoded, verified and in the cache; nil if there is none.
func (s *Store) fromRun(ref Ref) []byte {
	loc, begin, ok := s.runs.get(ref)
	if !ok {
		return nil
	}
	data := s.decodeRecord(loc)
	if begin != nil {
		s.decodeAhead(begin)
	}
	return data
}

func (s *Store) decodeRecord(loc Location) []byte {
	data := make([]byte, loc.Size)
	if s.load(loc, data) != nil {
		s.runs.drop(loc.Ref) // the index knows another place, or says what is damaged
		return nil
	}
	s.cache.put(loc.Ref, data)
	return data
}

// readRun reads the run around loc, if a blob next to it was asked for before. That it cannot be read is no error: the
// blob itself is read after that.
func (s *Store) readRun(loc Location) {
	if !s.runs.again(loc) {
		return
	}
	key := runKey{loc.Pack, loc.Offset / runSize}
	buf := make([]byte, runSize+runOverlap)
	n, err := s.packs.readSome(buf, loc.Pack, key.block*runSize)
	if err == nil && n > 0 {
		s.runs.put(key, buf[:n:n])
	}
}

// decodeAhead decodes what is in a run while who reads it is busy with what it has. One run at a time; Close waits for it.
func (s *Store) decodeAhead(x *run) {
	if s.runs.busy.Swap(true) {
		return
	}
	s.runs.ahead.Go(func() {
		defer s.runs.busy.Store(false)
		for i := range x.records {
			if s.closed.Load() {
				return
			}
			if loc := x.records[i].loc; s.inMemory(loc.Ref) == nil {
				s.decodeRecord(loc)
			}
		}
	})
}
