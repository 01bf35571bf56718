package store

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
)

// journal is the write-ahead log of one start: records go to memory in append, to the page cache in flush and to the
// disk in sync. There are three locks, taken in this order and never the other way round:
//
//	syncing    one fdatasync round at a time
//	  writing  one pwrite at a time: the leader's; who waits for it finds its own record written when it gets in
//	    mu     the buffers; held for the time of an encoding, never while the disk works
//
// append is called by one goroutine at a time (the queue's lock sees to it).
type journal struct {
	dir     string
	head    segmentHeader // first is set for each segment
	segSize int64

	mu        sync.Mutex
	prepared  sync.Cond // preparing became false
	preparing bool
	nextNum   int64
	segs      []*segment // all with records, oldest first; the last one is active
	ready     []*segment // spare ones: made ahead, or used up and to be used again
	tight     bool       // the disk is full: no spare segments are kept
	pos       int64      // of the last record appended
	batches   []batch    // what flush has to write, in order
	free      [][]byte   // buffers to use again

	writing sync.Mutex
	used    [][]byte // buffers that were written; writing
	spare   []batch  // writing
	written atomic.Int64

	syncing sync.Mutex
	durable atomic.Int64

	syncFile       func(*os.File) error // fdatasync
	at             func(point string)   // as in pipelineOptions
	flushes, syncs atomic.Int64
	brk            *breaker // a failure of the disk trips it: nothing is written after that
	preparers      sync.WaitGroup
	quit           chan struct{} // closed to end them
	ending         sync.Once
}

// batch is a run of bytes for one place of one segment.
type batch struct {
	seg  *segment
	off  int64
	data []byte
}

// maxIdleBuffer bounds the buffers kept for use again, in bytes each.
const maxIdleBuffer = 1 << 20

// newJournal starts journal id in dir with segments numbered from num. It makes no file yet.
func newJournal(dir string, id, num, segSize int64, brk *breaker) *journal {
	j := &journal{
		dir:     dir,
		head:    segmentHeader{journal: id, salt: newSalt(), place: here(dir)},
		segSize: segSize,
		nextNum: num,
		brk:     brk,

		syncFile: fdatasync,
		at:       func(string) {},
		quit:     make(chan struct{}),
	}
	j.prepared.L = &j.mu
	return j
}

// append encodes op with the attribution rows fresh as the next record and returns its position and its length in
// bytes. It fails with what kept it from reserving space; then nothing has changed.
func (j *journal) append(op *Op, fresh *attributionRows) (position, size int64, err error) {
	if err := j.brk.err(); err != nil {
		return 0, 0, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.batches) == 0 {
		var seg *segment
		var off int64
		if len(j.segs) > 0 {
			seg = j.segs[len(j.segs)-1]
			off = seg.off
		}
		j.batches = append(j.batches, batch{seg: seg, off: off, data: j.buffer()})
	}
	b := &j.batches[len(j.batches)-1]
	start := len(b.data)
	var room [recHeader]byte
	data := append(b.data, room[:]...)
	data = appendOp(data, op, fresh)
	if len(data)-start > maxRecord {
		b.data = data[:start]
		return 0, 0, fmt.Errorf("journal one change: it takes %d bytes, the most is %d: %w", len(data)-start, maxRecord, syscall.EFBIG)
	}
	data = sealRecord(data, start, j.head.salt, j.pos+1, j.durable.Load())
	b.data = data
	n := int64(len(data) - start)
	if b.seg == nil || b.seg.off+n > b.seg.size {
		b.data = data[:start]
		if err := j.advance(data[start:]); err != nil {
			return 0, 0, err
		}
		b = &j.batches[len(j.batches)-1]
	} else {
		b.seg.off += n
	}
	j.pos++
	b.seg.last = j.pos
	return j.pos, n, nil
}

