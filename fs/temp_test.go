package fs_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"wsfs/fs"
	"wsfs/store"
	"wsfs/store/sqlite"
)

// temps is a world whose store applies what there is only when it is asked to, and two commands in it.
type temps struct {
	*world
	a, b *fs.Call // two commands
	dir  store.Ino
	now  atomic.Int64
}

func newTemps(t *testing.T) *temps {
	w := newWorld(t)
	w.close()
	st, err := store.Open(context.Background(), w.dir, sqlite.Driver(), store.Options{GroupDelay: time.Hour, GroupOps: 1 << 20})
	w.must(err)
	w.st = st
	x := &temps{world: w}
	x.now.Store(1_800_000_000_000_000_000)
	w.fs, err = fs.Open(context.Background(), st, w.ws, fs.Options{CutAfter: time.Hour, Now: func() time.Time { return time.Unix(0, x.now.Add(1000)) }})
	w.must(err)
	session := &store.Session{ID: st.NewSessionID(), Name: "s", Workspace: w.ws.ID, StartedAt: 1}
	by := func(n int) *fs.Call {
		cmd := &store.Command{ID: st.NewCommandID(), Session: session.ID, N: n, Argv: fmt.Sprint("command", n), StartedAt: 1}
		return &fs.Call{UID: 1, GID: 1, PID: uint32(n), Who: func() store.Attribution { return store.Attribution{Session: session, Command: cmd} }}
	}
	x.a, x.b = by(1), by(2)
	x.c = x.a
	x.mkdir("d")
	x.dir = x.walk("d").ID
	x.apply()
	return x
}

func (x *temps) apply() {
	x.t.Helper()
	x.must(x.st.Apply(context.Background(), x.st.Last()))
}

// grown applies everything and says by how much each table grew since before.
func (x *temps) grown(before map[string]int64) map[string]int64 {
	x.t.Helper()
	x.apply()
	s, err := x.st.Stats(context.Background())
	x.must(err)
	d := map[string]int64{}
	for _, table := range []string{"change", "change_item", "file_version", "file_node", "file_node_history", "blob"} {
		if n := s.Rows[table] - before[table]; n != 0 {
			d[table] = n
		}
	}
	return d
}

func (x *temps) rows() map[string]int64 {
	x.t.Helper()
	x.apply()
	s, err := x.st.Stats(context.Background())
	x.must(err)
	return s.Rows
}

// TestTemporariesLeaveNothing: the churn of a build, files that come and go within one command, leaves one change of the
// directory's times and not a row more.
func TestTemporariesLeaveNothing(t *testing.T) {
	x := newTemps(t)
	before := x.rows()
	for i := range 500 {
		name := fmt.Sprint("d/t", i%50) // names are used again
		x.write(name, fmt.Sprint("text", i))
		if i%3 == 0 {
			mode := uint32(0o600)
			_, err := x.fs.SetAttr(x.c, x.walk(name).ID, nil, fs.SetAttr{Mode: &mode})
			x.must(err)
		}
		x.remove(name)
	}
	got := x.grown(before)
	if fmt.Sprint(got) != fmt.Sprint(map[string]int64{"change": 1, "file_version": 1}) {
		t.Errorf("500 temporaries left %v, want one change and one version, of the directory", got)
	}
	want := x.walk("d")
	x.write("d/after", "stays")
	x.reopen()
	if got := x.walk("d"); got.Mtime < want.Mtime || got.Ino != want.Ino {
		t.Errorf("the directory is %+v, want the times of %+v or later", got, want)
	}
	if got := x.read("d/after"); got != "stays" {
		t.Errorf("what came after them is %q", got)
	}
}

