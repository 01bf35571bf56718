package blobtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"syscall"

	"wsfs/blob"
)

// dedup: what is stored already is not stored again.
func dedup(e *env) {
	data := noise(1, 3<<20)
	c := e.stored(data)
	sm := e.s.StageSmall(noise(2, 5000))
	e.apply(sm)
	before, rows := e.packed(), len(e.x.All())
	st, stats := e.stage(blob.Content{}, 0, data)
	if st.Content != c || len(st.Packed) != 0 || stats.ChunksNew != 0 || stats.BytesStored != 0 {
		e.Fatalf("the same content again: %v instead of %v, %d locations, %+v", st.Content, c, len(st.Packed), stats)
	}
	e.apply(st, e.s.StageSmall(noise(2, 5000)))
	if e.packed() != before || len(e.x.All()) != rows {
		e.Fatalf("packs grew from %d to %d, rows from %d to %d", before, e.packed(), rows, len(e.x.All()))
	}
	// Moved by an odd number of bytes, most chunks are found again.
	moved, stats := e.stage(blob.Content{}, 0, append(noise(3, 12345), data...))
	if stats.BytesStored > 1<<20 {
		e.Errorf("the same bytes at another offset: %d bytes stored", stats.BytesStored)
	}
	e.apply(moved)
}

// dedupPending: what another Staged has is not written again, but both name it, as either may be lost.
func dedupPending(e *env) {
	data := noise(1, 1<<20)
	a, _ := e.stage(blob.Content{}, 0, data)
	before := e.packed()
	b, stats := e.stage(blob.Content{}, 0, data)
	if e.packed() != before || stats.ChunksNew != 0 {
		e.Fatalf("staged again: packs grew from %d to %d", before, e.packed())
	}
	if len(a.Packed) == 0 || len(a.Packed) != len(b.Packed) {
		e.Fatalf("first names %d blobs, second %d", len(a.Packed), len(b.Packed))
	}
	e.s.Applied([]blob.Staged{a}) // a is given up
	e.want(b.Content, data)
	e.apply(b)
	e.reopen()
	e.want(b.Content, data)
}

// counted: a blob stays pending until everyone who staged it has applied it.
func counted(e *env) {
	data := noise(1, 70<<10)
	for _, stage := range []func() blob.Staged{
		func() blob.Staged { return e.s.StageSmall(noise(9, 400)) },
		func() blob.Staged { st, _ := e.stage(blob.Content{}, 0, data); return st },
	} {
		a, b := stage(), stage()
		e.s.Applied([]blob.Staged{a})
		if n, err := e.s.ReadAt(e.ctx, b.Content, make([]byte, 10), 0); n != 10 {
			e.Fatalf("one of two applied, the rest not readable: %v", err)
		}
		e.apply(b)
		e.reopen()
		if n, err := e.s.ReadAt(e.ctx, b.Content, make([]byte, 10), 0); n != 10 {
			e.Fatalf("applied and not readable: %v", err)
		}
	}
	c := e.s.StageSmall(noise(10, 400))
	e.s.Applied([]blob.Staged{c})
	e.reopen()
	if _, err := e.s.ReadAt(e.ctx, c.Content, make([]byte, 10), 0); !errors.Is(err, blob.ErrNotFound) || !errors.Is(err, syscall.EIO) {
		e.Fatalf("given up and not settled, but reading says: %v", err)
	}
}

