package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"wsfs/blob"
)

// fakeDB is a database in memory.
type fakeDB struct {
	mu      sync.Mutex
	ops     []*Op
	applied map[int64]int64
	groups  []int
	durable int // ops that a power cut leaves
	// before is called in applyGroup; its error is applyGroup's. after is called when it has committed.
	before, after func(g *group) error
}

func newFakeDB() *fakeDB { return &fakeDB{applied: make(map[int64]int64)} }

func (d *fakeDB) applyGroup(_ context.Context, g *group) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.before != nil {
		if err := d.before(g); err != nil {
			return err
		}
	}
	if want := d.applied[g.journalID] + int64(len(g.ops)); g.applied != want {
		return fmt.Errorf("group of %d ops up to position %d of journal %d, but the database is at %d", len(g.ops), g.applied, g.journalID, d.applied[g.journalID])
	}
	d.ops = append(d.ops, g.ops...)
	d.groups = append(d.groups, len(g.ops))
	d.applied[g.journalID] = g.applied
	if d.after != nil {
		return d.after(g)
	}
	return nil
}

func (d *fakeDB) journalApplied(context.Context) (map[int64]int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make(map[int64]int64)
	for k, v := range d.applied {
		out[k] = v
	}
	return out, nil
}

func (d *fakeDB) commitDurably(context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.durable = len(d.ops)
	return nil
}

func (d *fakeDB) compact(context.Context) error { return nil }
func (d *fakeDB) rest(context.Context) error    { return nil }

// seqs are the seqs of the ops in the database.
func (d *fakeDB) seqs() []Seq {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []Seq
	for _, op := range d.ops {
		out = append(out, op.Seq)
	}
	return out
}

// fakeContents counts what is pending.
type fakeContents struct {
	mu       sync.Mutex
	pending  int
	restaged int
	syncs    int
	settle   func() error
	sync     func() error
	verify   func(blob.Location) error
}

func (c *fakeContents) Settle(_ context.Context, items []blob.Staged) ([]blob.Location, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.settle != nil {
		if err := c.settle(); err != nil {
			return nil, err
		}
	}
	var locs []blob.Location
	for _, it := range items {
		locs = append(locs, blob.Location{Ref: it.Content.Ref, Size: it.Content.Size, Data: it.Small})
	}
	return locs, nil
}

func (c *fakeContents) Settled(x blob.Content) (blob.Content, bool) { return x, false }

func (c *fakeContents) Applied(items []blob.Staged) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending -= len(items)
}

func (c *fakeContents) Restage(blob.Staged) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending++
	c.restaged++
}

func (c *fakeContents) Verify(_ context.Context, loc blob.Location) error {
	if c.verify != nil {
		return c.verify(loc)
	}
	return nil
}

func (c *fakeContents) Sync() error {
	c.mu.Lock()
	c.syncs++
	hook := c.sync
	c.mu.Unlock()
	if hook != nil {
		return hook()
	}
	return nil
}

// testPipe is a write path over fakes. It can be stopped cleanly, or left as a kill -9 leaves it.
type testPipe struct {
	*pipeline
	t   testing.TB
	dir string
	db  *fakeDB
	cs  *fakeContents
	brk *breaker
	log *bytes.Buffer
}

func quick() pipelineOptions {
	return pipelineOptions{groupDelay: time.Millisecond, segment: 64 << 10, retry: 10 * time.Millisecond}
}

// never are options with which nothing is applied.
func never() pipelineOptions {
	return pipelineOptions{groupDelay: time.Hour, groupOps: 1 << 30, segment: 64 << 10}
}

