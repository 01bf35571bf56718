package blobtest

import (
	"bytes"
	"errors"
	"io"
	iofs "io/fs"
	"math"
	"math/rand/v2"

	"wsfs/blob"
)

const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
	tib = 1 << 40
)

// resize cuts or extends content with zeros.
func (e *env) resize(c blob.Content, size int64) (blob.Content, blob.EditStats) {
	e.Helper()
	st, stats, err := e.s.Edit(e.ctx, c, size, nil, at(0, nil))
	if err != nil {
		e.Fatalf("Edit to %d bytes: %v", size, err)
	}
	e.apply(st)
	return st.Content, stats
}

// sparse: holes cost nothing, however long.
func sparse(e *env) {
	for _, size := range []int64{5 * gib, tib, math.MaxInt64} {
		c, stats := e.resize(blob.Content{}, size)
		if stats.BytesHashed > 1*kib || stats.BytesRead != 0 || stats.ChunksNew > 1 {
			e.Fatalf("a hole of %d bytes cost %+v", size, stats)
		}
		for _, off := range []int64{0, size / 2, size - 10} {
			got := bytes.Repeat([]byte{1}, 10)
			if n, err := e.s.ReadAt(e.ctx, c, got, off); n != 10 || err != nil && err != io.EOF || !bytes.Equal(got, make([]byte, 10)) {
				e.Fatalf("ReadAt in a hole: %d, %v, %x", n, err, got)
			}
		}
		off := size/2 + 12345
		st, stats := e.stage(c, off, []byte("island"))
		if stats.BytesHashed > 200*kib || stats.BytesStored > 64*kib {
			e.Fatalf("an island in a hole of %d bytes cost %+v", size, stats)
		}
		e.apply(st)
		e.reopen()
		got := make([]byte, 8)
		if _, err := e.s.ReadAt(e.ctx, st.Content, got, off-1); err != nil || string(got) != "\x00island\x00" {
			e.Fatalf("the island reads %q, %v", got, err)
		}
		// Overwritten with zeros it is the hole again; cut before it as well.
		back, _ := e.stage(st.Content, off, make([]byte, 6))
		if back.Content != c {
			e.Fatalf("the island drowned gives %v, want %v", back.Content, c)
		}
		e.apply(back)
		cutOff, _ := e.resize(st.Content, 5*gib-1)
		if want, _ := e.resize(blob.Content{}, 5*gib-1); size > 5*gib && cutOff != want {
			e.Fatalf("cut to a hole gives %v, want %v", cutOff, want)
		}
	}
	if e.packed() > mib {
		e.Errorf("packs have %d bytes", e.packed())
	}
}

// zeros is a source that says it is zero everywhere, and fails when it is read.
type zeros struct{ io.ReaderAt }

func (zeros) ZeroRun(int64) int64 { return math.MaxInt64 }

// punch: a source that knows its zeros is not read there.
func punch(e *env) {
	data := noise(1, 9*mib)
	c := e.stored(data)
	st, stats, err := e.s.Edit(e.ctx, c, c.Size, []blob.Extent{{Off: 4 * mib, Len: 4 * mib}}, zeros{at(0, nil)})
	if err != nil {
		e.Fatal(err)
	}
	if stats.BytesRead != 0 {
		e.Errorf("%d bytes read", stats.BytesRead)
	}
	clear(data[4*mib : 8*mib])
	e.want(st.Content, data)
	if again, _ := e.stage(blob.Content{}, 0, data); again.Content != st.Content {
		e.Errorf("punched %v, made afresh %v", st.Content, again.Content)
	}
	big, _ := e.resize(c, 100*tib)
	st, stats, err = e.s.Edit(e.ctx, big, big.Size, []blob.Extent{{Off: 0, Len: 100 * tib}}, zeros{at(0, nil)})
	if err != nil {
		e.Fatal(err)
	}
	if want, _ := e.resize(blob.Content{}, 100*tib); st.Content != want || stats.BytesRead != 0 {
		e.Errorf("punched all %v, a hole %v, %d bytes read", st.Content, want, stats.BytesRead)
	}
}

