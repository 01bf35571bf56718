package fs

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"wsfs/blob"
	"wsfs/store"
)

// Progress says how far an import is. Total is 0 while the tree is still being looked at.
type Progress struct {
	Phase               string // "scan", "read" or "store"
	Files, Total, Bytes int64
}

// ImportResult counts what an import changed; Seq is 0 if nothing.
type ImportResult struct {
	Added, Changed, Removed, Unchanged int64
	Bytes                              int64 // read from the directory
	Seq                                store.Seq
	Skipped                            []string // what a workspace cannot hold, with the reason
	// At is the point at which the workspace has what was imported; no version of it is amended any more. Timeline is 0 if that is
	// not all of the directory.
	At store.Segment
}

type hostID struct{ dev, ino uint64 }

// importer makes the workspace's tree equal to a host directory as one change with only the differences. A file whose
// size, mtime, mode and owner are those of the last version is not read again, as git's index does it.
type importer struct {
	f     *FS
	ch    *change
	res   ImportResult
	links map[hostID]*node // hard links: the inode that a host inode became
	made  map[store.Ino]*node
	taken map[*node]bool  // existing inodes that a host inode has claimed
	freed map[*node]int64 // names that existing inodes lost
	fresh map[*node]int64 // names that inodes gained
	order []*node         // keys of freed and fresh, so that the op does not depend on map order
	o     ImportOptions
	pairs []pair // for o.Each
	err   error  // nothing is to be committed
}

type pair struct {
	h *hostFile
	n *node
}

// ImportOptions narrow an import. The zero value takes everything.
type ImportOptions struct {
	Skip []string // paths below the directory that must not be entered
	// Only are the paths, relative to the directory, that may change; nil: all. Their files are read whatever their times
	// say, and a directory that is to go stays if something remains in it.
	Only map[string]bool
	// Merge are files in Only that do not become what they are in the directory. They have one name.
	Merge map[string]*ImportMerge
	// Each is called after the import for every entry of the directory, with the version that the workspace has of it. v
	// must not be kept.
	Each func(path string, st *syscall.Stat_t, v *store.Version)
}

func (o *ImportOptions) takes(h *hostFile) bool { return o.Only == nil || o.Only[h.path()] }

// Import makes the workspace equal to dir. mounts are paths below dir that must not be entered.
func (f *FS) Import(ctx context.Context, dir string, who store.Attribution, skip []string, progress func(Progress)) (ImportResult, error) {
	return f.ImportWith(ctx, dir, who, ImportOptions{Skip: skip}, progress)
}

// ImportWith is Import with options.
func (f *FS) ImportWith(ctx context.Context, dir string, who store.Attribution, o ImportOptions, progress func(Progress)) (ImportResult, error) {
	if err := f.writable("import", dir); err != nil {
		return ImportResult{}, err
	}
	if progress == nil {
		progress = func(Progress) {}
	}
	dir = filepath.Clean(dir)
	skipSet := map[string]bool{f.st.Dir(): true}
	for _, p := range o.Skip {
		skipSet[filepath.Clean(p)] = true
	}
	if skipSet[dir] {
		return ImportResult{}, fmt.Errorf("import %s: it is a mount of this store or the store itself: %w", dir, syscall.EINVAL)
	}
	top, s, err := scanTree(dir, skipSet, func(n int64) { progress(Progress{Phase: "scan", Files: n}) })
	if err != nil {
		return ImportResult{}, err
	}
	defer s.dirs.close()
	if err := f.cutDirty(func(*node) bool { return true }); err != nil {
		return ImportResult{}, err
	}
	if err := f.settleAll(ctx); err != nil {
		return ImportResult{}, err
	}
	f.mu.Lock()
	moves := f.moves
	f.mu.Unlock()
	pinned, err := f.loadAll(ctx)
	defer f.unpin(pinned)
	if err != nil {
		return ImportResult{}, err
	}
	f.mu.Lock()
	files := f.toRead(top, f.nodeOf(store.RootIno), &o, map[hostID]bool{}, nil)
	f.mu.Unlock()
	err = f.readAll(ctx, s, files, func(n, b int64) {
		progress(Progress{Phase: "read", Files: n, Total: int64(len(files)), Bytes: b})
	})
	im := &importer{
		f: f, links: map[hostID]*node{}, made: map[store.Ino]*node{}, taken: map[*node]bool{},
		freed: map[*node]int64{}, fresh: map[*node]int64{}, o: o,
	}
	var staged []blob.Staged
	for _, h := range files {
		for _, st := range []blob.Staged{h.staged, h.theirs} {
			if st.Content.Size > 0 { // also what the store has already: a collection waits until it is applied
				staged = append(staged, st)
			}
		}
		im.res.Bytes += h.st.Size
	}
	if err != nil {
		f.blobs.Applied(staged)
		return ImportResult{}, err
	}
	f.st.Fault("import read")
	progress(Progress{Phase: "store", Files: int64(len(files)), Total: int64(len(files)), Bytes: im.res.Bytes})
	im.res.Skipped = s.skipped
	f.enter(nil)
	defer f.leave()
	f.mu.Lock()
	if moves != f.moves {
		f.mu.Unlock()
		f.blobs.Applied(staged)
		return ImportResult{}, fmt.Errorf("import %s: workspace %q was rolled back meanwhile; import again: %w", dir, f.ws.Name, syscall.EAGAIN)
	}
	slot, err := im.apply(top, who, staged)
	if err == nil {
		for _, p := range im.pairs {
			v := p.n.v
			o.Each(p.h.path(), &p.h.st, &v)
		}
		if o.Only == nil && f.ws.Timeline != 0 {
			f.pinned = f.seq
			im.res.At = store.Segment{Timeline: f.ws.Timeline, Cut: f.seq}
		}
	}
	f.mu.Unlock()
	if err != nil || im.res.Seq == 0 {
		f.blobs.Applied(staged)
		return im.res, err
	}
	f.st.Fault("import appended")
	err = f.finish(nil, slot, nil)
	f.st.Fault("imported")
	return im.res, err
}

