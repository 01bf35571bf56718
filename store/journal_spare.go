package store

import (
	"errors"
	"slices"
	"time"
)

// Where a journal's segments come from and where they go.

// maxReady is how many spare segments are kept. The one after the active one must be there before it is needed; a second
// one lets those that the database has made unneeded go round.
const maxReady = 2

// fillDelay is how long a new segment stays as it is before zeros are written to it: short runs never need it.
const fillDelay = 50 * time.Millisecond

// prepareAhead makes the first segment in the background.
func (j *journal) prepareAhead() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.prepareNext()
}

// prepareNext has a segment made in the background unless there is one. j.mu is held.
func (j *journal) prepareNext() {
	if len(j.ready) == 0 && !j.preparing && !j.tight {
		j.preparing = true
		j.preparers.Go(j.prepare)
	}
}

// prepare makes a segment ahead. What it fails with is met again, and reported, by the append that needs one.
func (j *journal) prepare() {
	j.mu.Lock()
	num := j.nextNum
	j.nextNum++
	j.mu.Unlock()
	seg, err := createSegment(j.dir, num, j.segSize)
	j.mu.Lock()
	if err == nil {
		j.ready = append(j.ready, seg)
	}
	j.preparing = false
	j.prepared.Broadcast()
	j.mu.Unlock()
	if err != nil {
		return
	}
	if syncDir(j.dir) == nil {
		seg.linked.Store(true)
	}
	timer := time.NewTimer(fillDelay)
	defer timer.Stop()
	select {
	case <-timer.C:
		seg.fill()
	case <-j.quit:
	}
}

// nextSegment returns a segment with room for need bytes. Nobody else appends meanwhile, so j.mu may be given up.
func (j *journal) nextSegment(need int64) (*segment, error) {
	if need <= j.segSize {
		for len(j.ready) == 0 && j.preparing {
			j.prepared.Wait()
		}
		if len(j.ready) > 0 {
			seg := j.ready[len(j.ready)-1] // those used before come last: their pages are in the cache
			j.ready = j.ready[:len(j.ready)-1]
			seg.claim()
			return seg, nil
		}
	}
	num := j.nextNum
	j.nextNum++
	j.mu.Unlock()
	seg, err := createSegment(j.dir, num, max(need, j.segSize))
	j.mu.Lock()
	if err != nil && !isFull(err) {
		err = j.brk.trip(err)
	}
	return seg, err
}

// covered reports whether there is a segment that drop(position) would delete.
func (j *journal) covered(position int64) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.segs) > 1 && j.segs[0].last <= position
}

// segments is the number of files with records.
func (j *journal) segments() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.segs)
}

// drop takes the segments whose records are all at or below position, but never the active one, out of the journal.
func (j *journal) drop(position int64) error {
	j.syncing.Lock() // no round may hold a file that is closed here
	defer j.syncing.Unlock()
	for j.covered(position) {
		j.at("journal drop")
		j.mu.Lock()
		seg := j.segs[0]
		j.segs = j.segs[1:]
		again := len(j.ready) < maxReady && seg.size == j.segSize && !j.tight
		j.mu.Unlock()
		if again && seg.markSpare() == nil {
			j.mu.Lock()
			j.ready = append(j.ready, seg)
			j.mu.Unlock()
			continue
		}
		if err := seg.remove(); err != nil {
			return err
		}
	}
	return nil
}

// giveBack deletes the spare segments, so that others can use their space, and keeps no new ones until relax. It reports
// whether there was one.
func (j *journal) giveBack() bool {
	j.mu.Lock()
	j.tight = true
	for j.preparing {
		j.prepared.Wait()
	}
	ready := j.ready
	j.ready = nil
	j.mu.Unlock()
	freed := false
	for _, seg := range ready {
		freed = seg.remove() == nil || freed
	}
	return freed
}

// trim deletes the spare segments but one. What cannot be deleted is cleared away at the next start.
func (j *journal) trim() {
	j.mu.Lock()
	n := max(0, len(j.ready)-1)
	more := slices.Clone(j.ready[:n])
	j.ready = slices.Delete(j.ready, 0, n)
	j.mu.Unlock()
	for _, seg := range more {
		_ = seg.remove()
	}
}

// relax ends what giveBack has begun, if there is room for a spare segment.
func (j *journal) relax() bool {
	j.mu.Lock()
	num := j.nextNum
	j.nextNum++
	j.mu.Unlock()
	seg, err := createSegment(j.dir, num, j.segSize)
	if err != nil {
		return false
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ready = append(j.ready, seg)
	j.tight = false
	return true
}

// renew has the next record go to a new file, and the files of before deleted, not used again, once the database has
// what is in them. Appends are kept out meanwhile. relax ends that.
func (j *journal) renew() {
	j.giveBack()
	j.mu.Lock()
	defer j.mu.Unlock()
	if n := len(j.segs); n > 0 {
		j.segs[n-1].off = j.segs[n-1].size
	}
}

// endPreparers ends what goes on in the background.
func (j *journal) endPreparers() {
	j.ending.Do(func() { close(j.quit) })
	j.preparers.Wait()
}

// close ends the journal; nobody may use it any more. remove deletes its files: all of it must be in the database.
func (j *journal) close(remove bool) error {
	j.endPreparers()
	j.giveBack()
	var errs []error
	for _, seg := range j.segs {
		if remove {
			errs = append(errs, seg.remove())
		} else {
			_ = seg.f.Close() // nothing is left to flush that anybody was promised
		}
	}
	return errors.Join(errs...)
}
