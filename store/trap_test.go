package store_test

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"

	"wsfs/store"
	"wsfs/store/sqlite"
	"wsfs/store/storetest"
)

// small is a workspace on timeline 1 whose ops are made by hand.
type small struct {
	st      *store.Store
	seq     store.Seq
	root    store.Version
	files   map[string]store.Version
	queue   []*store.Op
	applied int64
}

func newSmall(t testing.TB, st *store.Store) *small {
	t.Helper()
	s := &small{st: st, files: make(map[string]store.Version)}
	op := s.op(store.OpWorkspace)
	op.Pointer = &store.Pointer{
		Workspace: store.Workspace{ID: 1, Name: "w", Timeline: 1}, NewTimeline: &store.Timeline{ID: 1}, Why: "init",
	}
	s.root = store.Version{Ino: 1, Mode: syscall.S_IFDIR | 0o755, Nlink: 2}
	s.version(op, &s.root)
	s.flush(t)
	return s
}

func (s *small) op(kind store.OpKind) *store.Op {
	s.seq++
	op := &store.Op{Kind: kind, Timeline: 1, Workspace: 1, Seq: s.seq, At: int64(s.seq)}
	s.queue = append(s.queue, op)
	return op
}

// version adds the next version of v to op.
func (s *small) version(op *store.Op, v *store.Version) {
	v.Parent, v.ID, v.Seq = v.ID, s.st.NewVersionID(), op.Seq
	v.Mtime, v.Ctime, v.Atime = op.At, op.At, op.At
	op.Versions = append(op.Versions, *v)
}

func (s *small) create(name string) {
	op := s.op(store.OpCreate)
	v := store.Version{Ino: s.st.NewIno(), Mode: syscall.S_IFREG | 0o644, Nlink: 1}
	op.Names = []store.Name{{Parent: 1, Name: name, Ino: v.Ino, Type: syscall.S_IFREG}}
	op.Items = []store.Item{{Op: store.OpCreate, Ino: v.Ino, Parent: 1, Name: name}}
	s.version(op, &v)
	s.version(op, &s.root)
	s.files[name] = v
}

func (s *small) unlink(name string) {
	op := s.op(store.OpUnlink)
	v := s.files[name]
	v.Nlink = 0
	op.Names = []store.Name{{Parent: 1, Name: name}}
	op.Items = []store.Item{{Op: store.OpUnlink, Ino: v.Ino, Parent: 1, Name: name}}
	s.version(op, &v)
	s.version(op, &s.root)
	delete(s.files, name)
}

func (s *small) flush(t testing.TB) {
	t.Helper()
	s.applied += int64(len(s.queue))
	if err := s.st.ApplyGroup(context.Background(), store.Group{Ops: s.queue, JournalID: 1000, Applied: s.applied}); err != nil {
		t.Fatal(err)
	}
	s.queue = nil
}

// Trap: without the split of live names and history a directory of 100 files cost 290 ms after 200,000 temporary
// files had come and gone. What reading it visits is the range of file_node that the plan walks (TestPlans).
func TestTemporaryFilesCostReaddirNothing(t *testing.T) {
	ctx := t.Context()
	st := storetest.New(t, sqlite.Driver(), store.Options{})
	s := newSmall(t, st)
	for i := range 100 {
		s.create(fmt.Sprint("file", i))
	}
	s.flush(t)
	const temporaries = 20_000
	for i := range temporaries {
		name := fmt.Sprintf(".%d.tmp", i)
		s.create(name)
		s.unlink(name)
		if len(s.queue) >= 1024 {
			s.flush(t)
		}
	}
	s.flush(t)
	for what, want := range map[string]int64{
		"file_node WHERE timeline_id = 1 AND parent_ino = 1":                                  100,
		"file_node_history WHERE timeline_id = 1 AND parent_ino = 1":                          temporaries,
		"file_node_history WHERE timeline_id = 1 AND parent_ino = 1 AND end_seq > 2000000000": 0,
	} {
		if n, err := st.Count(ctx, "SELECT count(*) FROM "+what); err != nil || n != want {
			t.Errorf("%d rows, %v in %s, want %d", n, err, what, want)
		}
	}
	for _, seq := range []store.Seq{store.MaxSeq, s.seq} {
		v, err := st.ViewAt(ctx, 1, seq)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		if err := v.ReadDir(ctx, 1, func(store.Name, *store.Version) error { n++; return nil }); err != nil || n != 100 {
			t.Errorf("readdir at %d: %d entries, %v", seq, n, err)
		}
	}
}

// Trap: a long read transaction starves checkpoints. A view holds none, not even while ReadDir and Changes call back.
func TestViewsDoNotStarveCheckpoints(t *testing.T) {
	ctx := t.Context()
	st := storetest.New(t, sqlite.Driver(), store.Options{})
	s := newSmall(t, st)
	var views []*store.View
	for i := range 6 {
		s.create(fmt.Sprint("file", i))
		s.flush(t)
		v, err := st.ViewAt(ctx, 1, s.seq)
		if err != nil {
			t.Fatal(err)
		}
		views = append(views, v)
	}
	folded := func() error {
		s.create(fmt.Sprint("more", s.seq))
		s.flush(t)
		left, err := st.Checkpoint(ctx, false)
		if left != 0 {
			err = errors.Join(err, fmt.Errorf("%d bytes of the log could not be folded in", left))
		}
		return err
	}
	for i, v := range views {
		n := 0
		err := v.ReadDir(ctx, 1, func(store.Name, *store.Version) error {
			n++
			return folded()
		})
		if err != nil || n != i+1 {
			t.Errorf("view %d: %d entries, %v", i, n, err)
		}
	}
	if err := st.Changes(ctx, store.ChangeQuery{View: views[5]}, func(*store.ChangeRow) error { return folded() }); err != nil {
		t.Error(err)
	}
}
