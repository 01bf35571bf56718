package diff

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// apply makes the other text of a list of changes, and checks that it is one.
func apply(t testing.TB, a, b []byte, changes []Change) []byte {
	t.Helper()
	x, y := Lines(a), Lines(b)
	var out []byte
	atA, atB := 0, 0
	for i, c := range changes {
		if c.ALen < 0 || c.BLen < 0 || c.ALen+c.BLen == 0 || c.A < atA || c.A+c.ALen > len(x) || c.B+c.BLen > len(y) {
			t.Fatalf("change %d is %+v after line %d of %d", i, c, atA, len(x))
		}
		if i > 0 && c.A == atA {
			t.Fatalf("change %d, %+v, touches the one before", i, c)
		}
		if c.A-atA != c.B-atB {
			t.Fatalf("change %d, %+v: %d equal lines before it in a, %d in b", i, c, c.A-atA, c.B-atB)
		}
		out = append(out, bytes.Join(x[atA:c.A], nil)...)
		out = append(out, bytes.Join(y[c.B:c.B+c.BLen], nil)...)
		atA, atB = c.A+c.ALen, c.B+c.BLen
	}
	return append(out, bytes.Join(x[atA:], nil)...)
}

func cost(changes []Change) (n int) {
	for _, c := range changes {
		n += c.ALen + c.BLen
	}
	return n
}

// minimum is the least number of changed lines, by the table that every textbook has.
func minimum(a, b []byte) int {
	x, y := Lines(a), Lines(b)
	row := make([]int, len(y)+1) // longest common subsequence
	for i := range x {
		diagonal := 0
		for j := range y {
			above := row[j+1]
			if bytes.Equal(x[i], y[j]) {
				row[j+1] = diagonal + 1
			} else {
				row[j+1] = max(above, row[j])
			}
			diagonal = above
		}
	}
	return len(x) + len(y) - 2*row[len(y)]
}

// text makes lines out of an alphabet, perhaps with CR LF and without the last terminator.
func text(r *rand.Rand, n, alphabet int) []byte {
	var out []byte
	for range n {
		out = fmt.Appendf(out, "%*s%d\n", r.IntN(2)*2, "", r.IntN(alphabet))
	}
	if r.IntN(4) == 0 {
		out = bytes.TrimSuffix(out, []byte("\n"))
	}
	return out
}

// edit changes a few places of a text.
func edit(r *rand.Rand, a []byte, places, alphabet int) []byte {
	lines := slices.Clone(Lines(a))
	for range r.IntN(places + 1) {
		at := r.IntN(len(lines) + 1)
		end := min(at+r.IntN(3), len(lines))
		lines = slices.Replace(lines, at, end, Lines(text(r, r.IntN(3), alphabet))...)
	}
	return bytes.Join(lines, nil)
}

func TestLines(t *testing.T) {
	for in, want := range map[string][]string{
		"": {}, "\n": {"\n"}, "a": {"a"}, "a\n": {"a\n"}, "a\r\n\nb": {"a\r\n", "\n", "b"}, "\n\n": {"\n", "\n"},
	} {
		got := []string{}
		for _, l := range Lines([]byte(in)) {
			got = append(got, string(l))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	lines := Lines([]byte("a\nb\n"))
	if _ = append(lines[0], 'x'); string(lines[1]) != "b\n" {
		t.Error("appending to a line overwrites the next one")
	}
}

func TestDiff(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want []Change
	}{
		{"", "", nil},
		{"a\n", "a\n", nil},
		{"", "a\n", []Change{{0, 0, 0, 1}}},
		{"a\n", "", []Change{{0, 1, 0, 0}}},
		{"a\n", "a", []Change{{0, 1, 0, 1}}},
		{"a\n", "a\r\n", []Change{{0, 1, 0, 1}}},
		{"a\nb\nc\n", "a\nx\nc\n", []Change{{1, 1, 1, 1}}},
		{"a\nb\nc\n", "x\nb\ny\n", []Change{{0, 1, 0, 1}, {2, 1, 2, 1}}},
		// Put where a block begins, not in the middle of one.
		{"f {\n  a\n}\n\nh {\n  c\n}\n", "f {\n  a\n}\n\ng {\n  b\n}\n\nh {\n  c\n}\n", []Change{{4, 0, 4, 4}}},
		{"f {\n  a\n}\nh {\n  c\n}\n", "f {\n  a\n}\ng {\n  b\n}\nh {\n  c\n}\n", []Change{{3, 0, 3, 3}}},
	} {
		got := Diff([]byte(c.a), []byte(c.b))
		if !slices.Equal(got, c.want) {
			t.Errorf("%q, %q: %v, want %v", c.a, c.b, got, c.want)
		}
	}
}

func TestDiffIsMinimal(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 3000 {
		alphabet := 1 + r.IntN(12)
		a := text(r, r.IntN(60), alphabet)
		b := text(r, r.IntN(60), alphabet)
		if i%2 == 0 {
			b = edit(r, a, 8, alphabet)
		}
		got := Diff(a, b)
		if !bytes.Equal(apply(t, a, b, got), b) {
			t.Fatalf("%q, %q: %v does not lead from one to the other", a, b, got)
		}
		if want := minimum(a, b); cost(got) != want {
			t.Fatalf("%q, %q: %d lines changed, %d would do", a, b, cost(got), want)
		}
	}
}

func TestDiffOfUnrelatedTexts(t *testing.T) {
	// Far beyond maxCost, with the same lines in another order: must be right, and end.
	r := rand.New(rand.NewPCG(3, 4))
	lines := make([][]byte, 40000)
	for i := range lines {
		lines[i] = fmt.Appendf(nil, "%d\n", r.IntN(20000))
	}
	a := bytes.Join(lines, nil)
	r.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	b := bytes.Join(lines, nil)
	start := time.Now()
	if !bytes.Equal(apply(t, a, b, Diff(a, b)), b) {
		t.Error("the changes do not lead from one to the other")
	}
	t.Logf("%d shuffled lines: %v", len(lines), time.Since(start))
}

func TestBinary(t *testing.T) {
	for in, want := range map[string]bool{
		"": false, "text\n": false, "\xff\xfe": false, "a\x00": true, strings.Repeat("x", 8000) + "\x00": false,
		strings.Repeat("x", 7999) + "\x00": true,
	} {
		if Binary([]byte(in)) != want {
			t.Errorf("%.20q (%d bytes): want %v", in, len(in), want)
		}
	}
}

func FuzzDiff(f *testing.F) {
	f.Add([]byte("a\nb\n"), []byte("b\na"))
	f.Add([]byte("a\r\n\r\n"), []byte("\n\n"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		got := Diff(a, b)
		if !bytes.Equal(apply(t, a, b, got), b) {
			t.Errorf("%v does not lead from one to the other", got)
		}
		if len(a) < 2000 && len(b) < 2000 && cost(got) != minimum(a, b) {
			t.Errorf("%d lines changed, %d would do", cost(got), minimum(a, b))
		}
		back := Diff(b, a)
		if cost(back) != cost(got) || !bytes.Equal(apply(t, b, a, back), a) {
			t.Errorf("the other way: %v", back)
		}
	})
}

func BenchmarkDiff(b *testing.B) {
	r := rand.New(rand.NewPCG(5, 6))
	x := text(r, 20000, 1<<30)
	y := edit(r, x, 200, 1<<30)
	b.SetBytes(int64(len(x) + len(y)))
	b.ReportAllocs()
	for b.Loop() {
		Diff(x, y)
	}
}
