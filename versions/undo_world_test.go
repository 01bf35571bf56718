package versions_test

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"syscall"
	"testing"
	"time"

	"wsfs/blob"
	"wsfs/fs"
	"wsfs/store"
	"wsfs/store/sqlite"
	"wsfs/versions"
)

// lab is a store with a live workspace whose callers are commands of named sessions.
type lab struct {
	t        testing.TB
	dir      string
	damaged  bool // the test broke the store: it is not checked
	st       *store.Store
	fs       *fs.FS
	sessions map[string]*store.Session
	who      store.Attribution
	clock    time.Time
	name     string // of the workspace
}

func newLab(t testing.TB, o store.Options) *lab {
	t.Helper()
	ctx := context.Background()
	dir := filepath.Join(t.TempDir(), "store")
	if err := store.Init(ctx, dir, sqlite.Driver()); err != nil {
		t.Fatal(err)
	}
	l := &lab{t: t, dir: dir, name: "w", sessions: map[string]*store.Session{}, clock: time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)}
	now := func() time.Time { l.clock = l.clock.Add(time.Second); return l.clock }
	if o.Now = now; o.GroupDelay == 0 {
		o.GroupDelay = time.Millisecond
	}
	var err error
	if l.st, err = store.Open(ctx, dir, sqlite.Driver(), o); err != nil {
		t.Fatal(err)
	}
	ws, err := fs.NewWorkspace(ctx, l.st, "w", "", store.Attribution{})
	if err == nil {
		l.fs, err = fs.Open(ctx, l.st, ws, fs.Options{Now: now})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.fs.Close(); err != nil {
			t.Error(err)
		}
		if err := l.st.Check(ctx, func(p store.Problem) {
			if !l.damaged {
				t.Error(p)
			}
		}); err != nil {
			t.Error(err)
		}
		if err := l.st.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// as begins a new command of a session.
func (l *lab) as(session string) store.CommandID {
	s := l.sessions[session]
	if s == nil {
		s = &store.Session{ID: l.st.NewSessionID(), Name: session, Workspace: l.fs.Workspace().ID, StartedAt: l.clock.UnixNano()}
		if session == "base" {
			s.Agent = store.AgentLogin
		}
		l.sessions[session] = s
	}
	p := &store.Process{ID: l.st.NewProcessID(), Session: s.ID, PID: 7, Comm: "sh"}
	c := &store.Command{ID: l.st.NewCommandID(), Session: s.ID, N: 1, Argv: "sh", StartedAt: l.clock.UnixNano()}
	l.who = store.Attribution{Session: s, Command: c, Process: p}
	return c.ID
}

func (l *lab) call() *fs.Call {
	who := l.who
	return &fs.Call{UID: 1, GID: 1, PID: 7, Who: func() store.Attribution { return who }}
}

func (l *lab) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) find(path string) (fs.Attr, error) {
	c := l.call()
	a, err := l.fs.GetAttr(c, store.RootIno, nil)
	for _, name := range strings.FieldsFunc(path, func(r rune) bool { return r == '/' }) {
		if err != nil {
			return a, err
		}
		if a, err = l.fs.Lookup(c, a.ID, name); err == nil {
			l.fs.Forget(a.ID, 1)
		}
	}
	return a, err
}

func (l *lab) at(path string) (store.Ino, string) {
	l.t.Helper()
	dir, name := filepath.Split(path)
	a, err := l.find(dir)
	l.must(err)
	return a.ID, name
}

// put writes a file as `> path` does, or `>> path`.
func (l *lab) put(path, text string, flags uint32) {
	l.t.Helper()
	c := l.call()
	dir, name := l.at(path)
	a, h, err := l.fs.Create(c, dir, name, 0o644, syscall.O_WRONLY|flags)
	l.must(err)
	if text != "" {
		off := int64(0)
		if flags&syscall.O_APPEND != 0 {
			off = a.Size
		}
		_, err = h.WriteAt(c, []byte(text), off, false)
		l.must(err)
	}
	l.must(h.Flush(c, 1))
	h.Release(c, 1)
	l.fs.Forget(a.ID, 1)
}

func (l *lab) write(path, text string)  { l.t.Helper(); l.put(path, text, syscall.O_TRUNC) }
func (l *lab) append(path, text string) { l.t.Helper(); l.put(path, text, syscall.O_APPEND) }

// save writes a temporary file and renames it into place.
func (l *lab) save(path, text string) {
	l.t.Helper()
	l.write(path+".tmp", text)
	l.rename(path+".tmp", path)
}

// backup saves as editors do that keep the old file aside meanwhile.
func (l *lab) backup(path, text string) {
	l.t.Helper()
	l.rename(path, path+"~")
	l.write(path, text)
	l.remove(path + "~")
}

func (l *lab) rename(from, to string) {
	l.t.Helper()
	d, n := l.at(from)
	e, m := l.at(to)
	l.must(l.fs.Rename(l.call(), d, n, e, m, 0))
}

func (l *lab) mkdir(path string) {
	l.t.Helper()
	d, n := l.at(path)
	a, err := l.fs.Mkdir(l.call(), d, n, 0o755)
	l.must(err)
	l.fs.Forget(a.ID, 1)
}

