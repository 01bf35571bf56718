package store_test

import (
	"syscall"
	"testing"

	"wsfs/blob"
	"wsfs/store"
	"wsfs/store/sqlite"
	"wsfs/store/storetest"
)

// TestPlaces asks the newest versions where their contents are: they say what the index says, and nothing of another content.
func TestPlaces(t *testing.T) {
	ctx := t.Context()
	st := storetest.New(t, sqlite.Driver(), store.Options{MergeAfter: 1})
	storetest.Populate(t, st, 5, 300)
	if err := st.Apply(ctx, st.Last()); err != nil {
		t.Fatal(err)
	}
	lines, err := st.Timelines(ctx)
	if err != nil {
		t.Fatal(err)
	}
	files, placed := 0, 0
	for _, line := range lines {
		if line.Hidden {
			continue
		}
		v, err := st.ViewAt(ctx, line.ID, store.MaxSeq)
		if err != nil {
			t.Fatal(err)
		}
		var inos []store.Ino
		var refs []blob.Ref
		for ino := store.RootIno; ino < 400; ino++ {
			ver, err := v.Version(ctx, ino)
			if err == nil && ver.Mode&syscall.S_IFMT == syscall.S_IFREG && ver.Size > 0 && ver.Size <= blob.MaxBlob {
				inos, refs = append(inos, ino), append(refs, ver.Content)
			}
		}
		files += len(inos)
		if err := v.Places(ctx, inos, refs, func(got blob.Location) {
			placed++
			want, err := st.Locate(ctx, got.Ref)
			if err != nil || got.Size != want.Size || got.Encoding != want.Encoding || got.Pack != want.Pack || got.Offset != want.Offset ||
				got.Length != want.Length || string(got.Data) != string(want.Data) {
				t.Errorf("a version says that its content is at %+v, the index says %+v, %v", got, want, err)
			}
		}); err != nil {
			t.Fatal(err)
		}
		for i := range refs {
			refs[i] = blob.Sum([]byte("another"))
		}
		if err := v.Places(ctx, inos, refs, func(got blob.Location) { t.Errorf("found %+v for a content that no file has", got) }); err != nil {
			t.Fatal(err)
		}
	}
	if files < 20 || placed < 10 {
		t.Fatalf("of %d contents %d have a place: nothing is tested", files, placed)
	}
	t.Logf("%d of %d contents have a place", placed, files)
}
