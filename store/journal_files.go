package store

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// cutSuffix is appended to the name of a segment whose end was cut off by a replay although it was readable.
const cutSuffix = ".cut"

// segmentFile is a segment that an earlier start left.
type segmentFile struct {
	num  int64
	path string
	head *segmentHeader // nil: it cannot be read, or reads as zeros where what follows does not
	torn error          // why it cannot be read

	mended bool // a byte of the header was wrong
}

// listSegments returns the segments in dir, by journal and first position, and the highest number in use, cut ones
// included. Those without a header follow all others. Spare ones come in unused.
func listSegments(dir string) (used, unused []segmentFile, top int64, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, 0, fmt.Errorf("list the journal: %w", err)
	}
	for _, e := range entries {
		base := strings.TrimSuffix(e.Name(), cutSuffix)
		digits, ok := strings.CutSuffix(base, segSuffix)
		num, err := strconv.ParseInt(digits, 10, 64)
		if !ok || err != nil || num < 0 || segName(num) != base {
			continue // not ours
		}
		top = max(top, num)
		if base != e.Name() {
			continue
		}
		sf := segmentFile{num: num, path: filepath.Join(dir, base)}
		empty, err := sf.readHeader()
		if errors.Is(err, os.ErrNotExist) {
			continue // a writer has just deleted it
		}
		if err != nil {
			return nil, nil, 0, err
		}
		if empty {
			unused = append(unused, sf)
		} else {
			used = append(used, sf)
		}
	}
	slices.SortStableFunc(used, func(a, b segmentFile) int {
		switch {
		case a.head == nil || b.head == nil:
			return cmp.Compare(btoi(a.head == nil), btoi(b.head == nil))
		case a.head.journal != b.head.journal:
			return cmp.Compare(a.head.journal, b.head.journal)
		}
		return cmp.Compare(a.head.first, b.head.first)
	})
	return used, unused, top, nil
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// readHeader reads sf.head. empty means that there is nothing in the file.
func (sf *segmentFile) readHeader() (empty bool, err error) {
	f, err := os.Open(sf.path)
	if err != nil {
		return false, fmt.Errorf("open journal segment: %w", err)
	}
	defer f.Close()
	b := make([]byte, segHeader)
	n, err := io.ReadFull(f, b)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return false, fmt.Errorf("read journal segment %s: %w", sf.path, err)
	}
	if bytes.HasPrefix(b[:n], []byte(spareMagic)) {
		return true, nil
	}
	if zero(b[:n]) {
		empty, err := zeroFile(f)
		if err != nil {
			return false, fmt.Errorf("read journal segment %s: %w", sf.path, err)
		}
		return empty, nil
	}
	sf.head, err = parseHeader(b[:n])
	switch {
	case errors.Is(err, errSegVersion):
		return false, fmt.Errorf("journal segment %s is damaged at offset 0: %w: %w; what it holds cannot be told; %s",
			sf.path, err, ErrCorrupt, adviceMove)
	case err != nil:
		if sf.head = mendHeader(b[:n]); sf.head == nil {
			sf.torn = err
		}
		sf.mended = sf.head != nil
	}
	return false, nil
}

// adviceMove says how to go on without the rest of a journal.
const adviceMove = "restore the file, or, to open the store without the changes in it, move it and the segments after it out of the journal directory"

func zero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// zeroFile reports whether f has no byte but zeros.
func zeroFile(f *os.File) (bool, error) {
	const seekData = 3
	off, err := f.Seek(0, seekData) // space that was only reserved counts as a hole
	if errors.Is(err, syscall.ENXIO) {
		return true, nil
	}
	if err != nil {
		off = 0
	}
	b := make([]byte, 256<<10)
	for {
		n, err := f.ReadAt(b, off)
		if !zero(b[:n]) {
			return false, nil
		}
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		off += int64(n)
	}
}

// NeedsReplay reports whether the store in dir has a journal that a process which died may have left changes in that the
// database does not have. Opening the store for writing brings them in. While a writer runs it says true.
func NeedsReplay(dir string) (bool, error) {
	used, _, _, err := listSegments(journalDir(dir))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return len(used) > 0, err
}
