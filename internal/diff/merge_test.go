package diff

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

func TestMerge(t *testing.T) {
	const base = "1\n2\n3\n4\n5\n6\n7\n8\n"
	for _, c := range []struct {
		name, base, ours, theirs, want string
		conflicts                      []Hunk
	}{
		{"nothing", base, base, base, base, nil},
		{"one side", base, base, "1\n2\nx\n", "1\n2\nx\n", nil},
		{"both, apart", base, "a\n2\n3\n4\n5\n6\n7\n8\n", "1\n2\n3\n4\n5\n6\n7\nb\n", "a\n2\n3\n4\n5\n6\n7\nb\n", nil},
		{"the same twice", base, "1\nx\n3\n4\n5\n6\n7\n8\n", "1\nx\n3\n4\n5\n6\n7\n8\n", "1\nx\n3\n4\n5\n6\n7\n8\n", nil},
		{"both from nothing, the same", "", "a\nb\n", "a\nb\n", "a\nb\n", nil},
		{"both add at the end", "1\n2\n", "1\n2\na\n", "1\n2\nb\n", "1\n2\n<<<<<<< ours\na\n=======\nb\n>>>>>>> theirs\n",
			[]Hunk{{Range{2, 2}, Range{2, 3}, Range{2, 3}, Range{2, 7}}}},
		{"edit against removal", "1\n2\n3\n", "1\nx\n3\n", "1\n3\n", "1\n<<<<<<< ours\nx\n=======\n>>>>>>> theirs\n3\n",
			[]Hunk{{Range{1, 2}, Range{1, 2}, Range{1, 1}, Range{1, 5}}}},
		{"touching", "1\n2\n", "a\n2\n", "1\nb\n", "<<<<<<< ours\na\n2\n=======\n1\nb\n>>>>>>> theirs\n",
			[]Hunk{{Range{0, 2}, Range{0, 2}, Range{0, 2}, Range{0, 7}}}},
		{"no newline at the end", "1\n2", "1\na", "1\nb", "1\n<<<<<<< ours\na\n=======\nb\n>>>>>>> theirs\n",
			[]Hunk{{Range{1, 2}, Range{1, 2}, Range{1, 2}, Range{1, 6}}}},
		{"CR LF", "1\r\n2\r\n", "1\r\na\r\n", "1\r\nb\r\n", "1\r\n<<<<<<< ours\r\na\r\n=======\r\nb\r\n>>>>>>> theirs\r\n",
			[]Hunk{{Range{1, 2}, Range{1, 2}, Range{1, 2}, Range{1, 6}}}},
		{"newline taken away on one side", "1\n2\n3\n4\n", "x\n2\n3\n4\n", "1\n2\n3\n4", "x\n2\n3\n4", nil},
	} {
		got, conflicts, ok := Merge3([]byte(c.base), []byte(c.ours), []byte(c.theirs))
		if string(got) != c.want || ok != (c.conflicts == nil) || len(conflicts) != len(c.conflicts) {
			t.Errorf("%s: %q, %+v, %v; want %q, %+v", c.name, got, conflicts, ok, c.want, c.conflicts)
			continue
		}
		for i, h := range conflicts {
			if h != c.conflicts[i] {
				t.Errorf("%s: conflict %d is %+v, want %+v", c.name, i, h, c.conflicts[i])
			}
		}
	}
}

// checkLaws holds a merge to what any three-way merge must do.
func checkLaws(t testing.TB, base, ours, theirs []byte) {
	t.Helper()
	for _, c := range []struct {
		name               string
		base, ours, theirs []byte
		want               []byte
	}{
		{"only ours changed", base, ours, base, ours},
		{"only theirs changed", base, base, theirs, theirs},
		{"both made the same", base, ours, ours, ours},
	} {
		got, _, ok := Merge3(c.base, c.ours, c.theirs)
		if !ok || !bytes.Equal(got, c.want) {
			t.Fatalf("%s: base %q, ours %q, theirs %q: got %q, %v", c.name, c.base, c.ours, c.theirs, got, ok)
		}
	}
	merged, conflicts, ok := Merge3(base, ours, theirs)
	swapped, _, swappedOK := Merge3(base, theirs, ours)
	if ok != swappedOK || ok && !bytes.Equal(merged, swapped) {
		t.Fatalf("base %q, ours %q, theirs %q: got %q; the other way round %q", base, ours, theirs, merged, swapped)
	}
	if ok != (len(conflicts) == 0) {
		t.Fatalf("ok is %v with %d conflicts", ok, len(conflicts))
	}
	checkHunks(t, merged, ours, theirs, conflicts)
}

func TestMergeLaws(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for i := range 3000 {
		alphabet := []int{2, 5, 30, 1 << 30}[i%4]
		base := text(r, r.IntN(30), alphabet)
		checkLaws(t, base, edit(r, base, 4, alphabet), edit(r, base, 4, alphabet))
	}
}

func FuzzMerge3(f *testing.F) {
	f.Add([]byte("1\n2\n3\n"), []byte("1\nx\n3\n"), []byte("1\n2\n3\n4"))
	f.Add([]byte("a\r\nb\r\n"), []byte("a\r\n"), []byte("a\r\nc"))
	f.Add([]byte(""), []byte("\r\n\r"), []byte("\r\n"))
	f.Fuzz(func(t *testing.T, base, ours, theirs []byte) { checkLaws(t, base, ours, theirs) })
}
