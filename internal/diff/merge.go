package diff

import "bytes"

// Range is lines [Start, End) of a text, counted from 0.
type Range struct {
	Start, End int
}

func (r Range) of(lines [][]byte) [][]byte { return lines[r.Start:r.End] }

// Hunk is one place where two edits could not be merged.
type Hunk struct {
	Base, Ours, Theirs Range // what each text has there
	Merged             Range // the block in the merged text, markers included
}

const (
	markOurs   = "<<<<<<< ours"
	markMiddle = "======="
	markTheirs = ">>>>>>> theirs"
)

// Merge3 applies to ours what theirs changed in base. ok means that everything merged. Otherwise merged holds a block
// with both sides between conflict markers for each of conflicts, like git merge-file; lines both sides agree on are
// moved out of the blocks. Changes conflict if they overlap or touch and are not the same. Merge3 does not look at what
// the lines mean, and not for Binary: that is the caller's.
func Merge3(base, ours, theirs []byte) (merged []byte, conflicts []Hunk, ok bool) {
	m := &merger{base: Lines(base), ours: Lines(ours), theirs: Lines(theirs)}
	m.crlf = endsInCRLF(m.ours) && endsInCRLF(m.theirs) && endsInCRLF(m.base)
	blocks := m.join(m.refine(m.overlay()))
	merged, conflicts = m.write(blocks)
	return merged, conflicts, len(conflicts) == 0
}

type merger struct {
	base, ours, theirs [][]byte
	crlf               bool
}

// block is a stretch that does not come from ours as it is. Between blocks, ours is the result.
type block struct {
	base, ours, theirs Range
	conflict           bool // else theirs is the result
}

// overlay lays the changes of both sides over the base.
func (m *merger) overlay() []block {
	us, them := compare(m.base, m.ours, false), compare(m.base, m.theirs, false)
	var list []block
	shiftUs, shiftThem := 0, 0 // side position minus base position, outside changes
	for len(us) > 0 || len(them) > 0 {
		switch {
		case len(them) == 0 || len(us) > 0 && us[0].A+us[0].ALen < them[0].A:
			shiftUs += us[0].BLen - us[0].ALen
			us = us[1:]
			continue
		case len(us) == 0 || them[0].A+them[0].ALen < us[0].A:
			c := them[0]
			list = append(list, block{
				base: Range{c.A, c.A + c.ALen}, ours: Range{c.A + shiftUs, c.A + c.ALen + shiftUs},
				theirs: Range{c.B, c.B + c.BLen},
			})
			shiftThem += c.BLen - c.ALen
			them = them[1:]
			continue
		case m.same(us[0], them[0]):
			shiftUs += us[0].BLen - us[0].ALen
			shiftThem += us[0].BLen - us[0].ALen
			us, them = us[1:], them[1:]
			continue
		}
		// Everything that overlaps or touches, in a chain, is one conflict.
		start := min(us[0].A, them[0].A)
		end := start
		b := block{conflict: true, ours: Range{Start: start + shiftUs}, theirs: Range{Start: start + shiftThem}}
		for {
			switch {
			case len(us) > 0 && us[0].A <= end:
				end = max(end, us[0].A+us[0].ALen)
				shiftUs += us[0].BLen - us[0].ALen
				us = us[1:]
				continue
			case len(them) > 0 && them[0].A <= end:
				end = max(end, them[0].A+them[0].ALen)
				shiftThem += them[0].BLen - them[0].ALen
				them = them[1:]
				continue
			}
			break
		}
		b.base = Range{start, end}
		b.ours.End, b.theirs.End = end+shiftUs, end+shiftThem
		list = append(list, b)
	}
	return list
}

// same reports whether two changes of the base do the same.
func (m *merger) same(us, them Change) bool {
	return us.A == them.A && us.ALen == them.ALen && us.BLen == them.BLen &&
		equal(m.ours[us.B:us.B+us.BLen], m.theirs[them.B:them.B+them.BLen])
}

func equal(a, b [][]byte) bool {
	for i := range a {
		if !bytes.Equal(a[i], b[i]) {
			return false
		}
	}
	return len(a) == len(b)
}

// refine takes out of each conflict the lines that both sides have.
func (m *merger) refine(blocks []block) []block {
	var list []block
	for _, b := range blocks {
		ours, theirs := b.ours.of(m.ours), b.theirs.of(m.theirs)
		if !b.conflict || len(ours) == 0 || len(theirs) == 0 {
			list = append(list, b)
			continue
		}
		for _, c := range compare(ours, theirs, false) {
			list = append(list, block{
				base:   b.base, // the parts cannot be told apart in the base
				ours:   Range{b.ours.Start + c.A, b.ours.Start + c.A + c.ALen},
				theirs: Range{b.theirs.Start + c.B, b.theirs.Start + c.B + c.BLen}, conflict: true,
			})
		}
	}
	return list
}

// join makes one conflict of two that are hardly apart: by at most three lines, or by lines without a word.
func (m *merger) join(blocks []block) []block {
	var list []block
	for _, b := range blocks {
		if n := len(list); n > 0 && b.conflict && list[n-1].conflict {
			between := Range{list[n-1].ours.End, b.ours.Start}
			if between.End-between.Start <= 3 || !hasWord(between.of(m.ours)) {
				last := &list[n-1]
				last.base.End, last.ours.End, last.theirs.End = b.base.End, b.ours.End, b.theirs.End
				continue
			}
		}
		list = append(list, b)
	}
	return list
}

func hasWord(lines [][]byte) bool {
	for _, l := range lines {
		for _, c := range l {
			if c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
				return true
			}
		}
	}
	return false
}

func (m *merger) write(blocks []block) (merged []byte, conflicts []Hunk) {
	w := &writer{eol: "\n"}
	if m.crlf {
		w.eol = "\r\n"
	}
	at := 0
	for _, b := range blocks {
		w.lines(m.ours[at:b.ours.Start])
		at = b.ours.End
		if !b.conflict {
			w.lines(b.theirs.of(m.theirs))
			continue
		}
		start := w.n
		w.mark(markOurs)
		w.lines(b.ours.of(m.ours))
		w.mark(markMiddle)
		w.lines(b.theirs.of(m.theirs))
		w.mark(markTheirs)
		conflicts = append(conflicts, Hunk{Base: b.base, Ours: b.ours, Theirs: b.theirs, Merged: Range{start, w.n}})
	}
	w.lines(m.ours[at:])
	return w.out, conflicts
}

type writer struct {
	out []byte
	eol string
	n   int // lines
}

// mark writes a marker on a line of its own, also after a last line without terminator.
func (w *writer) mark(s string) {
	if len(w.out) > 0 && w.out[len(w.out)-1] != '\n' {
		w.out = append(w.out, w.eol...)
	}
	w.out = append(w.out, s...)
	w.out = append(w.out, w.eol...)
	w.n++
}

func (w *writer) lines(lines [][]byte) {
	for _, l := range lines {
		w.out = append(w.out, l...)
	}
	w.n += len(lines)
}

// endsInCRLF reports whether a text's lines end in CR LF, as far as its first line tells. An empty text does not object.
func endsInCRLF(lines [][]byte) bool {
	return len(lines) == 0 || bytes.HasSuffix(lines[0], []byte("\r\n"))
}
