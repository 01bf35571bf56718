package store

import (
	"bytes"
	"os"
	"reflect"
	"testing"
)

// FuzzJournal damages a journal. Whatever the damage, what is applied is the beginning of what was written, unchanged.
func FuzzJournal(f *testing.F) {
	dir := f.TempDir()
	var segs [][]byte
	for _, file := range leave(f, dir, 90, 1000) {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		segs = append(segs, b)
	}
	f.Add(uint8(0), uint32(100), []byte{1}, uint32(1<<31), true)
	f.Add(uint8(1), uint32(0), make([]byte, segHeader), uint32(1<<31), false)
	f.Add(uint8(0), uint32(2000), []byte{0, 0, 0}, uint32(40000), true)
	f.Add(uint8(1), uint32(70), []byte{0xff, 0xff, 0xff, 0x7f}, uint32(1<<31), false)
	f.Fuzz(func(t *testing.T, which uint8, at uint32, b []byte, cut uint32, down bool) {
		dir := t.TempDir()
		for i, seg := range segs {
			seg = bytes.Clone(seg)
			if down {
				h, err := parseHeader(seg)
				if err != nil {
					t.Fatal(err)
				}
				h.place.boot[0]++
				copy(seg, h.append(nil))
			}
			if i == int(which)%len(segs) {
				copy(seg[int(at)%len(seg):], b)
				seg = seg[:min(int(cut), len(seg))]
			}
			write(t, dir, int64(i+1), seg)
		}
		db := newFakeDB()
		p, err := tryPipe(t, dir, db, quick())
		for i, op := range db.ops {
			if !reflect.DeepEqual(op, numbered(int64(i+1), 1000)) {
				t.Fatalf("op %d changed on its way", i+1)
			}
		}
		if err == nil {
			p.abandon()
			// A second start has nothing to do, and the first one's log said what is missing.
			n := len(db.ops)
			p2 := startPipe(t, dir, db, quick())
			if len(db.ops) != n {
				t.Fatalf("a second start applied %d more", len(db.ops)-n)
			}
			p2.abandon()
			if n < 90 && n > 0 && p.log.Len() == 0 {
				t.Fatalf("%d of 90 ops are there and nothing is logged", n)
			}
		}
	})
}

// FuzzSegment feeds garbage that begins like a segment.
func FuzzSegment(f *testing.F) {
	dir := f.TempDir()
	b, err := os.ReadFile(leave(f, dir, 3, 10)[0])
	if err != nil {
		f.Fatal(err)
	}
	_, recs, _ := recordsOf(f, segments(f, dir)[0])
	f.Add(b[segHeader:recs[2].end], int64(1))
	f.Fuzz(func(t *testing.T, body []byte, first int64) {
		dir := t.TempDir()
		h := segmentHeader{journal: 1, first: first, salt: 0}
		write(t, dir, 1, append(h.append(nil), body...))
		db := newFakeDB()
		p, err := tryPipe(t, dir, db, quick())
		if err == nil {
			p.abandon()
		}
	})
}
