package blob

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// faulty is a pack on a disk that fails.
type faulty struct {
	packFile
	d *disk
}

type disk struct {
	space atomic.Int64 // bytes left before ENOSPC; negative: no limit
	write atomic.Pointer[error]
	sync  atomic.Pointer[error]
	syncs atomic.Int64
	slow  atomic.Bool
}

func (f faulty) WriteAt(b []byte, off int64) (int, error) {
	if e := f.d.write.Load(); e != nil {
		return 0, *e
	}
	if left := f.d.space.Load(); left >= 0 {
		if int64(len(b)) > left {
			f.d.space.Store(0)
			n, err := f.packFile.WriteAt(b[:left], off)
			return n, errors.Join(syscall.ENOSPC, err)
		}
		f.d.space.Store(left - int64(len(b)))
	}
	return f.packFile.WriteAt(b, off)
}

func (f faulty) Datasync() error {
	f.d.syncs.Add(1)
	if f.d.slow.Load() {
		time.Sleep(20 * time.Millisecond)
	}
	if e := f.d.sync.Load(); e != nil {
		return *e
	}
	return f.packFile.Datasync()
}

// memIndex is the least an Index can be.
type memIndex map[Ref]Location

func (m memIndex) Locate(_ context.Context, ref Ref) (Location, error) {
	if l, ok := m[ref]; ok {
		return l, nil
	}
	return Location{}, ErrNotFound
}

func (m memIndex) add(locs []Location) {
	for _, l := range locs {
		m[l.Ref] = l
	}
}

func openFaulty(t *testing.T, dir string, x Index, o Options) (*Store, *disk) {
	t.Helper()
	s, err := Open(dir, x, o)
	if err != nil {
		t.Fatal(err)
	}
	d := &disk{}
	d.space.Store(-1)
	s.packs.open = func(path string, flag int) (packFile, error) {
		f, err := openFile(path, flag)
		if err != nil {
			return nil, err
		}
		return faulty{f, d}, nil
	}
	if s.packs.cur != 0 {
		s.packs.files[s.packs.cur] = faulty{s.packs.files[s.packs.cur], d}
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, d
}

func unlike(seed byte, n int) []byte {
	b := make([]byte, n)
	h := uint64(seed) + 1
	for i := range b {
		h = h*6364136223846793005 + 1442695040888963407
		b[i] = byte(h >> 56)
	}
	return b
}

func putOne(t *testing.T, s *Store, x memIndex, data []byte) Content {
	t.Helper()
	st, err := s.PutPacked(data)
	if err != nil {
		t.Fatal(err)
	}
	locs, err := s.Settle(context.Background(), []Staged{st})
	if err != nil {
		t.Fatal(err)
	}
	x.add(locs)
	s.Applied([]Staged{st})
	return st.Content
}

func want(t *testing.T, s *Store, c Content, data []byte) {
	t.Helper()
	s.cache.drop()
	got := make([]byte, c.Size)
	if n, err := s.ReadAt(context.Background(), c, got, 0); n != len(got) || string(got) != string(data) {
		t.Fatalf("read %d of %d bytes, or other ones: %v", n, c.Size, err)
	}
}

// TestFullDisk: ENOSPC comes back from every call that writes; what was there stays, and once there is room it goes on.
func TestFullDisk(t *testing.T) {
	ctx := context.Background()
	dir, x := t.TempDir(), memIndex{}
	s, d := openFaulty(t, dir, x, Options{})
	before := putOne(t, s, x, unlike(1, 50000))
	for round := range 3 {
		d.space.Store(int64(round * 20000))
		if _, err := s.PutPacked(unlike(2, 60000)); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("PutPacked: %v", err)
		}
		size := int64(6 << 20)
		src := readerAt(func(p []byte, off int64) (int, error) { return copy(p, unlike(byte(off>>16), len(p))), nil })
		if _, _, err := s.Edit(ctx, Content{}, size, []Extent{{0, size}}, src); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("Edit: %v", err)
		}
		st := s.StageSmall(unlike(byte(50+round), 30000))
		if _, err := s.Settle(ctx, []Staged{st}); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("Settle: %v", err)
		}
		want(t, s, st.Content, unlike(byte(50+round), 30000)) // still pending
		want(t, s, before, unlike(1, 50000))
		d.space.Store(-1)
		locs, err := s.Settle(ctx, []Staged{st})
		if err != nil {
			t.Fatalf("Settle with room again: %v", err)
		}
		x.add(locs)
		s.Applied([]Staged{st})
		want(t, s, st.Content, unlike(byte(50+round), 30000))
		want(t, s, putOne(t, s, x, unlike(byte(10+round), 60000)), unlike(byte(10+round), 60000))
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(s.pending.packs) + len(s.pending.small); n != 0 {
		t.Errorf("%d blobs are still pending", n)
	}
}

