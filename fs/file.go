package fs

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"wsfs/blob"
	"wsfs/store"
)

const (
	// memMax is the largest content that is edited in memory; larger dirty files go to a scratch file.
	memMax = 1 << 20
	// maxSize is the largest file: that of ext4 with 4 KiB blocks, which holds the scratch files.
	maxSize = 16<<40 - 4096
)

// file is the content of a regular file while it is open for writing or has bytes that no version has: what was
// written (in memory or in a scratch file) over the content that the last version has.
type file struct {
	mu    sync.Mutex
	base  blob.Content // below: counts only up to limit; beyond it there are zeros
	limit int64
	size  int64
	valid extents // what mem or spill has instead of base
	// validBytes is how many bytes that is; it need not be counted at each write.
	validBytes int64
	inMem      bool // mem is the whole content
	mem        []byte
	punched    bool     // zeros were put over data
	spill      *os.File // scratch file; bytes at their offsets
	id         store.Ino
	scratch    string   // its name, if it has one: a process after this one may need it
	unneeded   []string // names of scratch files that the ledger may still need
	naming     *Receipt // of the request that is done when the next version is there
	// ahead cuts what was written in order while the rest is still coming; nil before there is a window of it. Up to
	// aheadEnd windows may have been handed to it.
	ahead    *blob.Ahead
	aheadEnd int64

	// Written with mu and FS.mu held, so either guards reading.
	committed      blob.Content // content of the last version
	committedHoles int64
	changed        bool // bytes or size differ from committed, as far as known
	written        bool // changed by more than a truncation

	// Guarded by FS.mu.
	writers int               // open handles that may write
	who     store.Attribution // whose bytes are dirty
	by      *Handle           // the handle that dirtied it last

	restored bool // what is dirty comes from an earlier process, and nobody has gone on with it
}

// lock takes the content lock; if that takes longer, the transport's reader goes on without this call.
func (fl *file) lock(c *Call) {
	if !fl.mu.TryLock() {
		c.yield()
		fl.mu.Lock()
	}
}

// content makes sure that n has a file. FS.mu is held.
func (n *node) content() *file {
	if n.file == nil {
		base := blob.Content{Ref: n.v.Content, Size: n.v.Size}
		n.file = &file{
			id: n.id, base: base, limit: base.Size, size: base.Size,
			committed: base, committedHoles: n.v.Holes,
		}
	}
	return n.file
}

// readAt fills p from off and returns io.EOF at the end of the file. mu is held.
func (fl *file) readAt(f *FS, c *Call, p []byte, off int64) (int, error) {
	if off >= fl.size {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), fl.size-off)]
	if fl.inMem {
		return copy(p, fl.mem[off:]), nil
	}
	for done := 0; done < len(p); {
		at := off + int64(done)
		piece := p[done:]
		e, ok := fl.valid.next(at)
		var err error
		switch {
		case ok && e.Off == at:
			piece = piece[:min(int64(len(piece)), e.Len)]
			err = readFull(fl.spill, piece, at)
		default:
			if ok {
				piece = piece[:min(int64(len(piece)), e.Off-at)]
			}
			err = fl.readBase(f, c, piece, at)
		}
		if err != nil {
			return done, fmt.Errorf("read at %d: %w", at, err)
		}
		done += len(piece)
	}
	return len(p), nil
}

// readFull reads from a scratch file, which may be shorter than what was made valid with zeros.
func readFull(r io.ReaderAt, p []byte, off int64) error {
	n, err := r.ReadAt(p, off)
	if err == io.EOF {
		clear(p[n:])
		return nil
	}
	return err
}

// readBase reads what lies below the changes: the last version up to limit, zeros beyond.
func (fl *file) readBase(f *FS, c *Call, p []byte, off int64) error {
	if off >= fl.limit {
		clear(p)
		return nil
	}
	n := min(int64(len(p)), fl.limit-off)
	clear(p[n:])
	return f.readContent(c, fl.base, p[:n], off)
}