// grow: every size on the way gives what making it at once gives.
func grow(e *env) {
	var cur blob.Content
	var model []byte
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 16 {
		piece := prose(byte(i), r.IntN(400*kib))
		if i%5 == 4 {
			piece = make([]byte, r.IntN(300*kib))
		}
		st, _ := e.stage(cur, int64(len(model)), piece)
		model = append(model, piece...)
		want, _ := e.stage(blob.Content{}, 0, model)
		if st.Content != want.Content {
			e.Fatalf("step %d: %d bytes grown give %v, at once %v", i, len(model), st.Content, want.Content)
		}
		e.apply(st, want)
		cur = st.Content
	}
	e.want(cur, model)
	for size := len(model); size > 0; size -= r.IntN(700 * kib) {
		cur, _ = e.resize(cur, int64(size))
		want, _ := e.stage(blob.Content{}, 0, model[:size])
		if cur != want.Content {
			e.Fatalf("cut to %d bytes gives %v, at once %v", size, cur, want.Content)
		}
	}
}

// appendLine: one more line behind a large file costs a path of the tree.
func appendLine(e *env) {
	line := []byte("2026-01-02 03:04:05 one more line\n")
	size := 20*mib + 123_456
	real, err := e.s.PutReader(e.ctx, io.LimitReader(rand.NewChaCha8([32]byte{1}), int64(size)))
	if err != nil {
		e.Fatal(err)
	}
	e.apply(real)
	thin, _ := e.resize(blob.Content{}, gib+123_456) // a whole GiB, most of it a hole
	island, _ := e.stage(thin, gib, noise(2, 123_456))
	e.apply(island)
	for _, c := range []blob.Content{real.Content, island.Content} {
		for range 20 {
			st, stats := e.stage(c, c.Size, line)
			if stats.BytesHashed > 300*kib || stats.BytesRead > 300*kib || stats.ChunksNew > 8 {
				e.Fatalf("a line behind %d bytes cost %+v", c.Size, stats)
			}
			e.apply(st)
			c = st.Content
		}
		got := make([]byte, 2*len(line))
		if _, err := e.s.ReadAt(e.ctx, c, got, c.Size-int64(len(got))); err != nil || !bytes.Equal(got, append(bytes.Clone(line), line...)) {
			e.Errorf("the last lines are %q, %v", got, err)
		}
	}
}

// overwrite: 4 KiB in the middle of data.
func overwrite(e *env) {
	data := noise(1, 32*mib)
	c := e.stored(data)
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 30 {
		off := r.IntN(len(data) - 4*kib)
		piece := noise(byte(i+10), 4*kib)
		copy(data[off:], piece)
		st, stats := e.stage(c, int64(off), piece)
		if stats.BytesHashed > 900*kib || stats.BytesRead > 1200*kib {
			e.Errorf("4 KiB at %d cost %+v", off, stats)
		}
		e.apply(st)
		c = st.Content
	}
	e.want(c, data)
	if want, _ := e.stage(blob.Content{}, 0, data); c != want.Content {
		e.Errorf("edited %v, at once %v", c, want.Content)
	}
}

// overwriteZeros: 4 KiB in 256 MiB of written zeros.
func overwriteZeros(e *env) {
	c := e.stored(make([]byte, 256*mib))
	st, stats := e.stage(c, 100*mib+777, noise(1, 4*kib))
	if stats.BytesHashed > 150*kib || stats.BytesRead > 150*kib || stats.BytesStored > 150*kib {
		e.Errorf("4 KiB in zeros cost %+v", stats)
	}
	e.apply(st)
	if back, _ := e.stage(st.Content, 100*mib+777, make([]byte, 4*kib)); back.Content != c {
		e.Errorf("zeros again give %v, want %v", back.Content, c)
	}
}

// overwriteConstant: data in which no boundary is ever found.
func overwriteConstant(e *env) {
	data := bytes.Repeat([]byte("A"), 32*mib)
	c := e.stored(data)
	if e.packed() > mib {
		e.Errorf("%d bytes of one letter are %d packed", len(data), e.packed())
	}
	st, stats := e.stage(c, 10*mib+777, noise(1, 4*kib))
	if stats.BytesHashed > 600*kib || stats.BytesRead > 1*mib {
		e.Errorf("4 KiB in one letter cost %+v", stats)
	}
	copy(data[10*mib+777:], noise(1, 4*kib))
	e.want(st.Content, data)
	e.s.Applied([]blob.Staged{st})
}