// loadAll loads every directory of the tree, several at a time, and keeps them from being dropped.
func (f *FS) loadAll(ctx context.Context) (pinned []*node, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.loads++ // nothing is dropped from memory until unpin
	// All guarded by FS.mu, which directory releases while it reads.
	todo := []store.Ino{store.RootIno}
	busy := 0
	more := sync.NewCond(&f.mu)
	work := func() {
		for {
			for len(todo) == 0 && busy > 0 && err == nil {
				more.Wait()
			}
			if err == nil {
				err = ctx.Err()
			}
			if len(todo) == 0 || err != nil {
				return
			}
			ino := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			busy++
			n, lerr := f.inode(nil, ino)
			if lerr == nil {
				n, lerr = f.directory(nil, n.id)
			}
			busy--
			if lerr == nil {
				n.dir.opens++
				n.opens++
				pinned = append(pinned, n)
				busy++
				lerr = f.allAttributes(nil, n)
				busy--
			}
			if lerr == nil {
				for e := range n.dir.entries() {
					if e.typ == syscall.S_IFDIR {
						todo = append(todo, e.ino)
					}
				}
			} else if err == nil {
				err = lerr
			}
			more.Broadcast()
		}
	}
	left := runtime.GOMAXPROCS(0)
	for range left - 1 {
		go func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			work()
			left--
			more.Broadcast()
		}()
	}
	work()
	for left--; left > 0; {
		more.Wait()
	}
	return pinned, err
}

func (f *FS) unpin(pinned []*node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.loads--
	for _, n := range pinned {
		n.dir.opens--
		n.opens--
		f.dropOrphan(n)
	}
}

// toRead lists the files whose content has to be read, each host inode once. FS.mu is held.
func (f *FS) toRead(h *hostFile, n *node, o *ImportOptions, seen map[hostID]bool, list []*hostFile) []*hostFile {
	for _, child := range h.children {
		have := f.childNode(n, child.name)
		if child.isDir() {
			child.mergeWith(o.Merge[child.path()])
			list = f.toRead(child, have, o, seen, list)
			continue
		}
		if child.st.Mode&syscall.S_IFMT != syscall.S_IFREG || !o.takes(child) || o.Only == nil && have != nil && sameFile(child, have) {
			continue
		}
		child.mergeWith(o.Merge[child.path()])
		if child.st.Nlink > 1 {
			id := hostID{child.st.Dev, child.st.Ino}
			if seen[id] {
				continue
			}
			seen[id] = true
		}
		list = append(list, child)
	}
	return list
}

// childNode is the node of a name in a loaded directory, nil if n is none or has no such name. FS.mu is held.
func (f *FS) childNode(n *node, name string) *node {
	if n == nil || n.dir == nil {
		return nil
	}
	if e := n.dir.get(name); e != nil {
		if child := f.nodeOf(e.ino); child != nil {
			return child
		}
		child, err := f.inode(nil, e.ino)
		if err == nil {
			return child
		}
	}
	return nil
}

func sameFile(h *hostFile, n *node) bool {
	return h.st.Mode == n.v.Mode && h.st.Size == n.v.Size && h.st.Mtim.Nano() == n.v.Mtime && sameOwner(h, n)
}

func sameOwner(h *hostFile, n *node) bool { return h.st.Uid == n.v.UID && h.st.Gid == n.v.GID }