type readerAt func(p []byte, off int64) (int, error)

func (f readerAt) ReadAt(p []byte, off int64) (int, error) { return f(p, off) }

// TestFullDiskAtStart: the first pack cannot even get its header.
func TestFullDiskAtStart(t *testing.T) {
	x := memIndex{}
	s, d := openFaulty(t, t.TempDir(), x, Options{})
	d.space.Store(5)
	for range 3 {
		if _, err := s.PutPacked(unlike(1, 1000)); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("PutPacked: %v", err)
		}
	}
	d.space.Store(-1)
	want(t, s, putOne(t, s, x, unlike(1, 1000)), unlike(1, 1000))
}

func TestWriteError(t *testing.T) {
	x := memIndex{}
	s, d := openFaulty(t, t.TempDir(), x, Options{})
	before := putOne(t, s, x, unlike(1, 50000))
	e := error(syscall.EIO)
	d.write.Store(&e)
	if _, err := s.PutPacked(unlike(2, 60000)); !errors.Is(err, syscall.EIO) {
		t.Fatalf("PutPacked: %v", err)
	}
	want(t, s, before, unlike(1, 50000))
	d.write.Store(nil)
	want(t, s, putOne(t, s, x, unlike(2, 60000)), unlike(2, 60000))
	want(t, s, before, unlike(1, 50000))
}

// TestSyncError: after a failed sync nothing is written or called safe any more, and everything is still readable.
func TestSyncError(t *testing.T) {
	x := memIndex{}
	dir := t.TempDir()
	s, d := openFaulty(t, dir, x, Options{})
	before := putOne(t, s, x, unlike(1, 50000))
	e := error(syscall.EIO)
	d.sync.Store(&e)
	if err := s.Sync(); !errors.Is(err, syscall.EIO) {
		t.Fatalf("Sync: %v", err)
	}
	d.sync.Store(nil)
	for range 2 {
		if err := s.Sync(); !errors.Is(err, syscall.EIO) {
			t.Fatalf("the next Sync: %v", err)
		}
	}
	if _, err := s.PutPacked(unlike(2, 60000)); !errors.Is(err, syscall.EIO) {
		t.Fatalf("PutPacked: %v", err)
	}
	st := s.StageSmall(unlike(3, 1000))
	if _, err := s.Settle(context.Background(), []Staged{st}); !errors.Is(err, syscall.EIO) {
		t.Fatalf("Settle: %v", err)
	}
	want(t, s, before, unlike(1, 50000))
	s2, _ := openFaulty(t, t.TempDir(), x, Options{})
	if err := s2.Sync(); err != nil {
		t.Errorf("another store is affected: %v", err)
	}
}