// settleTwice: a transaction that failed is tried again.
func settleTwice(e *env) {
	big, _ := e.stage(blob.Content{}, 0, noise(1, 200<<10))
	items := []blob.Staged{e.s.StageSmall(noise(2, 3000)), e.s.StageSmall([]byte("x")), e.s.StageSmall(noise(2, 3000)), big, big}
	first, err := e.s.Settle(e.ctx, items)
	if err != nil {
		e.Fatal(err)
	}
	before := e.packed()
	second, err := e.s.Settle(e.ctx, items)
	if err != nil {
		e.Fatal(err)
	}
	if e.packed() != before {
		e.Errorf("settling again wrote %d bytes", e.packed()-before)
	}
	refs := map[blob.Ref]int{}
	for _, l := range first {
		refs[l.Ref]++
	}
	for _, l := range second {
		refs[l.Ref] += 10
	}
	for ref, n := range refs {
		if n != 11 {
			e.Errorf("blob %v: first and second time together %d, want once each", ref, n)
		}
	}
	e.x.Insert(second...)
	e.s.Applied(items[:4])
	if third, err := e.s.Settle(e.ctx, items); err != nil || len(third) != 0 {
		e.Errorf("everything is known, but Settle returned %d locations, %v", len(third), err)
	}
}

// restage: a journal's ops after a restart.
func restage(e *env) {
	data, little := prose(1, 2<<20), noise(2, 999)
	big, _ := e.stage(blob.Content{}, 0, data)
	sm := e.s.StageSmall(bytes.Clone(little))
	e.reopen()
	e.s.Restage(big)
	e.s.Restage(sm)
	e.want(big.Content, data)
	e.want(sm.Content, little)
	e.apply(big, sm)
	e.reopen()
	e.want(big.Content, data)
	e.want(sm.Content, little)
	for _, l := range e.x.All() {
		if err := e.s.Verify(e.ctx, l); err != nil {
			e.Error(err)
		}
	}
}

// reopen: appending goes on, and nothing earlier is touched.
func reopen(e *env) {
	var all []blob.Content
	for i := range 5 {
		all = append(all, e.stored(noise(byte(i), 300<<10)))
		e.reopen()
		for j, c := range all {
			e.want(c, noise(byte(j), 300<<10))
		}
	}
}

func cached(e *env) {
	data := noise(1, 5<<20)
	c := e.stored(data)
	sm := e.s.StageSmall(noise(2, 100))
	if !e.s.Cached(sm.Content, 0, 100) {
		e.Error("a pending small content is not in memory")
	}
	e.apply(sm)
	e.reopen()
	asked := e.x.Asked()
	if e.s.Cached(c, 4<<20, 10) || e.s.Cached(sm.Content, 0, 1) {
		e.Error("nothing was read yet, but it is said to be in memory")
	}
	if !e.s.Cached(c, c.Size, 10) || !e.s.Cached(blob.Content{}, 0, 1) || !e.s.Cached(c, 0, 0) {
		e.Error("reading nothing is said to need the disk")
	}
	if e.x.Asked() != asked {
		e.Error("Cached asked the index")
	}
	for _, off := range []int64{10, 3<<20 + 1234} {
		if _, err := e.s.ReadAt(e.ctx, c, make([]byte, 10), off); err != nil {
			e.Fatal(err)
		}
		asked = e.x.Asked()
		if !e.s.Cached(c, off, 10) {
			e.Error("just read, but not in memory")
		}
		if _, err := e.s.ReadAt(e.ctx, c, make([]byte, 10), off); err != nil || e.x.Asked() != asked {
			e.Errorf("cached bytes were looked up (%v)", err)
		}
	}
	if e.s.Cached(c, 0, len(data)) {
		e.Error("most was never read, but all is said to be in memory")
	}
}

func canceled(e *env) {
	c := e.stored(noise(1, 9<<20))
	e.reopen()
	ctx, cancel := context.WithCancel(e.ctx)
	cancel()
	if _, err := e.s.ReadAt(ctx, c, make([]byte, 10), 0); !errors.Is(err, context.Canceled) {
		e.Errorf("ReadAt: %v", err)
	}
	if _, _, err := e.s.Edit(ctx, c, 0x7fff_ffff, []blob.Extent{{Off: 5, Len: 8 << 20}}, at(5, noise(2, 8<<20))); !errors.Is(err, context.Canceled) {
		e.Errorf("Edit: %v", err)
	}
	if _, err := e.s.PutReader(ctx, bytes.NewReader(noise(3, 9<<20))); !errors.Is(err, context.Canceled) {
		e.Errorf("PutReader: %v", err)
	}
	e.want(c, noise(1, 9<<20))
}

