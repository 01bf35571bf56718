package fs

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"wsfs/blob"
)

// countHoles is how many bytes of a content just staged are holes, for st_blocks. Only contents that were edited with
// gaps are looked at: the others have none. fl.mu is held.
func (fl *file) countHoles(f *FS, c blob.Content) (int64, error) {
	if c.Size <= blob.MaxBlob || fl.inMem || !fl.punched && fl.committedHoles == 0 && fl.validBytes >= fl.size-fl.limit {
		return 0, nil
	}
	var holes int64
	err := f.blobs.Segments(context.Background(), c, 0, func(s blob.Segment) bool {
		if s.Hole {
			holes += s.Len
		}
		return true
	})
	if err != nil {
		return 0, fmt.Errorf("find holes: %w", err)
	}
	return holes, nil
}

// dataOf is where data lies in a content up to limit with the changes of valid on top.
func (f *FS) dataOf(c blob.Content, limit int64, valid extents) (extents, error) {
	var data extents
	err := f.blobs.Segments(context.Background(), c, 0, func(s blob.Segment) bool {
		if !s.Hole {
			data.add(s.Off, min(s.Len, limit-s.Off))
		}
		return s.Off+s.Len < limit
	})
	if err != nil {
		return nil, fmt.Errorf("find holes: %w", err)
	}
	for _, e := range valid {
		data.add(e.Off, e.Len)
	}
	return data, nil
}

// unpunched is valid without what was punched, as far as the file system of the scratch file can tell. mu is held.
func (fl *file) unpunched() extents {
	if !fl.punched || fl.spill == nil {
		return slices.Clone(fl.valid)
	}
	var data extents
	for _, e := range fl.valid {
		for off := e.Off; off < end(e); {
			from, err := unix.Seek(int(fl.spill.Fd()), off, unix.SEEK_DATA)
			if errors.Is(err, unix.ENXIO) {
				return data
			}
			to, herr := unix.Seek(int(fl.spill.Fd()), max(from, off), unix.SEEK_HOLE)
			if err != nil || herr != nil || to <= from {
				return slices.Clone(fl.valid)
			}
			from = min(from, end(e))
			data.add(from, min(to, end(e))-from)
			off = to
		}
	}
	return data
}

// zeroRun is how many bytes from off on are a hole of a file, 0 if that is not known.
func zeroRun(f *os.File, off int64) int64 {
	switch at, err := unix.Seek(int(f.Fd()), off, unix.SEEK_DATA); {
	case err == nil:
		return at - off
	case errors.Is(err, unix.ENXIO): // up to the end, and beyond
		return math.MaxInt64
	}
	return 0
}

// sparseFile is a file with holes, for blob.Edit.
type sparseFile struct{ *os.File }

func (s sparseFile) ZeroRun(off int64) int64 { return zeroRun(s.File, off) }