// apply builds the one op. FS.mu is held throughout: the directories are loaded and pinned.
func (im *importer) apply(top *hostFile, who store.Attribution, staged []blob.Staged) (store.Slot, error) {
	im.ch = im.f.begin(nil, store.OpImport, who)
	root := im.f.nodeOf(store.RootIno)
	if o := &im.o; o.takes(top) {
		im.attributes(top, root)
	}
	im.dir(top, root)
	for _, n := range im.order {
		delta := im.fresh[n] - im.freed[n]
		if delta == 0 {
			continue
		}
		v := im.ch.version(n)
		v.Ctime = im.ch.now
		if n.isDir() {
			if v.Nlink = 2; delta < 0 {
				v.Nlink = 0
			}
			continue
		}
		v.Nlink = uint32(int64(v.Nlink) + delta)
	}
	im.subdirs()
	if im.err != nil {
		return 0, im.err
	}
	if len(im.ch.op.Versions) == 0 {
		return 0, nil
	}
	im.ch.op.Contents = staged
	slot, err := im.ch.commit()
	if err == nil {
		im.res.Seq = im.ch.op.Seq
	}
	return slot, err
}

// subdirs sets the link counts of directories whose subdirectories changed.
func (im *importer) subdirs() {
	count := map[store.Ino]int64{}
	for i := range im.ch.op.Names {
		nm := &im.ch.op.Names[i]
		if old := im.byIno(nm.Parent).dir.get(nm.Name); old != nil && old.typ == syscall.S_IFDIR {
			count[nm.Parent]--
		}
		if nm.Ino != 0 && nm.Type == syscall.S_IFDIR {
			count[nm.Parent]++
		}
	}
	for _, ino := range slices.Sorted(maps.Keys(count)) {
		if count[ino] == 0 {
			continue
		}
		v := im.ch.version(im.byIno(ino))
		if v.Nlink > 0 {
			v.Nlink = uint32(int64(v.Nlink) + count[ino])
		}
	}
}

func (im *importer) byIno(ino store.Ino) *node {
	if n := im.made[ino]; n != nil {
		return n
	}
	return im.f.nodeOf(ino)
}

// dir brings one directory and everything below it to the host's state.
func (im *importer) dir(h *hostFile, n *node) {
	seen := map[string]bool{}
	for _, child := range h.children {
		seen[child.name] = true
		im.entry(child, n)
	}
	for _, name := range n.dir.names() {
		switch {
		case seen[name]:
		case im.o.Only != nil:
			im.removeTaken(n, name, im.f.childNode(n, name), filepath.Join(h.path(), name))
		default:
			im.removeTree(n, name, im.f.childNode(n, name))
		}
	}
}

func (im *importer) entry(h *hostFile, p *node) {
	have := im.f.childNode(p, h.name)
	if !im.o.takes(h) {
		if have != nil && im.o.Each != nil {
			im.pairs = append(im.pairs, pair{h, have})
		}
		if h.isDir() && have != nil && have.isDir() {
			im.dir(h, have)
		}
		return
	}
	if err := im.current(h, have); err != nil && im.err == nil {
		im.err = err
	}
	want := im.claim(h, have)
	if im.o.Each != nil {
		im.pairs = append(im.pairs, pair{h, want})
	}
	isNew := want.v.ID == 0
	if have != want {
		var last store.VersionID
		if have != nil {
			last = have.v.ID
			im.lose(p, h.name, have)
		}
		im.ch.bind(p, h.name, want)
		im.gain(want)
		kind := createKind(h.st.Mode)
		if !isNew || im.fresh[want] > 1 {
			kind = store.OpLink
		}
		im.ch.item(kind, want, p, h.name)
		if have != nil { // or nobody who looks for what a change touched finds it
			im.ch.item(dropKind(have), have, p, h.name)
		}
		if isNew && want.replaced == 0 {
			if last == 0 {
				last = p.dir.ghosts[h.name]
			}
			im.ch.version(want).Replaced = last
		}
		im.res.Added++
	}
	if isNew && im.fresh[want] == 1 {
		im.fill(h, want, have)
	} else if !isNew && have == want {
		im.update(h, p, want)
	}
	if h.isDir() {
		im.dir(h, want)
	}
}

// claim finds the inode that a host file is: the one its hard link became, the one at its name, or a new one.
func (im *importer) claim(h *hostFile, have *node) *node {
	id := hostID{h.st.Dev, h.st.Ino}
	linked := !h.isDir() && h.st.Nlink > 1
	if linked {
		if n := im.links[id]; n != nil {
			return n
		}
	}
	n := have
	if n == nil || im.taken[n] || n.v.Mode&syscall.S_IFMT != h.st.Mode&syscall.S_IFMT || !linked && !n.isDir() && n.v.Nlink > 1 {
		n = newNode(store.Version{Ino: im.f.st.NewIno(), Mode: h.st.Mode, Ctime: im.ch.now})
		if h.isDir() {
			n.dir = newDir()
		}
		im.made[n.v.Ino] = n
	}
	im.taken[n] = true
	if linked {
		im.links[id] = n
	}
	return n
}