// advance makes a new segment active and puts rec, which did not fit the last one, into it. j.mu is held, and given up
// while a segment is made that was not ready. On failure the last batch is as it was.
func (j *journal) advance(rec []byte) error {
	need := int64(segHeader + len(rec))
	// rec lies behind the end of the last batch, where a flush could hand the buffer on: copy it first.
	data := append(j.buffer(), make([]byte, segHeader)...)
	data = append(data, rec...)
	if len(j.batches[len(j.batches)-1].data) == 0 {
		j.free = append(j.free, j.batches[len(j.batches)-1].data)
		j.batches = j.batches[:len(j.batches)-1]
	}
	seg, err := j.nextSegment(need)
	if err != nil {
		j.free = append(j.free, data[:0])
		return err
	}
	j.at("journal segment")
	h := j.head
	h.first = j.pos + 1
	h.append(data[:0])
	seg.off = need
	j.segs = append(j.segs, seg)
	j.batches = append(j.batches, batch{seg: seg, data: data})
	j.prepareNext()
	return nil
}

// buffer returns an empty buffer. j.mu is held.
func (j *journal) buffer() []byte {
	if n := len(j.free); n > 0 {
		b := j.free[n-1]
		j.free = j.free[:n-1]
		return b[:0]
	}
	return make([]byte, 0, 64<<10)
}

// flush returns when the record at position is in the page cache, where it survives a kill of the process.
func (j *journal) flush(position int64) error {
	if err := j.brk.err(); err != nil {
		return err
	}
	if j.written.Load() >= position {
		return nil
	}
	j.writing.Lock()
	defer j.writing.Unlock()
	if err := j.brk.err(); err != nil {
		return err
	}
	if j.written.Load() >= position {
		return nil
	}
	j.mu.Lock()
	todo := j.batches
	last := j.pos
	j.batches = j.spare[:0]
	j.free = append(j.free, j.used...)
	j.mu.Unlock()
	j.used = j.used[:0]

	for i := range todo {
		b := &todo[i]
		if len(b.data) > 0 {
			b.seg.begin()
			// Behind the last record there may be what the segment held before: say that this is the end.
			b.data = append(b.data, make([]byte, min(recHeader, b.seg.size-b.off-int64(len(b.data))))...)
			j.at("journal write")
			if _, err := b.seg.f.WriteAt(b.data, b.off); err != nil {
				return j.brk.trip(fmt.Errorf("write %d bytes at %d of journal segment %s: %w", len(b.data), b.off, b.seg.path, err))
			}
			// After the write and before written moves: a sync round that sees the new position finds the mark.
			b.seg.dirty.Store(true)
			j.at("journal written")
		}
		if cap(b.data) <= maxIdleBuffer && len(j.used) < 2 {
			j.used = append(j.used, b.data[:0])
		}
		b.data = nil
	}
	j.spare = todo[:0]
	j.flushes.Add(1)
	j.written.Store(last)
	return nil
}

// sync returns when the record at position survives a power cut. before makes durable what the records name; it is
// called once per round, for all who wait for the round.
func (j *journal) sync(position int64, before func() error) error {
	if err := j.brk.err(); err != nil {
		return err
	}
	if j.durable.Load() >= position {
		return nil
	}
	if err := j.flush(position); err != nil {
		return err
	}
	j.syncing.Lock()
	defer j.syncing.Unlock()
	if err := j.brk.err(); err != nil {
		return err
	}
	if j.durable.Load() >= position {
		return nil
	}
	target := j.written.Load()
	if err := before(); err != nil {
		return j.brk.trip(err)
	}
	j.mu.Lock()
	segs := make([]*segment, 0, 2)
	for _, seg := range j.segs {
		if seg.dirty.Load() {
			segs = append(segs, seg)
		}
	}
	j.mu.Unlock()
	for _, seg := range segs {
		seg.dirty.Store(false)
		j.at("journal sync")
		if err := j.syncFile(seg.f); err != nil {
			return j.brk.trip(fmt.Errorf("fdatasync journal segment %s: %w", seg.path, err))
		}
		if !seg.linked.Load() {
			if err := syncDir(j.dir); err != nil {
				return j.brk.trip(fmt.Errorf("fsync journal directory %s: %w", j.dir, err))
			}
			seg.linked.Store(true)
		}
	}
	j.at("journal synced")
	j.syncs.Add(1)
	j.durable.Store(target)
	return nil
}

func journalDir(store string) string { return filepath.Join(store, "journal") }
