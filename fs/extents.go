package fs

import (
	"slices"
	"sort"

	"wsfs/blob"
)

// extents is a set of byte ranges, sorted, disjoint and never touching.
type extents []blob.Extent

func end(e blob.Extent) int64 { return e.Off + e.Len }

// add puts [off, off+n) into the set and returns how many bytes of it were not there.
func (x *extents) add(off, n int64) int64 {
	if n <= 0 {
		return 0
	}
	s := *x
	// Appending at the end is the common case: a file written from front to back.
	if len(s) > 0 && off >= s[len(s)-1].Off {
		if last := &s[len(s)-1]; off <= end(*last) {
			grown := max(0, off+n-end(*last))
			last.Len += grown
			return grown
		}
		*x = append(s, blob.Extent{Off: off, Len: n})
		return n
	}
	lo := sort.Search(len(s), func(i int) bool { return end(s[i]) >= off })
	hi := lo
	from, to, had := off, off+n, int64(0)
	for hi < len(s) && s[hi].Off <= to {
		had += s[hi].Len
		from, to = min(from, s[hi].Off), max(to, end(s[hi]))
		hi++
	}
	*x = slices.Replace(s, lo, hi, blob.Extent{Off: from, Len: to - from})
	return to - from - had
}

// cut removes everything at and after size.
func (x *extents) cut(size int64) {
	s := *x
	i := sort.Search(len(s), func(i int) bool { return end(s[i]) > size })
	if i < len(s) && s[i].Off < size {
		s[i].Len = size - s[i].Off
		i++
	}
	*x = s[:i]
}

// next is the first range that ends after off, clipped to start at off or later; ok is false if there is none.
func (x extents) next(off int64) (e blob.Extent, ok bool) {
	i := sort.Search(len(x), func(i int) bool { return end(x[i]) > off })
	if i == len(x) {
		return e, false
	}
	e = x[i]
	if e.Off < off {
		e.Len -= off - e.Off
		e.Off = off
	}
	return e, true
}

// total is the number of bytes in the set.
func (x extents) total() int64 {
	var n int64
	for _, e := range x {
		n += e.Len
	}
	return n
}
