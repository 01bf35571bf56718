package store

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// segment is one file of the journal being written.
type segment struct {
	path  string
	f     *os.File
	size  int64
	off   int64       // where the next record goes; journal.mu
	last  int64       // position of the last record; journal.mu
	dirty atomic.Bool // written since the last fdatasync
	// linked: the directory entry is on disk.
	linked atomic.Bool

	claimed atomic.Bool // no more zeros may be written to it
	filling sync.Mutex  // held while some are
	begun   bool        // records were written, so no zeros will come; journal.writing
}

const segSuffix = ".wj"

func segName(num int64) string { return fmt.Sprintf("%08d%s", num, segSuffix) }

// createSegment makes segment num of size bytes with all its space reserved, marked as a spare one. What makes it part
// of the journal is the header, written with its first record: its name says nothing about its place.
func createSegment(dir string, num, size int64) (*segment, error) {
	path := filepath.Join(dir, segName(num))
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make journal segment: %w", err)
	}
	seg := &segment{path: path, f: f, size: size}
	if err = reserve(f, size); err == nil {
		err = seg.markSpare()
	}
	if err != nil {
		_ = seg.remove() // the first error counts
		return nil, fmt.Errorf("reserve %d bytes for journal segment %s: %w", size, path, err)
	}
	return seg, nil
}

// markSpare takes seg out of the journal.
func (seg *segment) markSpare() error {
	var b [segHeader]byte
	copy(b[:], spareMagic)
	_, err := seg.f.WriteAt(b[:], 0)
	return err
}

// claim ends fill after the step that it is in. It does not wait: begin does, before records are written.
func (seg *segment) claim() { seg.claimed.Store(true) }

// begin returns when fill has ended in a segment that was claimed. journal.writing is held.
func (seg *segment) begin() {
	if !seg.begun {
		seg.filling.Lock()
		seg.begun = true
		seg.filling.Unlock()
	}
}

// fill writes zeros over a spare segment until somebody claims it. Space that was only reserved makes every fdatasync
// of new records also a commit of the file system's own journal: 0.6-0.9 ms against 0.1 ms on ext4 for space that was
// written before.
func (seg *segment) fill() {
	zeros := make([]byte, 128<<10)
	step := func(off int64) bool {
		seg.filling.Lock()
		defer seg.filling.Unlock()
		if seg.claimed.Load() {
			return false
		}
		_, err := seg.f.WriteAt(zeros[:min(int64(len(zeros)), seg.size-off)], off)
		return err == nil // else whoever writes records here finds out
	}
	for off := int64(segHeader); off < seg.size; off += int64(len(zeros)) {
		if !step(off) {
			return
		}
	}
}

// remove deletes seg.
func (seg *segment) remove() error {
	seg.claim()
	_ = seg.f.Close()
	if err := os.Remove(seg.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("delete journal segment: %w", err)
	}
	return nil
}

// reserve gives f size bytes of disk space that read as zeros.
func reserve(f *os.File, size int64) error {
	for {
		err := syscall.Fallocate(int(f.Fd()), 0, 0, size)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EOPNOTSUPP), errors.Is(err, syscall.ENOSYS):
			return writeZeros(f, size)
		default:
			return err
		}
	}
}

func writeZeros(f *os.File, size int64) error {
	zeros := make([]byte, 256<<10)
	for off := int64(0); off < size; off += int64(len(zeros)) {
		if _, err := f.WriteAt(zeros[:min(int64(len(zeros)), size-off)], off); err != nil {
			return err
		}
	}
	return nil
}

// fdatasync flushes f's data and what is needed to find it.
func fdatasync(f *os.File) error {
	for {
		err := syscall.Fdatasync(int(f.Fd()))
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		return err
	}
}

// syncDir makes the entries of dir durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// here is the place that dir is in now; its fields are zero where the kernel does not tell.
func here(dir string) place {
	var p place
	if text, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		hex := 0
		for _, c := range text {
			var v byte
			switch {
			case c >= '0' && c <= '9':
				v = c - '0'
			case c >= 'a' && c <= 'f':
				v = c - 'a' + 10
			default:
				continue
			}
			if hex < 2*len(p.boot) {
				p.boot[hex/2] = p.boot[hex/2]<<4 | v
			}
			hex++
		}
	}
	// STATX_MNT_ID_UNIQUE (Linux 6.8): unlike the older mount ids these are never used again.
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, dir, 0, unix.STATX_MNT_ID_UNIQUE, &st); err == nil && st.Mask&unix.STATX_MNT_ID_UNIQUE != 0 {
		p.mount = st.Mnt_id
	}
	return p
}

// known reports whether p says enough to compare places.
func (p place) known() bool { return p.mount != 0 && p.boot != [16]byte{} }

func newSalt() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:])
}