// readContent fills p from stored content, saying first that it may wait if the bytes are not in memory.
func (f *FS) readContent(c *Call, from blob.Content, p []byte, off int64) error {
	if !f.blobs.Cached(from, off, len(p)) {
		c.yield()
	}
	n, err := f.blobs.ReadAt(context.Background(), from, p, off)
	if err == io.EOF && n == len(p) {
		err = nil
	}
	if err != nil {
		f.log.Error("read content", "ref", from.Ref.String(), "size", from.Size, "offset", off, "error", err)
	}
	return err
}

// write puts p at off, extending the file. mu is held.
func (fl *file) write(f *FS, c *Call, p []byte, off int64) error {
	to := off + int64(len(p))
	if to > maxSize {
		return fmt.Errorf("write up to byte %d (the largest file is %d): %w", to, int64(maxSize), syscall.EFBIG)
	}
	if err := fl.prepare(f, c, max(to, fl.size), off == 0 && to >= fl.size); err != nil {
		return err
	}
	if fl.inMem {
		fl.grow(to)
		copy(fl.mem[off:], p)
	} else {
		err := f.st.Room(int64(len(p)), c.yield)
		if err == nil {
			_, err = fl.spill.WriteAt(p, off)
		}
		if err != nil {
			return fmt.Errorf("write to a scratch file: %w", err)
		}
	}
	fl.validBytes += fl.valid.add(off, int64(len(p)))
	fl.size = max(fl.size, to)
	fl.goAhead(f, off, to)
	return nil
}

// goAhead follows a write. A window that it completes is cut while the next ones are written. mu is held.
func (fl *file) goAhead(f *FS, off, to int64) {
	if off < fl.aheadEnd {
		fl.ahead.Changed(off, to-off)
	}
	start := to&^(blob.WindowSize-1) - blob.WindowSize
	if fl.spill == nil || start < 0 || start+blob.WindowSize <= off {
		return
	}
	if e, ok := fl.valid.next(start); !ok || e.Off > start || end(e) < start+blob.WindowSize {
		return
	}
	if fl.ahead == nil {
		fl.ahead = f.blobs.NewAhead(zeroTail{fl.spill})
	}
	fl.ahead.Window(start)
	fl.aheadEnd = max(fl.aheadEnd, start+blob.WindowSize)
}

// prepare brings the content where it can be changed at the given size. whole: everything is about to be overwritten.
func (fl *file) prepare(f *FS, c *Call, size int64, whole bool) error {
	if fl.spill != nil || fl.inMem && size <= memMax {
		return nil
	}
	if size <= memMax {
		mem := make([]byte, fl.size, max(size, 4096))
		if !whole {
			if err := fl.readBase(f, c, mem, 0); err != nil {
				return err
			}
		}
		fl.mem, fl.inMem = mem, true
		return nil
	}
	name, err := fl.openSpill(f)
	if err != nil {
		return err
	}
	if fl.inMem {
		for _, e := range fl.valid {
			if _, err := fl.spill.WriteAt(fl.mem[e.Off:end(e)], e.Off); err != nil {
				fl.spill.Close()
				fl.spill = nil
				return fmt.Errorf("write to a scratch file: %w", err)
			}
		}
		fl.mem, fl.inMem = nil, false
	}
	if fl.scratch = name; name != "" {
		f.ledger.spilled(fl.id, name)
	}
	return nil
}

// openSpill makes the scratch file. It has a name only if somebody could ask for it by that.
func (fl *file) openSpill(f *FS) (name string, err error) {
	path, flags := f.scratch, unix.O_TMPFILE
	if f.ledger != nil {
		name = f.scratchName()
		path, flags = filepath.Join(f.scratch, name), unix.O_CREAT|unix.O_EXCL
	}
	fd, err := unix.Open(path, flags|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return "", fmt.Errorf("make a scratch file in %s: %w", f.scratch, err)
	}
	if fd >= scratchLimit() {
		_ = unix.Close(fd)
		if name != "" {
			_ = unix.Unlink(path)
		}
		return "", fmt.Errorf("make a scratch file in %s: %d files are open: %w", f.scratch, fd, syscall.EMFILE)
	}
	fl.spill = os.NewFile(uintptr(fd), "scratch")
	return name, nil
}