// remove is rm -r.
func (l *lab) remove(path string) {
	l.t.Helper()
	d, n := l.at(path)
	a, err := l.find(path)
	l.must(err)
	if a.Mode&syscall.S_IFMT != syscall.S_IFDIR {
		l.must(l.fs.Unlink(l.call(), d, n))
		return
	}
	for name := range l.tree() {
		if filepath.Dir(name) == path {
			l.remove(name)
		}
	}
	l.must(l.fs.Rmdir(l.call(), d, n))
}

func (l *lab) link(old, path string) {
	l.t.Helper()
	a, err := l.find(old)
	l.must(err)
	d, n := l.at(path)
	_, err = l.fs.Link(l.call(), a.ID, d, n)
	l.must(err)
	l.fs.Forget(a.ID, 1)
}

func (l *lab) symlink(target, path string) {
	l.t.Helper()
	d, n := l.at(path)
	a, err := l.fs.Symlink(l.call(), d, n, target)
	l.must(err)
	l.fs.Forget(a.ID, 1)
}

func (l *lab) chmod(path string, mode uint32) {
	l.t.Helper()
	a, err := l.find(path)
	l.must(err)
	_, err = l.fs.SetAttr(l.call(), a.ID, nil, fs.SetAttr{Mode: &mode})
	l.must(err)
}

func (l *lab) xattr(path, name, value string) {
	l.t.Helper()
	a, err := l.find(path)
	l.must(err)
	l.must(l.fs.SetXattr(l.call(), a.ID, name, []byte(value), 0))
}

// place is where the workspace stands, with everything in the database.
func (l *lab) place() versions.Place {
	l.t.Helper()
	ctx := context.Background()
	l.must(l.st.Apply(ctx, l.st.Last())) // nothing is dirty: every file was closed
	ws := l.ws()
	if ws.Timeline == 0 {
		return versions.Place{Timeline: ws.Base, Seq: ws.BaseSeq}
	}
	tl, err := l.st.Timeline(ctx, ws.Timeline)
	l.must(err)
	return versions.Place{Timeline: ws.Timeline, Seq: tl.Head}
}

func (l *lab) ws() *store.Workspace {
	l.t.Helper()
	ws, err := l.st.Workspace(context.Background(), l.name)
	l.must(err)
	return ws
}

// tree is the present as path -> what is there; every inode's identity by the first of its paths.
func (l *lab) tree() map[string]string {
	l.t.Helper()
	p := l.place()
	return l.treeAt(p)
}

func (l *lab) treeAt(p versions.Place) map[string]string {
	l.t.Helper()
	names, inodes := l.rows(p)
	return l.show(names, inodes, nil)
}

// rows are all names and inodes of a state.
func (l *lab) rows(p versions.Place) (map[store.DirName]store.Ino, map[store.Ino]store.Version) {
	l.t.Helper()
	ctx := context.Background()
	v, err := l.st.ViewAt(ctx, p.Timeline, p.Seq)
	l.must(err)
	names, inodes := map[store.DirName]store.Ino{}, map[store.Ino]store.Version{}
	var read func(dir store.Ino)
	read = func(dir store.Ino) {
		l.must(v.ReadDir(ctx, dir, func(n store.Name, ver *store.Version) error {
			names[store.DirName{Parent: dir, Name: n.Name}] = n.Ino
			inodes[n.Ino] = *ver
			if ver.IsDir() {
				read(n.Ino)
			}
			return nil
		}))
	}
	read(store.RootIno)
	return names, inodes
}

// show prints a tree given by names and inodes.
func (l *lab) show(names map[store.DirName]store.Ino, inodes map[store.Ino]store.Version, texts map[store.Ino]string) map[string]string {
	l.t.Helper()
	kids := map[store.Ino][]string{}
	for k := range names {
		kids[k.Parent] = append(kids[k.Parent], k.Name)
	}
	out, first := map[string]string{}, map[store.Ino]string{}
	var walk func(dir store.Ino, path string, depth int)
	walk = func(dir store.Ino, path string, depth int) {
		if depth > 50 {
			l.t.Fatalf("%s: a directory in itself", path)
		}
		list := kids[dir]
		sort.Strings(list)
		for _, name := range list {
			ino := names[store.DirName{Parent: dir, Name: name}]
			v, ok := inodes[ino]
			if !ok {
				l.t.Fatalf("%s/%s leads to inode %d, which is nowhere", path, name, ino)
			}
			full := strings.TrimPrefix(path+"/"+name, "/")
			if v.IsDir() {
				out[full] = fmt.Sprintf("d%o", v.Mode&0o7777)
				walk(ino, full, depth+1)
				continue
			}
			link := ""
			if old, ok := first[ino]; ok {
				link = " = " + old
			} else {
				first[ino] = full
			}
			text, ok := texts[ino]
			if !ok && v.Size > 0 && v.Type() == syscall.S_IFREG {
				text = l.read(&v)
			}
			out[full] = fmt.Sprintf("%o %q %q %v%s", v.Mode, text, v.Target, xattrs(v.Xattrs), link)
		}
	}
	walk(store.RootIno, "", 0)
	return out
}

func xattrs(m map[string][]byte) string {
	var list []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		list = append(list, k+"="+string(m[k]))
	}
	return strings.Join(list, ",")
}

func (l *lab) read(v *store.Version) string {
	l.t.Helper()
	b := make([]byte, v.Size)
	n, err := l.st.Blobs().ReadAt(context.Background(), blob.Content{Ref: v.Content, Size: v.Size}, b, 0)
	if n < len(b) {
		l.t.Fatalf("read inode %d: %v", v.Ino, err)
	}
	return string(b)
}
