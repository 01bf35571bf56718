package blob

import "sync"

// flushAt is how many bytes of records are gathered for one write: few calls, and still in the processor's cache.
const flushAt = 1 << 20

// recordWriter encodes blobs and appends them to packs, many at a time. One goroutine uses it.
type recordWriter struct {
	s         *Store
	encoding  Encoding
	inlineMax int // most stored bytes that are kept in the Location; 0: none
	buf       []byte
	first     int        // locs from here on are in buf, with offsets into it
	locs      []Location // what was added
	written   int64
	stream    bool                // much more follows, and then a Sync
	room      func(n int64) error // may refuse what was not acknowledged yet; nil: never
}

func (s *Store) newRecordWriter(e Encoding, inlineMax int) *recordWriter {
	return &recordWriter{s: s, encoding: e, inlineMax: inlineMax}
}

// add encodes a blob. It is stored after flush. data may be changed once add returned.
func (w *recordWriter) add(ref Ref, data []byte) error {
	loc := Location{Ref: ref, Size: int64(len(data))}
	if len(data) <= w.inlineMax { // compressing so little would gain nothing
		loc.Data = append([]byte(nil), data...)
		loc.Length = loc.Size
		w.locs = append(w.locs, loc)
		return nil
	}
	if w.buf == nil {
		w.buf = w.s.bufs.getOut()
	}
	at := len(w.buf)
	w.buf = appendRecordHeader(w.buf)
	w.buf, loc.Encoding = w.s.codec.appendEncoded(w.buf, data, w.encoding)
	stored := w.buf[at+recordHeader:]
	loc.Length = int64(len(stored))
	if len(stored) <= w.inlineMax {
		loc.Data = append([]byte(nil), stored...)
		w.buf = w.buf[:at]
		w.locs = append(w.locs, loc)
		return nil
	}
	finishRecord(w.buf, at, ref, loc.Encoding, len(data))
	loc.Offset = int64(at + recordHeader)
	w.locs = append(w.locs, loc)
	if len(w.buf) >= flushAt {
		return w.flush()
	}
	return nil
}

// flush appends what was added to a pack. After an error the writer is of no use any more.
func (w *recordWriter) flush() error {
	if len(w.buf) > 0 {
		if w.room != nil {
			if err := w.room(int64(len(w.buf))); err != nil {
				return err
			}
		}
		pack, off, err := w.s.packs.append(w.buf)
		if err != nil {
			return err
		}
		for i := w.first; i < len(w.locs); i++ {
			if w.locs[i].Data == nil { // not inline
				w.locs[i].Pack = pack
				w.locs[i].Offset += off
			}
		}
		if w.stream {
			w.s.packs.startWriting(pack, off, int64(len(w.buf)))
		}
		w.written += int64(len(w.buf))
		w.buf = w.buf[:0]
	}
	w.first = len(w.locs)
	return nil
}

func (w *recordWriter) release() {
	if w.buf != nil {
		w.s.bufs.putOut(w.buf)
		w.buf = nil
	}
}

// buffers keeps the large buffers of edits for the next ones. A sync.Pool would drop them at every collection, and
// clearing a new one costs more than most edits.
type buffers struct {
	mu     sync.Mutex
	keep   int
	window [][]byte // guarded by mu
	out    [][]byte // guarded by mu
}

func newBuffers(keep int) *buffers { return &buffers{keep: keep} }

// getWindow returns a buffer of windowSize bytes with anything in it.
func (b *buffers) getWindow() []byte {
	if buf := b.take(&b.window); buf != nil {
		return buf
	}
	return make([]byte, windowSize)
}

func (b *buffers) putWindow(buf []byte) { b.give(&b.window, buf) }

// getOut returns an empty buffer with room for flushAt bytes and one more record.
func (b *buffers) getOut() []byte {
	if buf := b.take(&b.out); buf != nil {
		return buf[:0]
	}
	return make([]byte, 0, flushAt+2*maxChunk)
}

func (b *buffers) putOut(buf []byte) { b.give(&b.out, buf) }

func (b *buffers) take(list *[][]byte) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := len(*list)
	if n == 0 {
		return nil
	}
	buf := (*list)[n-1]
	*list = (*list)[:n-1]
	return buf
}

func (b *buffers) give(list *[][]byte, buf []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(*list) < b.keep {
		*list = append(*list, buf)
	}
}