func invalid(e *env) {
	for _, x := range []blob.Extent{{Off: -1, Len: 1}, {Off: 0, Len: -1}, {Off: 1 << 62, Len: 1 << 62}} {
		if _, _, err := e.s.Edit(e.ctx, blob.Content{}, 1<<20, []blob.Extent{x}, at(0, nil)); !errors.Is(err, syscall.EINVAL) {
			e.Errorf("extent %v: %v", x, err)
		}
	}
	if _, _, err := e.s.Edit(e.ctx, blob.Content{}, -1, nil, nil); !errors.Is(err, syscall.EINVAL) {
		e.Errorf("size -1: %v", err)
	}
	// Extents in any order, overlapping, beyond the size.
	data := noise(1, 300<<10)
	st, _, err := e.s.Edit(e.ctx, blob.Content{}, int64(len(data)), []blob.Extent{
		{Off: 200 << 10, Len: 1 << 40}, {Off: 0, Len: 100 << 10}, {Off: 50 << 10, Len: 160 << 10}, {Off: 1 << 40, Len: 5}, {Off: 7, Len: 0},
	}, at(0, data))
	if err != nil {
		e.Fatal(err)
	}
	e.want(st.Content, data)
	e.s.Applied([]blob.Staged{st})
}

// indexFails: not knowing what is stored loses no bytes, and what is not pending gives the index's error.
func indexFails(e *env) {
	c := e.stored(noise(1, 100<<10))
	e.reopen()
	broken := errors.New("the index is broken")
	e.x.Fail(broken)
	if _, err := e.s.ReadAt(e.ctx, c, make([]byte, 1), 0); !errors.Is(err, broken) {
		e.Errorf("ReadAt: %v", err)
	}
	data := noise(2, 200<<10)
	st, _ := e.stage(blob.Content{}, 0, data)
	sm := e.s.StageSmall([]byte("little"))
	if _, err := e.s.Settle(e.ctx, []blob.Staged{st, sm}); !errors.Is(err, broken) {
		e.Errorf("Settle: %v", err)
	}
	e.x.Fail(nil)
	e.apply(st, sm)
	e.reopen()
	e.want(c, noise(1, 100<<10))
	e.want(st.Content, data)
	e.want(sm.Content, []byte("little"))
}

type shortReader struct{ io.Reader }

func (shortReader) ReadAt(p []byte, _ int64) (int, error) { return len(p) / 2, io.EOF }

// sourceFails: the error arrives, nothing is staged.
func sourceFails(e *env) {
	for _, size := range []int64{100, 100 << 10, 20 << 20} {
		if _, _, err := e.s.Edit(e.ctx, blob.Content{}, size, []blob.Extent{{Len: size}}, at(0, nil)); !errors.Is(err, errOutside) {
			e.Errorf("%d bytes: %v", size, err)
		}
		if _, _, err := e.s.Edit(e.ctx, blob.Content{}, size, []blob.Extent{{Len: size}}, shortReader{}); !errors.Is(err, io.ErrUnexpectedEOF) {
			e.Errorf("%d bytes from a short source: %v", size, err)
		}
		broken := errors.New("broken")
		r := io.MultiReader(bytes.NewReader(noise(1, int(size-1))), readerFunc(func([]byte) (int, error) { return 0, broken }))
		if _, err := e.s.PutReader(e.ctx, r); !errors.Is(err, broken) {
			e.Errorf("%d bytes from a broken stream: %v", size, err)
		}
	}
	e.want(e.stored(noise(1, 100<<10)), noise(1, 100<<10))
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