// fill gives a new inode the host's attributes and content. Content that was not read is that of the file it replaces.
func (im *importer) fill(h *hostFile, n, have *node) {
	v := im.ch.version(n)
	hostVersion(h, v)
	im.content(h, v)
	if !h.read && have != nil && have.isReg() && sameFile(h, have) {
		v.Content, v.Size, v.Holes = have.v.Content, have.v.Size, have.v.Holes
	}
}

func (im *importer) content(h *hostFile, v *store.Version) {
	switch h.st.Mode & syscall.S_IFMT {
	case syscall.S_IFREG:
		v.Content, v.Size, v.Holes = h.staged.Content.Ref, h.staged.Content.Size, 0
		if h.st.Blocks*512 < h.st.Size {
			v.Holes = h.st.Size - h.st.Blocks*512
		}
	case syscall.S_IFLNK:
		v.Target, v.Size = h.target, int64(len(h.target))
	case syscall.S_IFCHR, syscall.S_IFBLK:
		v.Rdev = store.Rdev(unix.Major(h.st.Rdev), unix.Minor(h.st.Rdev))
	}
}

// update records what differs between the host and an inode that stays.
func (im *importer) update(h *hostFile, p, n *node) {
	regular := h.st.Mode&syscall.S_IFMT == syscall.S_IFREG
	bytesDiffer := regular && h.read && h.staged.Content != (blob.Content{Ref: n.v.Content, Size: n.v.Size}) ||
		h.target != n.v.Target
	if !bytesDiffer && !im.differs(h, n) {
		im.res.Unchanged++
		return
	}
	im.attributes(h, n)
	kind := store.OpSetattr
	if bytesDiffer {
		kind = store.OpWrite
		im.content(h, im.ch.version(n))
	}
	im.ch.item(kind, n, p, h.name)
	im.res.Changed++
}

func (im *importer) differs(h *hostFile, n *node) bool {
	return h.st.Mode != n.v.Mode || h.st.Mtim.Nano() != n.v.Mtime || !sameOwner(h, n) ||
		!maps.EqualFunc(h.xattrs, n.v.Xattrs, bytes.Equal)
}

func (im *importer) attributes(h *hostFile, n *node) {
	if !im.differs(h, n) {
		return
	}
	v := im.ch.version(n)
	hostVersion(h, v)
	v.Ctime = im.ch.now
}

func (im *importer) gain(n *node) {
	im.note(n)
	im.fresh[n]++
}

func (im *importer) note(n *node) {
	if im.fresh[n] == 0 && im.freed[n] == 0 {
		im.order = append(im.order, n)
	}
}

// lose takes a name from an inode that something else replaces there; a directory goes with all it holds.
func (im *importer) lose(p *node, name string, n *node) {
	if n.isDir() {
		im.emptyDir(n)
	}
	im.note(n)
	im.freed[n]++
}

func (im *importer) removeTree(p *node, name string, n *node) {
	if n == nil || n.fresh { // made by a live session just now and not closed: not this import's to remove
		return
	}
	im.lose(p, name, n)
	im.ch.unbind(p, name)
	kind := store.OpUnlink
	if n.isDir() {
		kind = store.OpRmdir
	}
	im.ch.item(kind, n, p, name)
	im.res.Removed++
}

// removeTaken is removeTree for what Only names, and reports whether the name is gone.
func (im *importer) removeTaken(p *node, name string, n *node, path string) bool {
	if n == nil || n.fresh {
		return n == nil
	}
	whole := im.o.Only[path]
	if n.isDir() {
		for _, child := range n.dir.names() {
			if !im.removeTaken(n, child, im.f.childNode(n, child), filepath.Join(path, child)) {
				whole = false
			}
		}
	}
	if !whole {
		return false
	}
	im.note(n)
	im.freed[n]++
	im.ch.unbind(p, name)
	kind := store.OpUnlink
	if n.isDir() {
		kind = store.OpRmdir
	}
	im.ch.item(kind, n, p, name)
	im.res.Removed++
	return true
}

func (im *importer) emptyDir(n *node) {
	for _, name := range n.dir.names() {
		im.removeTree(n, name, im.f.childNode(n, name))
	}
}

func createKind(mode uint32) store.OpKind {
	switch mode & syscall.S_IFMT {
	case syscall.S_IFDIR:
		return store.OpMkdir
	case syscall.S_IFLNK:
		return store.OpSymlink
	case syscall.S_IFREG:
		return store.OpCreate
	}
	return store.OpMknod
}
