package blob_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"wsfs/blob"
	"wsfs/blob/blobtest"
)

// smalls stores n small contents, one after the other, and returns them with their bytes. Some are too small for a pack.
func smalls(t testing.TB, dir string, x *blobtest.Index, n int) (list []blob.Content, data [][]byte) {
	t.Helper()
	s := openStore(t, dir, x, blob.Options{})
	r := rand.New(rand.NewPCG(5, 6))
	var staged []blob.Staged
	for i := range n {
		b := bytes.Repeat([]byte(fmt.Sprintf("line %d of a file, wsbl\n", i)), 30+r.IntN(300))
		for j := 0; j < len(b); j += 3 {
			b[j] = byte(r.Uint32())
		}
		st := s.StageSmall(bytes.Clone(b))
		staged, list, data = append(staged, st), append(list, st.Content), append(data, b)
	}
	locs, err := s.Settle(t.Context(), staged)
	if err != nil {
		t.Fatal(err)
	}
	x.Insert(locs...)
	s.Applied(staged)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return list, data
}

func readSmall(t testing.TB, s *blob.Store, c blob.Content, want []byte) {
	t.Helper()
	got := make([]byte, c.Size)
	if n, _ := s.ReadAt(t.Context(), c, got, 0); n != len(got) || !bytes.Equal(got, want) {
		t.Fatalf("%v: %d bytes of %d, or other ones", c.Ref, n, len(got))
	}
}

// Contents that were written one after the other are read with a few look-ups.
func TestReadRun(t *testing.T) {
	dir, x := t.TempDir(), &blobtest.Index{}
	const n = 1000
	list, data := smalls(t, dir, x, n)
	s := openStore(t, dir, x, blob.Options{})
	defer s.Close()
	before := x.Asked()
	for i := range list {
		readSmall(t, s, list[i], data[i])
	}
	if asked := x.Asked() - before; asked > n/20 {
		t.Errorf("%d look-ups for %d blobs that lie side by side", asked, n)
	}
	s = openStore(t, dir, x, blob.Options{})
	defer s.Close()
	before = x.Asked()
	for i := range list {
		if i%50 == 0 {
			var refs []blob.Ref
			for _, c := range list[i : i+50] {
				refs = append(refs, c.Ref)
			}
			s.Expect(t.Context(), refs)
		}
		readSmall(t, s, list[i], data[i])
	}
	if asked := x.Asked() - before; asked > n/50 {
		t.Errorf("%d look-ups, one for each 50 of %d were to do", asked, n)
	}
}

// Whoever says where contents are may know better than the index, and may be wrong: what is read is right all the same.
func TestExpectAtHints(t *testing.T) {
	dir, x := t.TempDir(), &blobtest.Index{}
	const n = 200
	list, data := smalls(t, dir, x, n)
	where := map[blob.Ref]blob.Location{}
	for _, l := range x.All() {
		where[l.Ref] = l
	}
	for name, wrong := range map[string]func(*blob.Location){
		"right": func(*blob.Location) {}, "shifted": func(l *blob.Location) { l.Offset++ }, "no pack": func(l *blob.Location) { l.Pack += 7 },
		"other bytes": func(l *blob.Location) { l.Data, l.Pack = []byte("other bytes"), 0 },
	} {
		s := openStore(t, dir, x, blob.Options{})
		before := x.Asked()
		for i := range list {
			if i%50 == 0 {
				refs := make([]blob.Ref, 50)
				for k := range refs {
					refs[k] = list[i+k].Ref
				}
				s.ExpectAt(t.Context(), refs, func(which []int, found func(blob.Location)) {
					for _, k := range which {
						l := where[refs[k]]
						wrong(&l)
						found(l)
					}
				})
			}
			readSmall(t, s, list[i], data[i])
		}
		if asked := x.Asked() - before; name == "right" && asked > 0 {
			t.Errorf("%d look-ups of what was said", asked)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A damaged record in a run is what it is elsewhere: an error of that blob alone.
func TestReadRunDamaged(t *testing.T) {
	dir, x := t.TempDir(), &blobtest.Index{}
	list, data := smalls(t, dir, x, 200)
	var bad blob.Location
	for _, l := range x.All() {
		if l.Ref == list[100].Ref {
			bad = l
		}
	}
	name := filepath.Join(dir, "packs", "00000001.pack")
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b[bad.Offset+bad.Length/2] ^= 1
	b[bad.Offset-1] ^= 1
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, dir, x, blob.Options{})
	defer s.Close()
	for i := range list {
		if i != 100 {
			readSmall(t, s, list[i], data[i])
		} else if _, err := s.ReadAt(t.Context(), list[i], make([]byte, 10), 0); !errors.Is(err, blob.ErrCorrupt) {
			t.Errorf("a damaged blob: %v", err)
		}
	}
}

// Large contents are read without what lies beside the nodes of their trees: those are leaves, which are read where they are needed.
func TestReadsNoRunOfNodes(t *testing.T) {
	dir, x := t.TempDir(), &blobtest.Index{}
	s := openStore(t, dir, x, blob.Options{})
	var all []blob.Content
	for i := range 40 {
		var b bytes.Buffer
		for j := 0; b.Len() < 2<<20; j++ {
			b.Write(bytes.Repeat(fmt.Appendf(nil, "line %d of file %d\n", j, i), 500)) // some of them lie in one stretch
		}
		st, err := s.PutReader(t.Context(), &b)
		if err != nil {
			t.Fatal(err)
		}
		apply(t, s, x, st)
		all = append(all, st.Content)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var stored int64
	for _, l := range x.All() {
		stored += l.Length
	}
	s = openStore(t, dir, x, blob.Options{})
	defer s.Close()
	before := readByUs(t)
	for _, c := range all {
		buf := make([]byte, c.Size)
		if n, err := s.ReadAt(t.Context(), c, buf, 0); n != len(buf) {
			t.Fatal(n, err)
		}
	}
	got := readByUs(t) - before
	t.Logf("%d bytes were read of %d", got, stored)
	if got > stored*11/10 {
		t.Error("that is more than what there is")
	}
}

// readByUs is how many bytes this process has read with read(2) and pread(2).
func readByUs(t *testing.T) (n int64) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/io")
	if err == nil {
		_, err = fmt.Sscanf(string(b), "rchar: %d", &n)
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// BenchmarkReadRun reads 1,000 small contents from packs, in the order in which they were written.
func BenchmarkReadRun(b *testing.B) {
	dir, x := b.TempDir(), &blobtest.Index{}
	list, data := smalls(b, dir, x, 1000)
	for b.Loop() {
		s := openStore(b, dir, x, blob.Options{})
		for i := range list {
			readSmall(b, s, list[i], data[i])
		}
		s.Close()
	}
}
