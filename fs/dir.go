package fs

import (
	"iter"
	"slices"
	"sort"
	"syscall"

	"wsfs/store"
)

// dir is a loaded directory. Entries have cookies that rise in the order of their making, so a position in a listing
// means the same whatever is created or removed meanwhile. Guarded by FS.mu.
type dir struct {
	order  []dentry // by cookie; removed entries stay as dead until compaction
	index  []uint32 // places in order and one, by the hash of the name (dirindex.go); nil while there are few
	live   int      // entries that are not dead
	used   int      // slots of index that are not free
	next   uint64   // cookie of the next entry
	opens  int      // open listings: while there are any, cookies must stay
	fresh  int      // entries of files that are in no op yet
	ghosts map[string]store.VersionID
	cold   coldFiles
	unused bool   // loaded, and nobody has asked for it yet
	walked uint64 // cookie of the directory in it that somebody asked for last; 0: none
	asked  uint64 // behind the cookie of the last entry whose attributes were read (attrs.go); 0: none were
	asks   int    // and of how many that was
	filled bool   // all are being read, or were
}

// dentry is one name.
type dentry struct {
	name   string
	ino    store.Ino // 0: removed
	cookie uint64
	typ    uint32 // S_IFMT
	cold   int32  // place and one of what is known of the inode in dir.cold; 0: it is not there
}

func (e *dentry) dead() bool { return e.ino == 0 }

const (
	cookieDot    = 1
	cookieDotDot = 2
	firstCookie  = 3
	maxGhosts    = 4096
)

func newDir() *dir { return &dir{next: firstCookie} }

// get is the entry of a name, nil if there is none. It is good until the directory changes.
func (d *dir) get(name string) *dentry {
	if i := d.find(name); i >= 0 {
		return &d.order[i]
	}
	return nil
}

// entries are those that are there, in the order of their making. The directory must not gain or lose any meanwhile.
func (d *dir) entries() iter.Seq[*dentry] {
	return func(yield func(*dentry) bool) {
		for i := range d.order {
			if e := &d.order[i]; !e.dead() && !yield(e) {
				return
			}
		}
	}
}

// names are all names in byte order.
func (d *dir) names() []string {
	list := make([]string, 0, d.live)
	for e := range d.entries() {
		list = append(list, e.name)
	}
	slices.Sort(list)
	return list
}

// set makes name lead to ino. A name that exists keeps its place in listings: a reader sees a replaced file once.
func (d *dir) set(name string, ino store.Ino, typ uint32) {
	if e := d.get(name); e != nil {
		if e.ino != ino {
			d.thaw(e)
		}
		e.ino, e.typ = ino, typ
		return
	}
	d.order = append(d.order, dentry{name: name, ino: ino, typ: typ, cookie: d.next})
	d.next++
	d.live++
	d.indexed()
}

func (d *dir) remove(name string) {
	at := d.find(name)
	if at < 0 {
		return
	}
	d.thaw(&d.order[at])
	d.unindex(at)
	d.order[at].ino, d.order[at].name = 0, ""
	d.live--
	if len(d.order) > 64 && len(d.order) > 2*d.live {
		d.compact()
	}
}

// compact drops dead entries.
func (d *dir) compact() {
	live := make([]dentry, 0, d.live+d.live/4+1)
	for e := range d.entries() {
		if e.cold != 0 {
			d.cold.list[e.cold-1].entry = int32(len(live))
		}
		live = append(live, *e)
	}
	d.order = live
	d.reindex()
}

// remember keeps the last version of what a name held, for the file that takes the name next.
func (d *dir) remember(name string, id store.VersionID) {
	if d.ghosts == nil || len(d.ghosts) >= maxGhosts {
		d.ghosts = map[string]store.VersionID{}
	}
	d.ghosts[name] = id
}

// after is the index in order of the first entry behind the position.
func (d *dir) after(off uint64) int {
	return sort.Search(len(d.order), func(i int) bool { return d.order[i].cookie > off })
}

// Dir is an open listing.
type Dir struct {
	f *FS
	n *node
	// end is the cookie at which the listing ends: what is made after it began does not come, or `for each name: mv it
	// aside` would find its own names for ever. Guarded by FS.mu.
	end uint64
	resumed
}

