package control

import (
	"context"
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"wsfs/fs"
)

func TestSplit(t *testing.T) {
	for _, c := range []struct {
		line string
		want []string
		bad  bool
	}{
		{"", nil, false},
		{"  undo\t--command 12 ", []string{"undo", "--command", "12"}, false},
		{`undo 'a b' "c'd" e\ f`, []string{"undo", "a b", "c'd", "e f"}, false},
		{`tag ''`, []string{"tag", ""}, false},
		{`a"b"'c'd`, []string{"abcd"}, false},
		{`"a\"b" 'a\b'`, []string{`a"b`, `a\b`}, false},
		{"undo \xff\xfe", []string{"undo", "\xff\xfe"}, false},
		{"undo 'a\nb'", []string{"undo", "a\nb"}, false},
		{"undo\nredo", nil, true},
		{"undo 'a", nil, true},
		{`undo a\`, nil, true},
		{"undo\x00", nil, true},
	} {
		got, err := Split(c.line)
		if (err != nil) != c.bad || !c.bad && !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, %v", c.line, got, err)
		}
	}
}

func FuzzSplit(f *testing.F) {
	f.Add(`undo 'a b' "c" d\ e`)
	f.Fuzz(func(t *testing.T, line string) {
		words, err := Split(line)
		if err != nil {
			return
		}
		quoted := make([]string, len(words))
		for i, w := range words {
			if strings.ContainsRune(w, 0) {
				t.Fatalf("%q holds a NUL", w)
			}
			quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		again, err := Split(strings.Join(quoted, " "))
		if err != nil || !slices.Equal(again, words) {
			t.Errorf("%q: %q, and quoted %q, %v", line, words, again, err)
		}
	})
}

func TestResult(t *testing.T) {
	var l lastResult
	if got := l.text(); len(got) != 0 {
		t.Errorf("before the first command: %q", got)
	}
	l.set(time.Unix(1, 0), "undo \x1b[0m", Result{Text: "no\n", Exit: 4, Errno: syscall.EBUSY})
	if got, want := string(l.text()), "command undo ^[[0m\ntime 1970-01-01T00:00:01Z\nexit 4\n\nno\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A long text is made in steps, and is the same wherever one reads.
func TestFileGrows(t *testing.T) {
	const lines = 40_000
	var asked []int
	f := &file{make: func(_ context.Context, limit int) ([]byte, bool, error) {
		asked = append(asked, limit)
		return []byte(strings.Repeat("line\n", min(limit, lines))), limit < lines, nil
	}}
	c := &fs.Call{}
	buf := make([]byte, 4096)
	if n, err := f.ReadAt(c, buf, 0); n != len(buf) || err != nil || len(asked) != 1 {
		t.Errorf("%d, %v, made for %v", n, err, asked)
	}
	if n, err := f.ReadAt(c, buf, 5*lines-3); n != 3 || err != nil || string(buf[:3]) != "ne\n" {
		t.Errorf("at the end: %q, %v", buf[:n], err)
	}
	if n, err := f.ReadAt(c, buf, 5*lines); n != 0 || err != nil || len(asked) != 3 {
		t.Errorf("behind the end: %d, %v, made for %v", n, err, asked)
	}
	if n, err := f.ReadAt(c, buf, 5*firstLimit-4096); n != len(buf) || err != nil || string(buf[:4]) != "\nlin" {
		t.Errorf("before what was made first: %q, %v", buf[:8], err)
	}
	bad := errors.New("no")
	g := whole(func(context.Context) ([]byte, error) { return nil, bad })
	if _, err := g.ReadAt(c, buf, 0); !errors.Is(err, bad) {
		t.Error(err)
	}
	if _, err := g.WriteAt(c, buf, 0); err == nil {
		t.Error("it can be written")
	}
}