func segments(e *env) {
	collect := func(c blob.Content, off int64) (list []blob.Segment) {
		e.Helper()
		if err := e.s.Segments(e.ctx, c, off, func(g blob.Segment) bool { list = append(list, g); return true }); err != nil {
			e.Fatal(err)
		}
		return list
	}
	equal := func(what string, got []blob.Segment, want ...blob.Segment) {
		e.Helper()
		if len(got) != len(want) {
			e.Fatalf("%s: %v, want %v", what, got, want)
		}
		for i := range got {
			if got[i] != want[i] {
				e.Fatalf("%s: %v, want %v", what, got, want)
			}
		}
	}
	equal("empty", collect(blob.Content{}, 0))
	equal("small", collect(e.stored(noise(1, 100)), 10), blob.Segment{Off: 10, Len: 90})
	equal("data", collect(e.stored(noise(1, 9*mib)), 0), blob.Segment{Off: 0, Len: 9 * mib})
	c, _ := e.resize(blob.Content{}, tib)
	equal("hole", collect(c, 5), blob.Segment{Off: 5, Len: tib - 5, Hole: true})
	st, _ := e.stage(c, gib+64*kib, noise(1, 64*kib))
	e.apply(st)
	st, _ = e.stage(st.Content, 2*gib+1, noise(1, 1))
	e.apply(st)
	want := []blob.Segment{
		{Off: 0, Len: gib + 64*kib, Hole: true},
		{Off: gib + 64*kib, Len: 64 * kib},
		{Off: gib + 128*kib, Len: gib - 128*kib, Hole: true},
		{Off: 2 * gib, Len: 64 * kib},
		{Off: 2*gib + 64*kib, Len: tib - 2*gib - 64*kib, Hole: true},
	}
	equal("islands", collect(st.Content, 0), want...)
	want[1].Off, want[1].Len = want[1].Off+1000, want[1].Len-1000
	equal("from within", collect(st.Content, gib+64*kib+1000), want[1:]...)
	equal("behind the end", collect(st.Content, tib))
	n := 0
	if err := e.s.Segments(e.ctx, st.Content, 0, func(blob.Segment) bool { n++; return n < 2 }); err != nil || n != 2 {
		e.Errorf("stopped after %d segments, %v", n, err)
	}
}

func walk(e *env) {
	c, _ := e.resize(blob.Content{}, 3*gib)
	st, _ := e.stage(c, gib, noise(1, 9*mib))
	e.apply(st)
	refs := map[blob.Ref]bool{}
	if err := e.s.Walk(e.ctx, st.Content, func(r blob.Ref) error { refs[r] = true; return nil }); err != nil {
		e.Fatal(err)
	}
	for _, l := range st.Packed {
		if !refs[l.Ref] {
			e.Errorf("blob %v is staged but not walked", l.Ref)
		}
		delete(refs, l.Ref)
	}
	if len(refs) != 0 {
		e.Errorf("%d blobs are walked but were not staged", len(refs))
	}
	n := 0
	if err := e.s.Walk(e.ctx, st.Content, func(blob.Ref) error { n++; return iofs.SkipDir }); err != nil || n != 1 {
		e.Errorf("the root skipped: %d calls, %v", n, err)
	}
	stop := errors.New("stop")
	if err := e.s.Walk(e.ctx, st.Content, func(blob.Ref) error { return stop }); !errors.Is(err, stop) {
		e.Errorf("stopped: %v", err)
	}
	sm := e.stored([]byte("small"))
	if err := e.s.Walk(e.ctx, sm, func(r blob.Ref) error { n++; return nil }); err != nil || n != 2 {
		e.Errorf("small: %d calls, %v", n, err)
	}
	if err := e.s.Walk(e.ctx, blob.Content{}, func(blob.Ref) error { return stop }); err != nil {
		e.Errorf("empty: %v", err)
	}
}