// scratchLimit is the first descriptor that is none for scratch files: with the rest a file can still be cut and stored, which
// gives its scratch file's back.
func scratchLimit() int {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil || r.Cur > math.MaxInt32 {
		return math.MaxInt
	}
	n := int(r.Cur)
	return n - max(16, min(n/4, 256))
}

// grow makes mem at least size long, with zeros.
func (fl *file) grow(size int64) {
	n := int64(len(fl.mem))
	if size <= n {
		return
	}
	if size > int64(cap(fl.mem)) {
		mem := make([]byte, n, max(size, 2*n))
		copy(mem, fl.mem)
		fl.mem = mem
	}
	fl.mem = fl.mem[:size]
	clear(fl.mem[n:])
}

// truncate sets the size; what is cut off is gone, what is added reads as zeros. mu is held.
func (fl *file) truncate(f *FS, c *Call, size int64) error {
	if size < 0 {
		return fmt.Errorf("truncate to %d: %w", size, syscall.EINVAL)
	}
	if size > maxSize {
		return fmt.Errorf("truncate to %d (the largest file is %d): %w", size, int64(maxSize), syscall.EFBIG)
	}
	if size == 0 {
		fl.drop()
		fl.inMem, fl.size, fl.limit, fl.valid, fl.validBytes = true, 0, 0, nil, 0
		return nil
	}
	if size < fl.size {
		if fl.inMem {
			fl.mem = fl.mem[:size]
		} else if fl.spill != nil {
			// Bytes beyond the end must not come back when the file grows again.
			if err := fl.spill.Truncate(size); err != nil {
				return fmt.Errorf("truncate a scratch file: %w", err)
			}
		}
		if size < fl.aheadEnd {
			fl.ahead.Changed(size, fl.aheadEnd-size)
		}
		fl.valid.cut(size)
		fl.validBytes = fl.valid.total()
		fl.limit = min(fl.limit, size)
	} else if fl.inMem {
		if err := fl.prepare(f, c, size, false); err != nil {
			return err
		}
		if fl.inMem {
			fl.grow(size)
		}
	}
	fl.size = size
	return nil
}

// zero makes [off, off+n) read as zeros, within the size. mu is held.
func (fl *file) zero(f *FS, c *Call, off, n int64) error {
	n = min(n, fl.size-off)
	if n <= 0 {
		return nil
	}
	if err := fl.prepare(f, c, fl.size, false); err != nil {
		return err
	}
	if fl.inMem {
		clear(fl.mem[off : off+n])
	} else if err := unix.Fallocate(int(fl.spill.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, off, n); err != nil {
		return fmt.Errorf("punch a scratch file: %w", err)
	}
	fl.validBytes += fl.valid.add(off, n)
	fl.punched = true
	if off < fl.aheadEnd {
		fl.ahead.Changed(off, n)
	}
	return nil
}

// drop frees the buffers. mu is held.
func (fl *file) drop() {
	if fl.ahead != nil {
		fl.ahead.Stop()
		fl.ahead, fl.aheadEnd = nil, 0
	}
	if fl.spill != nil {
		fl.spill.Close()
	}
	if fl.scratch != "" {
		fl.unneeded, fl.scratch = append(fl.unneeded, fl.scratch), ""
	}
	fl.spill, fl.mem, fl.inMem = nil, nil, false
}

// holes estimates the unallocated bytes while the file is dirty. mu is held.
func (fl *file) holes() int64 {
	if fl.inMem {
		return 0
	}
	data := fl.validBytes
	if fl.punched && fl.spill != nil {
		var st unix.Stat_t
		if unix.Fstat(int(fl.spill.Fd()), &st) == nil {
			data = min(data, st.Blocks*512)
		}
	}
	data += max(0, min(fl.limit, fl.committed.Size-fl.committedHoles))
	return max(0, fl.size-data)
}
