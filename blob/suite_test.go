package blob_test

import (
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"wsfs/blob"
	"wsfs/blob/blobtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSuite(t *testing.T) {
	for name, o := range map[string]blob.Options{
		"default": {},
		"tiny":    {PackSize: 100 << 10, CacheBytes: 1 << 20, InlineMax: -1, Workers: 1, Small: blob.S2, Large: blob.Zstd},
	} {
		t.Run(name, func(t *testing.T) {
			blobtest.Run(t, func(t *testing.T, dir string, x blob.Index) *blob.Store {
				s, err := blob.Open(dir, x, o)
				if err != nil {
					t.Fatal(err)
				}
				return s
			})
		})
	}
}

// plainIndex hides that an index can answer many questions at once.
type plainIndex struct{ blob.Index }

func TestSuiteWithoutBatches(t *testing.T) {
	blobtest.Run(t, func(t *testing.T, dir string, x blob.Index) *blob.Store {
		s, err := blob.Open(dir, plainIndex{x}, blob.Options{Workers: 4})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

func TestReadOnly(t *testing.T) {
	dir, x := t.TempDir(), &blobtest.Index{}
	s := openStore(t, dir, x, blob.Options{})
	data := random(1, 200<<10)
	st := fresh(t, s, data)
	apply(t, s, x, st)
	blobtest.ReadOnly(t, openStore(t, dir, x, blob.Options{ReadOnly: true}), st.Content, data)
	empty := t.TempDir()
	openStore(t, empty, x, blob.Options{ReadOnly: true})
	if _, err := os.Stat(filepath.Join(empty, "packs")); !os.IsNotExist(err) {
		t.Errorf("a store open for reading made a directory: %v", err)
	}
}

// TestManyPacks has more packs than may be open at once.
func TestManyPacks(t *testing.T) {
	dir, x := t.TempDir(), &blobtest.Index{}
	s := openStore(t, dir, x, blob.Options{PackSize: 64 << 10, InlineMax: -1, CacheBytes: 1})
	var all []blob.Content
	for i := range 200 {
		st, err := s.PutPacked(random(uint64(i), blob.MaxBlob))
		if err != nil {
			t.Fatal(err)
		}
		apply(t, s, x, st)
		all = append(all, st.Content)
	}
	for range 2 {
		for i, c := range all {
			if got := readAll(t, s, c); string(got) != string(random(uint64(i), blob.MaxBlob)) {
				t.Fatalf("content %d reads back differently", i)
			}
		}
	}
	if n := openDescriptors(t, dir); n > 140 {
		t.Errorf("%d packs are open", n)
	}
}

func openDescriptors(t *testing.T, dir string) (n int) {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && len(to) > len(dir) && to[:len(dir)] == dir {
			n++
		}
	}
	return n
}
