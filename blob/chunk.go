package blob

import (
	"bytes"
	"math"
)

// The shape of large content. Every figure here is part of the format: the same bytes have the same Ref only as long as
// none of them changes, and the golden tests fail if one does.
//
// Content is cut, in this order:
//
//   - into windows of 4 MiB at fixed offsets. A window is one node of level 1 in the tree and is cut without regard to
//     its neighbours, so an edit never re-chunks beyond the windows it touches, and windows can be made in parallel;
//   - into blocks of 64 KiB at fixed offsets. Blocks of nothing but zeros are holes (adjacent ones make one hole leaf),
//     what lies between holes or window borders is a run of data. That a block is zero depends on no other block;
//   - each run of data into chunks by FastCDC (Xia et al., 2016, normalised, level 2): a boundary is where a rolling
//     hash of the last 64 bytes begins with enough zero bits, 18 before normalChunk and 14 after. Where none is found, the next
//     multiple of 128 KiB that leaves the chunk 128 KiB or more ends it. Being an absolute offset, it is the same
//     whatever the chunk's start was, so constant data falls into step again right after an edit.
const (
	blockSize   = 64 << 10
	windowBits  = 22
	windowSize  = 1 << windowBits
	fanoutBits  = 7 // children of an inner node above level 1: 128 windows of the level below
	minChunk    = 16 << 10
	normalChunk = 64 << 10
	forcedChunk = 128 << 10
	maxChunk    = 2*forcedChunk - 1
	belowEarly  = 1 << (64 - 18) // a hash with 18 leading zero bits
	belowLate   = 1 << (64 - 14)
	maxLevel    = 7 // 2^22 * 128^6 = 2^64 bytes
)

// windowAt returns the bytes one node of the level covers.
func windowAt(level int) int64 {
	bits := windowBits + fanoutBits*(level-1)
	if bits >= 63 {
		return math.MaxInt64
	}
	return 1 << bits
}

// levelFor returns the level of the root of content of size bytes: the lowest whose window holds it.
func levelFor(size int64) int {
	level := 1
	for windowAt(level) < size {
		level++
	}
	return level
}

// gear maps each byte to 64 random-looking bits. It is made by splitmix64 from a fixed seed. Never written after that.
var gear = makeGear(0x7773_6673_2d76_3031) // "wsfs-v01"

func makeGear(seed uint64) (t [256]uint64) {
	for i := range t {
		seed += 0x9e3779b97f4a7c15
		z := seed
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		t[i] = z ^ z>>31
	}
	return t
}

// chunkLimit returns the longest a chunk that starts at the absolute offset start may get.
func chunkLimit(start int64) int {
	end := (start + 2*forcedChunk - 1) / forcedChunk * forcedChunk
	return int(end - start)
}

// cut finds the end of the chunk at the start of b. b begins at the absolute offset start and is cut off at the end of
// the run of data or earlier. found is false if the chunk needs more bytes than b has, or ends with the run.
//
// The race detector would make these loops, where most of the time of tests goes, twenty times slower; it only reads b.
//
//go:norace
func cut(b []byte, start int64) (n int, found bool) {
	limit := chunkLimit(start)
	if len(b) >= limit {
		n, found = limit, true
	} else {
		n = len(b)
	}
	if n <= minChunk {
		return n, found
	}
	early := b[minChunk:min(normalChunk, n)]
	at, h := scan(early, 0, belowEarly)
	if at > 0 {
		return minChunk + at, true
	}
	if n <= normalChunk {
		return n, found
	}
	if at, _ = scan(b[normalChunk:n], h, belowLate); at > 0 {
		return normalChunk + at, true
	}
	return n, found
}

// scan rolls the hash h over b until it is less than below, which is to say that its highest bits are zero, and returns
// how many bytes that took, or 0 if b ended first. Eight steps a turn take a fifth less time than a plain loop.
//
//go:norace
func scan(b []byte, h, below uint64) (int, uint64) {
	i := 0
	for ; i+8 <= len(b); i += 8 {
		p := (*[8]byte)(b[i:])
		if h = h<<1 + gear[p[0]]; h < below {
			return i + 1, h
		}
		if h = h<<1 + gear[p[1]]; h < below {
			return i + 2, h
		}
		if h = h<<1 + gear[p[2]]; h < below {
			return i + 3, h
		}
		if h = h<<1 + gear[p[3]]; h < below {
			return i + 4, h
		}
		if h = h<<1 + gear[p[4]]; h < below {
			return i + 5, h
		}
		if h = h<<1 + gear[p[5]]; h < below {
			return i + 6, h
		}
		if h = h<<1 + gear[p[6]]; h < below {
			return i + 7, h
		}
		if h = h<<1 + gear[p[7]]; h < below {
			return i + 8, h
		}
	}
	for ; i < len(b); i++ {
		if h = h<<1 + gear[b[i]]; h < below {
			return i + 1, h
		}
	}
	return 0, h
}

// zeroBlock is what blocks are compared with; it stays zero.
var zeroBlock [blockSize]byte

// isZero reports whether b holds nothing but zeros.
func isZero(b []byte) bool {
	for len(b) > blockSize {
		if !bytes.Equal(b[:blockSize], zeroBlock[:]) {
			return false
		}
		b = b[blockSize:]
	}
	return bytes.Equal(b, zeroBlock[:len(b)])
}

func floorBlock(off int64) int64 { return off &^ (blockSize - 1) }

// ceilBlock returns the end of the block that off-1 lies in, at most math.MaxInt64.
func ceilBlock(off int64) int64 {
	if off > math.MaxInt64-blockSize {
		return math.MaxInt64
	}
	return (off + blockSize - 1) &^ (blockSize - 1)
}