// OpenDir opens a listing of directory ino.
func (f *FS) OpenDir(c *Call, ino store.Ino) (*Dir, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.directory(c, ino)
	if err != nil {
		return nil, err
	}
	f.readsListing(n)
	return f.listing(n), nil
}

// listing opens a loaded directory. FS.mu is held.
func (f *FS) listing(n *node) *Dir {
	n.opens++
	n.dir.opens++
	f.fill(n)
	return &Dir{f: f, n: n, end: n.dir.next}
}

// Ino is the directory's inode.
func (d *Dir) Ino() store.Ino { return d.n.v.Ino }

// Close ends the listing.
func (d *Dir) Close() {
	d.f.mu.Lock()
	defer d.f.mu.Unlock()
	d.n.opens--
	d.n.dir.opens--
	d.noteClosed()
	d.f.dropOrphan(d.n)
}

// Read calls fn for every entry after position off, "." and ".." first, until fn returns false. fn runs under the
// lock of the tree: it must only copy.
func (d *Dir) Read(c *Call, off uint64, fn func(e DirEntry) bool) error {
	return d.read(c, off, func(e DirEntry, _ *Attr) bool { return fn(e) }, false)
}

// ReadPlus is Read with attributes; a is nil for "." and "..". Every other entry that fn took counts as looked up once.
func (d *Dir) ReadPlus(c *Call, off uint64, fn func(e DirEntry, a *Attr) bool) error {
	return d.read(c, off, fn, true)
}

func (d *Dir) read(c *Call, off uint64, fn func(e DirEntry, a *Attr) bool, lookup bool) error {
	f := d.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if d.n.gone {
		return nil
	}
	began := off < cookieDot
	if began {
		d.end = d.n.dir.next // the beginning, perhaps again: rewinddir(3) shows what is new
	}
	off, ended := d.resume(off)
	if ended {
		return nil
	}
	from := off
	if off < cookieDot && !fn(DirEntry{Name: ".", Ino: d.n.v.Ino, Type: syscall.S_IFDIR, Cookie: cookieDot}, nil) {
		return nil
	}
	if off < cookieDotDot {
		up := d.n.parent
		if up == 0 {
			up = store.RootIno
		}
		if !fn(DirEntry{Name: "..", Ino: up, Type: syscall.S_IFDIR, Cookie: cookieDotDot}, nil) {
			return nil
		}
		off = cookieDotDot
	}
	for {
		list := d.n.dir
		i := list.after(off)
		for i < len(list.order) && list.order[i].dead() {
			i++
		}
		for ; i < len(list.order) && list.order[i].cookie < d.end; i++ {
			e := &list.order[i]
			if e.dead() || d.shown(e.name) {
				continue
			}
			out := DirEntry{Name: e.name, Ino: e.ino, Type: e.typ, Cookie: e.cookie + d.base}
			if !lookup {
				if !fn(out, nil) {
					d.noteShown(from, e.cookie, began)
					return nil
				}
				continue
			}
			if r := list.coldOf(e); r != nil {
				a := r.attr(e.ino)
				if !fn(out, &a) {
					d.noteShown(from, e.cookie, began)
					return nil
				}
				list.cold.refer(r, 1)
				continue
			}
			child := f.nodeOf(e.ino)
			if child == nil {
				break // not read yet, or evicted: loading it releases the lock, so find the place again
			}
			child.found(d.n, e.name)
			a := child.attr()
			if !fn(out, &a) {
				d.noteShown(from, e.cookie, began)
				return nil
			}
			child.lookups++
		}
		if i >= len(list.order) || list.order[i].cookie >= d.end {
			d.noteShown(from, d.end, began)
			return nil
		}
		off = list.order[i].cookie - 1
		if err := f.attributes(c, d.n, i, attrsMore); err != nil {
			return err
		}
	}
}

// SyncDir returns when every change of the directory would survive a power loss.
func (f *FS) SyncDir(c *Call, _ store.Ino) error {
	if f.opts.ReadOnly {
		return nil
	}
	c.yield()
	return f.st.Sync(f.st.Last())
}