// TestSyncShared: those who wait for one sync find their bytes covered by the next, not by one each.
func TestSyncShared(t *testing.T) {
	x := memIndex{}
	s, d := openFaulty(t, t.TempDir(), x, Options{})
	putOne(t, s, x, unlike(1, 1000))
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := s.Sync(); err != nil || d.syncs.Load() != 1 {
		t.Fatalf("nothing was written, but there were %d syncs, %v", d.syncs.Load(), err)
	}
	d.slow.Store(true)
	done := make(chan error)
	for i := range 20 {
		if _, err := s.PutPacked(unlike(byte(i+2), 1000)); err != nil {
			t.Fatal(err)
		}
		go func() { done <- s.Sync() }()
	}
	for range 20 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if n := d.syncs.Load(); n > 15 {
		t.Errorf("20 waiters made %d syncs", n-1)
	}
	if len(s.packs.dirty) != 0 {
		t.Error("something is not synced")
	}
}

// TestEvictedPackIsSynced: a pack that was rotated out is synced before it is closed.
func TestEvictedPackIsSynced(t *testing.T) {
	x := memIndex{}
	s, d := openFaulty(t, t.TempDir(), x, Options{PackSize: 1000, InlineMax: -1})
	for i := range maxOpenPacks + 50 {
		putOne(t, s, x, unlike(byte(i), 2000+i))
	}
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	if n := d.syncs.Load(); n != maxOpenPacks+50 {
		t.Errorf("%d packs were written, %d synced", maxOpenPacks+50, n)
	}
	if n := len(s.packs.files); n > maxOpenPacks+1 {
		t.Errorf("%d packs are open", n)
	}
}

// TestReserve: what a replayed Op names is not overwritten, even if its pack lost its end or is gone.
func TestReserve(t *testing.T) {
	dir, x := t.TempDir(), memIndex{}
	s, _ := openFaulty(t, dir, x, Options{})
	st, err := s.PutPacked(unlike(1, 5000))
	if err != nil {
		t.Fatal(err)
	}
	loc := st.Packed[0]
	path := s.packs.path(loc.Pack)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, packHeader); err != nil {
		t.Fatal(err)
	}
	s, _ = openFaulty(t, dir, x, Options{})
	s.Restage(st)
	next, err := s.PutPacked(unlike(2, 5000))
	if err != nil {
		t.Fatal(err)
	}
	if l := next.Packed[0]; l.Pack == loc.Pack && l.Offset < loc.Offset+loc.Length {
		t.Errorf("appended at %d, but %d to %d is taken", l.Offset, loc.Offset, loc.Offset+loc.Length)
	}
	var bad *CorruptError
	if err := s.Verify(context.Background(), loc); !errors.As(err, &bad) {
		t.Errorf("Verify of what is gone: %v", err)
	}
	loc.Pack = 40
	s.Restage(Staged{Packed: []Location{loc}})
	if next, err = s.PutPacked(unlike(3, 5000)); err != nil || next.Packed[0].Pack != 41 {
		t.Errorf("after pack 40 comes %d, %v", next.Packed[0].Pack, err)
	}
}

// TestFullDiskRetry: what Settle wrote before the disk was full is not written again.
func TestFullDiskRetry(t *testing.T) {
	x := memIndex{}
	s, d := openFaulty(t, t.TempDir(), x, Options{})
	var items []Staged
	var total int64
	for i := range 60 {
		st := s.StageSmall(unlike(byte(i), 60000))
		items = append(items, st)
		total += recordHeader + st.Content.Size
	}
	d.space.Store(total * 2 / 3)
	for range 3 {
		if _, err := s.Settle(context.Background(), items); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("Settle: %v", err)
		}
	}
	d.space.Store(-1)
	locs, err := s.Settle(context.Background(), items)
	if err != nil {
		t.Fatal(err)
	}
	x.add(locs)
	s.Applied(items)
	for i, st := range items {
		want(t, s, st.Content, unlike(byte(i), 60000))
	}
	if s.packs.end != packHeader+total {
		t.Errorf("the pack has %d bytes, %d belong there", s.packs.end, packHeader+total)
	}
}
