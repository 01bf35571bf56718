package store_test

import (
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// disk is a file system in memory, mounted, that knows of each file what was synced and what was only written. cut is a
// power cut: each file loses some of what was not synced, on its own, and each directory some of its last names. It is
// harsher than a real one, where much of that is ordered. Nobody in the process that serves it may touch it.
type disk struct {
	fuse.RawFileSystem
	dir    string
	server *fuse.Server

	mu    sync.Mutex
	nodes []*dnode // by id, guarded by mu as all in them
	watch *watch   // nil: nobody watches
}

type dnode struct {
	id        uint64
	mode      uint32
	data      []byte // as it reads
	safe      []byte // as it was synced last
	pending   []dwrite
	names     map[string]*dnode // of a directory: as it reads, as it was synced, and the changes between
	safeNames map[string]*dnode
	changes   []dname
	frozen    bool // a moment has safe: it is not to be changed
	events    bool // what is written to it is not stored, but what the child tells
}

// dwrite is a write, or a new length if data is nil.
type dwrite struct {
	off  int64
	data []byte
}

type dname struct {
	name string
	node *dnode // nil: gone
}

// newDisk mounts a disk with a directory store that holds what from holds, and a file events. Where that cannot be, the
// test is skipped.
func newDisk(t *testing.T, from string) *disk {
	t.Helper()
	d := &disk{RawFileSystem: fuse.NewDefaultRawFileSystem(), dir: t.TempDir()}
	d.nodes = append(d.nodes, nil)
	root := d.node(syscall.S_IFDIR | 0o755)
	root.names["store"] = d.node(syscall.S_IFDIR | 0o755)
	root.names["events"] = d.node(syscall.S_IFREG | 0o600)
	root.names["events"].events = true
	d.load(t, root.names["store"], from)
	var err error
	if d.server, err = fuse.NewServer(d, d.dir, &fuse.MountOptions{DirectMount: true, Name: "killdisk", MaxWrite: 1 << 17, DisableReadDirPlus: true}); err != nil {
		t.Skipf("needs to mount a file system: %v", err)
	}
	go d.server.Serve()
	if err := d.server.WaitMount(); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *disk) node(mode uint32) *dnode {
	n := &dnode{id: uint64(len(d.nodes)), mode: mode}
	if mode&syscall.S_IFDIR != 0 {
		n.names, n.safeNames = map[string]*dnode{}, map[string]*dnode{}
	}
	d.nodes = append(d.nodes, n)
	return n
}

func (d *disk) load(t *testing.T, n *dnode, from string) {
	t.Helper()
	list, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if e.Type()&os.ModeSocket != 0 {
			continue
		}
		c := d.node(syscall.S_IFREG | 0o600)
		if e.IsDir() {
			c.mode = syscall.S_IFDIR | 0o700
			c.names, c.safeNames = map[string]*dnode{}, map[string]*dnode{}
			d.load(t, c, filepath.Join(from, e.Name()))
		} else if c.data, err = os.ReadFile(filepath.Join(from, e.Name())); err != nil {
			t.Fatal(err)
		}
		c.safe = append([]byte(nil), c.data...)
		n.names[e.Name()], n.safeNames[e.Name()] = c, c
	}
}

func (d *disk) store() string { return filepath.Join(d.dir, "store") }

// cut ends the disk and writes what is left of the store to a new directory.
func (d *disk) cut(t *testing.T, r *rand.Rand) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "store")
	deadline := time.Now().Add(30 * time.Second)
	err := d.server.Unmount()
	for err != nil && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
		err = d.server.Unmount()
	}
	if err != nil {
		t.Fatalf("unmount %s: %v", d.dir, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.nodes[1].names["store"].cut(t, to, r)
	return to
}

// cut writes what is left of n after a power cut.
func (n *dnode) cut(t *testing.T, to string, r *rand.Rand) {
	t.Helper()
	if n.safeNames == nil {
		if err := os.WriteFile(to, n.left(r), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		t.Fatal(err)
	}
	names := maps.Clone(n.safeNames)
	for _, c := range n.changes[:r.IntN(len(n.changes)+1)] {
		if c.node == nil {
			delete(names, c.name)
		} else {
			names[c.name] = c.node
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if name != "wsfs.db-shm" { // memory that processes share
			names[name].cut(t, filepath.Join(to, name), r)
		}
	}
}

// left is what a file holds after a power cut.
func (n *dnode) left(r *rand.Rand) []byte {
	b := append([]byte(nil), n.safe...)
	if len(n.pending) == 0 {
		return b
	}
	put := func(off int64, data []byte) {
		if end := off + int64(len(data)); end > int64(len(b)) {
			b = append(b, make([]byte, end-int64(len(b)))...)
		}
		copy(b[off:], data)
	}
	resize := func(n int64) { b = append(b, make([]byte, max(0, n-int64(len(b))))...)[:n] }
	// What a disk writes at once: sectors, or less, which no disk is known to do, but nothing here may rely on that.
	grain := []int64{512, 512, 512, 7, 100}[r.IntN(5)]
	upTo, share := len(n.pending), 1.0
	switch r.IntN(5) {
	case 0: // nothing
		upTo = 0
	case 1: // up to the middle of a write
		upTo = r.IntN(len(n.pending) + 1)
	case 2, 3: // any pieces
		share = []float64{0.1, 0.5, 0.9}[r.IntN(3)]
	}
	for i, w := range n.pending[:upTo] {
		if w.data == nil {
			if r.Float64() < share {
				resize(w.off)
			}
			continue
		}
		end := int64(len(w.data))
		if share == 1 && i == upTo-1 && r.IntN(2) == 0 {
			if end = int64(r.IntN(int(end) + 1)); grain == 512 {
				end = max(0, (w.off+end)/grain*grain-w.off)
			}
		}
		for at := int64(0); at < end; {
			next := min(end, (w.off+at)/grain*grain+grain-w.off)
			if r.Float64() < share {
				put(w.off+at, w.data[at:next])
			}
			at = next
		}
	}
	if short := len(b) - len(n.safe); short > 0 && r.IntN(4) == 0 {
		b = b[:len(n.safe)+r.IntN(short)]
	}
	return b
}
