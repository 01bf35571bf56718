package versions

import (
	"context"
	"syscall"
	"testing"
	"time"

	"wsfs/blob"
	"wsfs/store"
	"wsfs/store/sqlite"
)

// world makes histories by hand: each call is one change, made with the rows that package fs would give it.
type world struct {
	t     testing.TB
	st    *store.Store
	ws    store.Workspace
	seq   store.Seq
	now   time.Time
	who   store.Attribution
	nodes map[store.Ino]store.Version
	paths map[string]store.Ino
	// unchecked leaves out Check at the end: it looks at each of thousands of workspaces.
	unchecked bool
	// behind leaves it to the applier when a change gets to the database.
	behind bool
}

func newWorld(t testing.TB) *world {
	t.Helper()
	dir := t.TempDir() + "/store"
	ctx := context.Background()
	if err := store.Init(ctx, dir, sqlite.Driver()); err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(ctx, dir, sqlite.Driver(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		t: t, st: st, now: time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC),
		nodes: map[store.Ino]store.Version{}, paths: map[string]store.Ino{"": store.RootIno},
	}
	t.Cleanup(func() {
		if !w.unchecked {
			if err := st.Check(ctx, func(p store.Problem) { t.Error(p) }); err != nil {
				t.Error(err)
			}
		}
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	w.ws = store.Workspace{ID: st.NewWorkspaceID(), Name: "main", Timeline: st.NewTimelineID(), CreatedAt: w.now.UnixNano()}
	root := store.Version{Ino: store.RootIno, Mode: syscall.S_IFDIR | 0o755, Nlink: 2}
	w.append(&store.Op{
		Kind: store.OpWorkspace, Versions: []store.Version{root}, Items: []store.Item{{Op: store.OpWorkspace, Ino: store.RootIno}},
		Pointer: &store.Pointer{Workspace: w.ws, NewTimeline: &store.Timeline{ID: w.ws.Timeline}, Why: "init"},
	})
	return w
}

// append fills in what every op has and makes it visible.
func (w *world) append(op *store.Op) store.Seq {
	w.t.Helper()
	w.seq++
	w.now = w.now.Add(time.Minute)
	op.Timeline, op.Workspace, op.Seq, op.At = w.ws.Timeline, w.ws.ID, w.seq, w.now.UnixNano()
	op.Who = w.who
	for i := range op.Versions {
		v := &op.Versions[i]
		v.Seq, v.Origin, v.Parent, v.ID = w.seq, w.ws.Timeline, w.nodes[v.Ino].ID, w.st.NewVersionID()
		w.nodes[v.Ino] = *v
	}
	slot, err := w.st.Append(op)
	if err == nil && !w.behind {
		err = w.st.Apply(context.Background(), slot)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return w.seq
}

// command makes the changes that follow the work of a new command.
func (w *world) command(session, argv string) store.CommandID {
	ses := &store.Session{ID: w.st.NewSessionID(), Name: session, Workspace: w.ws.ID}
	if w.who.Session != nil && w.who.Session.Name == session {
		ses = w.who.Session
	}
	p := &store.Process{ID: w.st.NewProcessID(), Session: ses.ID, PID: 4242, Comm: "sh", Argv: argv}
	c := &store.Command{ID: w.st.NewCommandID(), Session: ses.ID, N: 1, Argv: argv, StartedAt: w.now.UnixNano()}
	w.who = store.Attribution{Session: ses, Process: p, Command: c}
	return c.ID
}

func split2(path string) (dir, name string) {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i] == '/' {
			return path[:i], path[i+1:]
		}
	}
	return "", path
}

func (w *world) at(path string) (parent store.Ino, name string) {
	dir, name := split2(path)
	ino, ok := w.paths[dir]
	if !ok {
		w.t.Fatalf("no directory %q", dir)
	}
	return ino, name
}

func (w *world) create(path, content string) store.Seq {
	p, name := w.at(path)
	ino := w.st.NewIno()
	v := store.Version{Ino: ino, Mode: syscall.S_IFREG | 0o644, Nlink: 1, Size: int64(len(content)), Content: blob.Sum([]byte(content))}
	w.paths[path] = ino
	return w.append(&store.Op{
		Kind: store.OpCreate, Names: []store.Name{{Parent: p, Name: name, Ino: ino, Type: syscall.S_IFREG}},
		Versions: []store.Version{v}, Items: []store.Item{{Op: store.OpCreate, Ino: ino, Parent: p, Name: name}},
		Contents: []blob.Staged{w.st.Blobs().StageSmall([]byte(content))},
	})
}

func (w *world) write(path, content string) store.Seq {
	p, name := w.at(path)
	v := w.nodes[w.paths[path]]
	v.Size, v.Content, v.Replaced = int64(len(content)), blob.Sum([]byte(content)), 0
	return w.append(&store.Op{
		Kind: store.OpWrite, Versions: []store.Version{v}, Items: []store.Item{{Op: store.OpWrite, Ino: v.Ino, Parent: p, Name: name}},
		Contents: []blob.Staged{w.st.Blobs().StageSmall([]byte(content))},
	})
}

func (w *world) chmod(path string, mode uint32) store.Seq {
	p, name := w.at(path)
	v := w.nodes[w.paths[path]]
	v.Mode, v.Replaced = v.Mode&^0o7777|mode, 0
	return w.append(&store.Op{
		Kind: store.OpSetattr, Versions: []store.Version{v}, Items: []store.Item{{Op: store.OpSetattr, Ino: v.Ino, Parent: p, Name: name}},
	})
}

func (w *world) mkdir(path string) store.Seq {
	p, name := w.at(path)
	ino := w.st.NewIno()
	w.paths[path] = ino
	up := w.nodes[p]
	up.Nlink++
	return w.append(&store.Op{
		Kind: store.OpMkdir, Names: []store.Name{{Parent: p, Name: name, Ino: ino, Type: syscall.S_IFDIR}},
		Versions: []store.Version{{Ino: ino, Mode: syscall.S_IFDIR | 0o755, Nlink: 2}, up},
		Items:    []store.Item{{Op: store.OpMkdir, Ino: ino, Parent: p, Name: name}},
	})
}

func (w *world) symlink(path, target string) store.Seq {
	p, name := w.at(path)
	ino := w.st.NewIno()
	w.paths[path] = ino
	return w.append(&store.Op{
		Kind: store.OpSymlink, Names: []store.Name{{Parent: p, Name: name, Ino: ino, Type: syscall.S_IFLNK}},
		Versions: []store.Version{{Ino: ino, Mode: syscall.S_IFLNK | 0o777, Nlink: 1, Target: target, Size: int64(len(target))}},
		Items:    []store.Item{{Op: store.OpSymlink, Ino: ino, Parent: p, Name: name}},
	})
}

func (w *world) link(path, to string) store.Seq {
	p, name := w.at(to)
	v := w.nodes[w.paths[path]]
	v.Nlink++
	w.paths[to] = v.Ino
	return w.append(&store.Op{
		Kind: store.OpLink, Names: []store.Name{{Parent: p, Name: name, Ino: v.Ino, Type: v.Type()}}, Versions: []store.Version{v},
		Items: []store.Item{{Op: store.OpLink, Ino: v.Ino, Parent: p, Name: name}},
	})
}

func (w *world) remove(path string) store.Seq {
	p, name := w.at(path)
	v := w.nodes[w.paths[path]]
	delete(w.paths, path)
	op := &store.Op{Kind: store.OpUnlink, Names: []store.Name{{Parent: p, Name: name}}}
	if v.IsDir() {
		op.Kind, v.Nlink = store.OpRmdir, 0
		up := w.nodes[p]
		up.Nlink--
		op.Versions = []store.Version{v, up}
	} else {
		v.Nlink--
		op.Versions = []store.Version{v}
	}
	op.Items = []store.Item{{Op: op.Kind, Ino: v.Ino, Parent: p, Name: name}}
	return w.append(op)
}

func (w *world) rename(from, to string) store.Seq {
	fp, fname := w.at(from)
	tp, tname := w.at(to)
	v := w.nodes[w.paths[from]]
	op := &store.Op{Kind: store.OpRename, Names: []store.Name{
		{Parent: fp, Name: fname}, {Parent: tp, Name: tname, Ino: v.Ino, Type: v.Type()},
	}}
	op.Items = []store.Item{{Op: store.OpRename, Ino: v.Ino, Parent: tp, Name: tname, FromParent: fp, FromName: fname}}
	v.Replaced = 0
	if old, ok := w.paths[to]; ok {
		victim := w.nodes[old]
		v.Replaced = victim.ID
		victim.Nlink--
		op.Versions = append(op.Versions, victim)
		op.Items = append(op.Items, store.Item{Op: store.OpUnlink, Ino: old, Parent: tp, Name: tname})
	}
	op.Versions = append(op.Versions, v)
	if v.IsDir() && fp != tp {
		down, up := w.nodes[fp], w.nodes[tp]
		down.Nlink--
		up.Nlink++
		op.Versions = append(op.Versions, down, up)
	}
	moved := map[string]store.Ino{}
	for p, ino := range w.paths {
		if p == from || len(p) > len(from) && p[:len(from)+1] == from+"/" {
			moved[to+p[len(from):]] = ino
			delete(w.paths, p)
		}
	}
	for p, ino := range moved {
		w.paths[p] = ino
	}
	return w.append(op)
}

func (w *world) view() *store.View {
	v, err := w.st.ViewAt(context.Background(), w.ws.Timeline, w.seq)
	if err != nil {
		w.t.Fatal(err)
	}
	return v
}
