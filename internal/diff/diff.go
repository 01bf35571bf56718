// Package diff compares texts line by line and merges two edits of one text.
//
// A line includes its terminator: "x" at the end of a file and "x\n" differ, and so do "x\n" and "x\r\n". A text that
// ends in a line feed has no empty line after it.
//
// The comparison is Myers's O(ND) algorithm in linear space (Algorithmica 1, 1986), after lines that only one side has
// are set aside, which loses nothing. It is minimal up to 1,024 changes between two places that agree; beyond, it takes
// the furthest it got as part of the answer, so that unrelated files of 100,000 lines are a matter of a second. There is
// no timeout: the same texts always give the same answer, and blame can rely on it.
//
// Everything is pure and safe for concurrent use. Results alias their arguments where noted.
package diff

import "bytes"

// Change says that lines [A, A+ALen) of one text became lines [B, B+BLen) of the other. Lines count from 0. One of the
// lengths may be 0.
type Change struct {
	A, ALen, B, BLen int
}

// Diff returns what turns a into b: in order, never touching each other, empty if they are equal.
func Diff(a, b []byte) []Change {
	return compare(Lines(a), Lines(b), true)
}

// Lines cuts a text into lines that alias it.
func Lines(text []byte) [][]byte {
	lines := make([][]byte, 0, bytes.Count(text, []byte{'\n'})+1)
	for len(text) > 0 {
		n := bytes.IndexByte(text, '\n') + 1
		if n == 0 {
			n = len(text)
		}
		lines = append(lines, text[:n:n])
		text = text[n:]
	}
	return lines
}

// Binary reports whether data looks like no text, as git does: a NUL in the first 8,000 bytes.
func Binary(data []byte) bool {
	return bytes.IndexByte(data[:min(len(data), 8000)], 0) >= 0
}

// compare is Diff of lines. Where a change could be moved without making it longer, readable says to put it where
// people would; otherwise it goes as far down as it can, as merges want it.
func compare(a, b [][]byte, readable bool) []Change {
	x, y := intern(a, b)
	s := &script{
		a: side{ids: x, lines: a, changed: make([]bool, len(a)+1)},
		b: side{ids: y, lines: b, changed: make([]bool, len(b)+1)},
	}
	s.solve()
	slide(&s.a, &s.b, readable)
	slide(&s.b, &s.a, readable)
	return s.changes()
}

// script is a comparison: which lines of either side have no partner in the other. The others pair up in order.
type script struct {
	a, b side
}

type side struct {
	ids     []int32 // equal lines have equal numbers, on both sides
	lines   [][]byte
	changed []bool // one longer than ids; the last stays false
}

// intern numbers the lines of two texts.
func intern(a, b [][]byte) (x, y []int32) {
	known := make(map[string]int32, len(a))
	number := func(lines [][]byte) []int32 {
		ids := make([]int32, len(lines))
		for i, l := range lines {
			id, ok := known[string(l)]
			if !ok {
				id = int32(len(known))
				known[string(l)] = id
			}
			ids[i] = id
		}
		return ids
	}
	x = number(a)
	return x, number(b)
}

func (s *script) changes() []Change {
	var list []Change
	for i, j := 0, 0; i < len(s.a.ids) || j < len(s.b.ids); i, j = i+1, j+1 {
		c := Change{A: i, B: j}
		for s.a.changed[i] {
			i++
		}
		for s.b.changed[j] {
			j++
		}
		if c.ALen, c.BLen = i-c.A, j-c.B; c.ALen+c.BLen > 0 {
			list = append(list, c)
		}
	}
	return list
}