// TestTemporariesThatAreNone: whatever anybody could have seen or may still want stays in the history.
func TestTemporariesThatAreNone(t *testing.T) {
	for what, between := range map[string]func(x *temps){
		"another command changed it": func(x *temps) {
			x.c = x.b
			x.write("d/t", "other")
			x.c = x.a
		},
		"another command removes it": func(x *temps) { x.c = x.b },
		"it has a second name": func(x *temps) {
			_, err := x.fs.Link(x.c, x.walk("d/t").ID, x.dir, "second")
			x.must(err)
		},
		"it was in another directory": func(x *temps) {
			x.must(x.rename("d/t", "t", 0))
			x.must(x.rename("t", "d/t", 0))
		},
		"another command looks into it": func(x *temps) {
			x.c = x.b
			x.read("d/t")
			x.c = x.a
		},
		"it is there for long": func(x *temps) { x.now.Add(int64(6 * time.Second)) },
		"it is on the disk": func(x *temps) {
			h, err := x.fs.Open(x.c, x.walk("d/t").ID, syscall.O_RDONLY)
			x.must(err)
			x.must(h.Fsync(x.c, false))
			h.Release(x.c, 1)
		},
		"the database has it":  func(x *temps) { x.apply() },
		"somebody has it open": func(x *temps) { x.open("d/t") },
		"a point is named meanwhile": func(x *temps) {
			_, seq, err := x.fs.Freeze(x.c)
			x.must(err)
			ws := x.fs.Workspace()
			slot, err := x.st.Append(&store.Op{Kind: store.OpWorkspace, Workspace: ws.ID, At: 1,
				Tags: []store.TagChange{{Tag: store.Tag{Workspace: ws.ID, Name: "tag", Timeline: ws.Timeline, Seq: seq}}}})
			x.must(err)
			x.must(x.st.Wait(slot))
		},
	} {
		t.Run(what, func(t *testing.T) {
			x := newTemps(t)
			before := x.rows()
			x.write("d/t", "text")
			between(x)
			x.remove("d/t")
			if got := x.grown(before); got["file_version"] < 3 || got["blob"] < 1 {
				t.Errorf("left %v: the file's birth and end should be there", got)
			}
		})
	}
}

// open keeps path open for reading until the test has ended, and then reads it.
func (x *temps) open(path string) {
	x.t.Helper()
	h, err := x.fs.Open(x.c, x.walk(path).ID, syscall.O_RDONLY)
	x.must(err)
	x.t.Cleanup(func() {
		buf := make([]byte, 10)
		if n, err := h.ReadAt(x.c, buf, 0); err != nil || string(buf[:n]) != "text" {
			x.t.Errorf("open while it was removed: %q, %v", buf[:n], err)
		}
		h.Release(x.c, 1)
	})
}

// TestSaveByRename: a file that is written under another name and moved to its own is one version of that, and nothing of
// the name it had first.
func TestSaveByRename(t *testing.T) {
	x := newTemps(t)
	x.write("d/f", "first")
	x.apply()
	ctx := context.Background()
	view, err := x.st.ViewOf(ctx, x.fs.Workspace())
	x.must(err)
	for _, to := range []string{"d/f", "d/new"} {
		old, _ := x.stat(to)
		before := x.rows()
		var last *store.Version
		if old.Ino != 0 {
			last, err = view.Version(ctx, old.Ino)
			x.must(err)
		}
		x.write("d/t", "second")
		x.must(x.rename("d/t", to, 0))
		now := x.walk(to)
		got := x.grown(before)
		want := map[string]int64{"change": 1, "change_item": 1, "file_version": 2, "blob": 1, "file_node": 1}
		if old.Ino != 0 { // what was there gets a version, too, and an item, and its name is history
			want = map[string]int64{"change": 1, "change_item": 2, "file_version": 3, "blob": 1, "file_node_history": 1}
		} else {
			delete(want, "blob") // the same bytes
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("a save of %s left %v, want %v", to, got, want)
		}
		v, err := view.Version(ctx, now.Ino)
		x.must(err)
		if v.Parent != 0 || last != nil && v.Replaced != last.ID || last == nil && v.Replaced != 0 {
			t.Errorf("%s has version %+v, want one that replaced %+v", to, v, last)
		}
	}
	x.reopen()
	if a, b := x.read("d/f"), x.read("d/new"); a != "second" || b != "second" {
		t.Errorf("after the next start they are %q and %q", a, b)
	}
}

// TestTemporaryStaysReadable: a kernel may come back for what it still has a reference to, O_PATH by O_PATH, though the
// database never gets its content.
func TestTemporaryStaysReadable(t *testing.T) {
	x := newTemps(t)
	before := x.rows()
	x.write("d/t", "text")
	at, err := x.fs.Lookup(x.c, x.dir, "t")
	x.must(err)
	x.remove("d/t")
	if got := x.grown(before); got["blob"] != 0 || got["file_version"] != 1 {
		t.Fatalf("left %v, want nothing of the file", got)
	}
	h, err := x.fs.Open(x.c, at.ID, syscall.O_RDONLY)
	x.must(err)
	buf := make([]byte, 10)
	if n, err := h.ReadAt(x.c, buf, 0); err != nil || string(buf[:n]) != "text" {
		t.Errorf("it reads %q, %v", buf[:n], err)
	}
	h.Release(x.c, 1)
	x.fs.Forget(at.ID, 1)
}
