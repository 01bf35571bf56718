package blob

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"os"
	"testing"
)

func openTest(t *testing.T, dir string, x Index) *Store {
	t.Helper()
	s, err := Open(dir, x, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// commit does with a Staged what the applier does.
func commit(t *testing.T, s *Store, x memIndex, st Staged) {
	t.Helper()
	locs, err := s.Settle(t.Context(), []Staged{st})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range locs {
		x[l.Ref] = l
	}
	s.Applied([]Staged{st})
}

// scatter is a large content and small writes all over it: what was there, what is, and where it differs.
func scatter(seed uint64, size int64, n int) (old, now []byte, dirty []Extent) {
	r := rand.New(rand.NewPCG(seed, 1))
	old = make([]byte, size)
	for i := range old {
		old[i] = byte(r.Uint32() >> (i % 3))
	}
	now = bytes.Clone(old)
	for range n {
		x := Extent{Off: r.Int64N(size - 5000), Len: 1 + r.Int64N(5000)}
		for i := x.Off; i < x.End(); i++ {
			now[i] = byte(r.Uint32())
		}
		dirty = append(dirty, x)
	}
	return old, now, dirty
}

// A patch is what Edit makes of the same changes: read before and after it is settled, and after a restart in between.
func TestPatch(t *testing.T) {
	ctx := t.Context()
	for _, grow := range []int64{0, 100_000} {
		dir, index := t.TempDir(), memIndex{}
		s := openTest(t, dir, index)
		old, now, dirty := scatter(7, 6<<20, 60)
		if grow > 0 {
			dirty = append(dirty, Extent{Off: int64(len(now)), Len: grow})
			now = append(now, bytes.Repeat([]byte("grown"), int(grow/5))...)
		}
		base, _, err := s.Edit(ctx, Content{}, int64(len(old)), []Extent{{0, int64(len(old))}}, bytes.NewReader(old))
		if err != nil {
			t.Fatal(err)
		}
		st, ok, err := s.StagePatch(ctx, base.Content, int64(len(now)), dirty, bytes.NewReader(now))
		if err != nil || !ok || !st.Patch {
			t.Fatalf("staged %+v, %v, %v", st.Content, ok, err)
		}
		for _, loc := range st.Packed {
			if err := s.Verify(ctx, loc); err != nil {
				t.Fatal(err)
			}
		}
		read := func(s *Store, when string) {
			t.Helper()
			got := make([]byte, len(now))
			if n, err := s.ReadAt(ctx, st.Content, got, 0); n != len(got) || !bytes.Equal(got, now) {
				t.Fatalf("%s: read %d bytes, %v; equal: %v", when, n, err, bytes.Equal(got, now))
			}
			r := rand.New(rand.NewPCG(3, 3))
			for range 100 {
				off := r.IntN(len(now))
				p := got[:min(len(now)-off, r.IntN(9000))]
				if n, _ := s.ReadAt(ctx, st.Content, p, int64(off)); n != len(p) || !bytes.Equal(p, now[off:off+len(p)]) {
					t.Fatalf("%s: %d bytes at %d are wrong", when, len(p), off)
				}
			}
		}
		read(s, "before")
		if _, known := s.Settled(st.Content); known {
			t.Fatal("settled before Settle")
		}
		again := st.Again()
		s.Restage(again)

		// A restart: only the Op has it.
		commit(t, s, index, base)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = openTest(t, dir, index)
		s.Restage(st)
		s.Restage(again)
		read(s, "after a restart")
		locs, err := s.Settle(ctx, []Staged{st, again})
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range locs {
			index[l.Ref] = l
		}
		read(s, "settled")
		is, known := s.Settled(st.Content)
		want, _, err := s.Edit(ctx, Content{}, int64(len(now)), []Extent{{0, int64(len(now))}}, bytes.NewReader(now))
		if err != nil || !known || is != want.Content {
			t.Fatalf("settled to %v, %v; Edit makes %v, %v", is, known, want.Content, err)
		}
		s.Applied([]Staged{st, want})
		if _, known := s.Settled(again.Content); !known {
			t.Fatal("forgotten while a Staged has it")
		}
		s.Applied([]Staged{again})
		if len(s.pending.patches)+len(s.pending.packs) != 0 {
			t.Fatalf("%d patches and %d blobs stay pending", len(s.pending.patches), len(s.pending.packs))
		}
		s.cache.drop()
		read(s, "by somebody who is late")
		st.Content = is
		read(s, "as what it is")
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// What lies below a patch is damaged: the version comes, and reading it says so.
func TestPatchOverDamage(t *testing.T) {
	ctx := t.Context()
	dir, index := t.TempDir(), memIndex{}
	s := openTest(t, dir, index)
	defer s.Close()
	old, now, dirty := scatter(9, 1<<20, 10)
	base, _, err := s.Edit(ctx, Content{}, int64(len(old)), []Extent{{0, int64(len(old))}}, bytes.NewReader(old))
	if err != nil {
		t.Fatal(err)
	}
	commit(t, s, index, base)
	pack := s.packs.path(1)
	b, err := os.ReadFile(pack)
	if err != nil {
		t.Fatal(err)
	}
	for i := packHeader + recordHeader; i < len(b); i += 1000 {
		b[i]++
	}
	if err := os.WriteFile(pack, b, 0o600); err != nil {
		t.Fatal(err)
	}
	s.cache.drop()
	st, ok, err := s.StagePatch(ctx, base.Content, int64(len(now)), dirty, bytes.NewReader(now))
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	locs, err := s.Settle(ctx, []Staged{st})
	if err != nil || len(locs) != len(st.Packed) {
		t.Fatalf("settled with %d locations, %v", len(locs), err)
	}
	for _, l := range locs {
		index[l.Ref] = l
	}
	for range 2 {
		if _, err := s.ReadAt(ctx, st.Content, make([]byte, len(now)), 0); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("reading it: %v", err)
		}
		s.Applied([]Staged{st})
	}
}

// The list is a format on disk.
func TestPatchGolden(t *testing.T) {
	l := &patchList{
		base: Content{Ref: Ref{1, 2}, Size: 100_000}, size: 200_000, dirty: []Extent{{5, 3}, {300, 131_072}},
		pieces: []Location{{Ref: Ref{3}, Pack: 7, Offset: 68, Size: pieceSize}, {Ref: Ref{4}, Pack: 7, Offset: 140_000, Size: 3}},
	}
	const want = "77737031400d030000000000a086010000000000" + "0102000000000000000000000000000000000000000000000000000000000000" +
		"02" + "0300000000000000000000000000000000000000000000000000000000000000" + "07000000" + "4400000000000000" + "00000200" +
		"0400000000000000000000000000000000000000000000000000000000000000" + "07000000" + "e022020000000000" + "03000000" +
		"02" + "0503" + "a402808008"
	b := l.appendTo(nil)
	if got := hex.EncodeToString(b); got != want {
		t.Errorf("the list is\n%s, was\n%s", got, want)
	}
	back, err := parsePatch(b)
	if err != nil || back.at[1] != 3 || !bytes.Equal(back.appendTo(nil), b) {
		t.Errorf("read back as %+v, %v", back, err)
	}
	for i := range b {
		if _, err := parsePatch(b[:i]); err == nil {
			t.Errorf("the first %d bytes pass for a patch", i)
		}
	}
}

func FuzzPatch(f *testing.F) {
	l := &patchList{base: Content{Size: 70_000}, size: 100_000, dirty: []Extent{{5, 3}}, pieces: []Location{{Pack: 1, Size: 3}}}
	f.Add(l.appendTo(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := parsePatch(b)
		if err != nil {
			return
		}
		if again, err := parsePatch(l.appendTo(nil)); err != nil || len(again.dirty) != len(l.dirty) {
			t.Fatalf("read again: %v", err)
		}
	})
}

func TestPatchTooLarge(t *testing.T) {
	s := openTest(t, t.TempDir(), memIndex{})
	defer s.Close()
	var dirty []Extent
	for i := range int64(200_000) {
		dirty = append(dirty, Extent{Off: i * 8, Len: 1})
	}
	zeros := bytes.NewReader(make([]byte, 2<<20))
	if _, ok, err := s.StagePatch(context.Background(), Content{}, 2<<20, dirty, zeros); ok || err != nil {
		t.Fatalf("200,000 extents: %v, %v", ok, err)
	}
}
