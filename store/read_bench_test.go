package store_test

import (
	"fmt"
	"testing"

	"wsfs/store"
	"wsfs/store/sqlite"
)

// BenchmarkRead is what a cold lookup, the attributes of an inode and a directory cost: at the head of a timeline, at a
// past seq, and through a chain of 16 forks.
func BenchmarkRead(b *testing.B) {
	ctx := b.Context()
	dir := b.TempDir()
	if err := store.Init(ctx, dir, sqlite.Driver()); err != nil {
		b.Fatal(err)
	}
	st, err := store.Open(ctx, dir, sqlite.Driver(), store.Options{MergeAfter: -1}) // the ids are made by hand
	if err != nil {
		b.Fatal(err)
	}
	defer st.Close()
	s := newSmall(b, st)
	const files = 10_000
	for i := range files {
		s.create(fmt.Sprint("file", i))
	}
	s.flush(b)
	parent, seq := store.TimelineID(1), s.seq
	for i := range 16 {
		t := store.TimelineID(100 + i)
		s.queue = append(s.queue, &store.Op{Kind: store.OpWorkspace, Pointer: &store.Pointer{
			Workspace:   store.Workspace{ID: store.WorkspaceID(100 + i), Name: fmt.Sprint("fork", i), Timeline: t, Base: parent, BaseSeq: seq},
			NewTimeline: &store.Timeline{ID: t, Parent: parent, ParentSeq: seq, Head: seq},
		}})
		s.queue = append(s.queue, &store.Op{Kind: store.OpSetattr, Timeline: t, Seq: seq + 1})
		parent, seq = t, seq+1
	}
	s.flush(b)
	for _, at := range []struct {
		name     string
		timeline store.TimelineID
		seq      store.Seq
	}{{"head", 1, store.MaxSeq}, {"past", 1, s.seq}, {"chain", parent, store.MaxSeq}} {
		v, err := st.ViewAt(ctx, at.timeline, at.seq)
		if err != nil {
			b.Fatal(err)
		}
		b.Run("lookup/"+at.name, func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				if _, err := v.Lookup(ctx, 1, fmt.Sprint("file", i*7919%files)); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("version/"+at.name, func(b *testing.B) {
			ino := s.files["file0"].Ino
			for i := 0; b.Loop(); i++ {
				if _, err := v.Version(ctx, ino+store.Ino(i*7919%files)); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("names10000/"+at.name, func(b *testing.B) {
			for b.Loop() {
				n := 0
				if err := v.ReadNames(ctx, 1, 0, files, func(int) {}, func(store.Name, *store.Version) error { n++; return nil }); err != nil || n != files {
					b.Fatal(n, err)
				}
			}
		})
		b.Run("readdir10000/"+at.name, func(b *testing.B) {
			for b.Loop() {
				n := 0
				if err := v.ReadDir(ctx, 1, func(store.Name, *store.Version) error { n++; return nil }); err != nil || n != files {
					b.Fatal(n, err)
				}
			}
		})
	}
}