func startPipe(t testing.TB, dir string, db *fakeDB, o pipelineOptions) *testPipe {
	t.Helper()
	p, err := tryPipe(t, dir, db, o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return p
}

func tryPipe(t testing.TB, dir string, db *fakeDB, o pipelineOptions) (*testPipe, error) {
	tp := &testPipe{t: t, dir: dir, db: db, cs: &fakeContents{}, log: &bytes.Buffer{}}
	if o.log == nil {
		o.log = slog.New(slog.NewTextHandler(&lockedWriter{w: tp.log}, nil))
	}
	tp.brk = newBreaker(nil)
	p, err := openPipeline(context.Background(), dir, db, tp.cs, tp.brk, o)
	tp.pipeline = p
	if err == nil {
		t.Cleanup(func() { // before the directory goes
			_ = tp.brk.trip(errors.New("test is over"))
			<-p.done
			p.j.endPreparers()
		})
	}
	return tp, err
}

// stopClean ends the write path as Close does.
func (p *testPipe) stopClean() {
	p.t.Helper()
	if err := p.stop(); err != nil {
		p.t.Fatalf("stop: %v", err)
	}
	if err := p.close(context.Background(), true); err != nil {
		p.t.Fatalf("close: %v", err)
	}
	if es, _ := os.ReadDir(p.dir); len(es) != 0 {
		p.t.Fatalf("journal left after a clean stop: %v", es)
	}
	if p.cs.pending != 0 {
		p.t.Fatalf("%d contents pending after a clean stop", p.cs.pending)
	}
}

// abandon stops the applier where it is, without letting it write or delete anything more, and leaves the files.
func (p *testPipe) abandon() {
	_ = p.brk.trip(errors.New("abandoned"))
	<-p.done
	p.j.endPreparers()
	for _, s := range p.j.segs {
		_ = s.f.Close()
	}
}

// put appends op number n with size bytes of content.
func (p *testPipe) put(n int64, size int) (Slot, error) {
	op := numbered(n, size)
	p.cs.mu.Lock()
	p.cs.pending += len(op.Contents)
	p.cs.mu.Unlock()
	slot, err := p.append(op)
	if err != nil {
		p.cs.Applied(op.Contents)
	}
	return slot, err
}

// putPacked appends op number n with content in a pack.
func (p *testPipe) putPacked(n int64) Slot {
	op := numbered(n, 0)
	op.Contents = []blob.Staged{{Content: blob.Content{Size: 1 << 20}, Packed: []blob.Location{{Pack: 1}}}}
	p.cs.mu.Lock()
	p.cs.pending++
	p.cs.mu.Unlock()
	slot, err := p.append(op)
	if err != nil {
		p.t.Errorf("append %d: %v", n, err)
	}
	return slot
}

func (p *testPipe) mustPut(n int64, size int) Slot {
	p.t.Helper()
	slot, err := p.put(n, size)
	if err != nil {
		p.t.Fatalf("append %d: %v", n, err)
	}
	return slot
}

func (p *testPipe) mustWait(slot Slot) {
	p.t.Helper()
	if err := p.wait(slot); err != nil {
		p.t.Fatalf("wait for %d: %v", slot, err)
	}
}

// numbered is an op that can be told from every other one.
func numbered(n int64, size int) *Op {
	op := &Op{Kind: OpWrite, Timeline: 1, Workspace: 1, Seq: Seq(n), At: n, Names: []Name{{Parent: 1, Name: fmt.Sprint("f", n), Ino: Ino(n)}}}
	if size > 0 {
		data := bytes.Repeat([]byte{byte(n), byte(n >> 8), 0xff}, size/3+1)[:size]
		op.Contents = []blob.Staged{{Content: blob.Content{Ref: blob.Ref{byte(n)}, Size: int64(size)}, Small: data}}
	}
	return op
}

func wantSeqs(t testing.TB, db *fakeDB, n int) {
	t.Helper()
	got := db.seqs()
	if len(got) != n {
		t.Fatalf("%d ops in the database, want %d", len(got), n)
	}
	for i, s := range got {
		if s != Seq(i+1) {
			t.Fatalf("op %d in the database has number %d", i+1, s)
		}
	}
}

type lockedWriter struct {
	mu sync.Mutex
	w  *bytes.Buffer
}

func (l *lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

var errFull = fmt.Errorf("fake: %w", syscall.ENOSPC)

func crcOf(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }
