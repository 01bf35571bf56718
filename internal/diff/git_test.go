package diff

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// git runs a command of git's in dir and returns its output and exit code.
func git(t testing.TB, dir string, args ...string) ([]byte, int) {
	t.Helper()
	c := exec.Command("git", args...)
	c.Dir = dir
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C"}
	var stderr strings.Builder
	c.Stderr = &stderr
	out, err := c.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if exit.ExitCode() < 0 || exit.ExitCode() >= 128 {
			t.Fatalf("git %q: %v\n%s", args, err, stderr.String())
		}
		return out, exit.ExitCode()
	}
	if err != nil {
		t.Fatalf("git %q: %v", args, err)
	}
	return out, 0
}

func save(t testing.TB, dir, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// count returns the hunks and changed lines of a unified diff.
func count(patch []byte) (hunks, lines int) {
	for _, l := range Lines(patch) {
		switch {
		case bytes.HasPrefix(l, []byte("@@ ")):
			hunks++
		case hunks > 0 && (l[0] == '+' || l[0] == '-'):
			lines++
		}
	}
	return hunks, lines
}

func TestUnifiedAgainstGit(t *testing.T) {
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(7, 8))
	ourHunks, gitHunks, same, n := 0, 0, 0, 150
	for i := range n {
		alphabet := []int{3, 30, 1 << 30}[i%3]
		a := text(r, r.IntN(120), alphabet)
		b := edit(r, a, 8, alphabet)
		if i%10 == 0 {
			a = bytes.ReplaceAll(a, []byte("\n"), []byte("\r\n"))
		}
		save(t, dir, "a", a)
		save(t, dir, "b", b)
		got := Unified(a, b, Options{OldName: "a/f", NewName: "b/f"})
		want, _ := git(t, dir, "diff", "--no-index", "--no-color", "--minimal", "a", "b")
		hunks, lines := count(got)
		wantHunks, wantLines := count(want)
		if lines != wantLines {
			t.Errorf("%q, %q: %d lines, git has %d", a, b, lines, wantLines)
		}
		ourHunks, gitHunks = ourHunks+hunks, gitHunks+wantHunks
		if bytes.Equal(body(got), body(want)) {
			same++
		}
		// What we write, git can apply.
		if len(got) == 0 {
			continue
		}
		save(t, dir, "f.patch", got)
		save(t, dir, "f", a)
		if out, code := git(t, dir, "apply", "--whitespace=nowarn", "f.patch"); code != 0 {
			t.Fatalf("git apply: %d\n%s\n%s", code, out, got)
		}
		after, err := os.ReadFile(filepath.Join(dir, "f"))
		if err != nil || !bytes.Equal(after, b) {
			t.Fatalf("git apply made %q, want %q (%v)\n%s", after, b, err, got)
		}
	}
	t.Logf("of %d, %d are byte for byte what git says; %d hunks, git %d", n, same, ourHunks, gitHunks)
	if ourHunks > gitHunks*11/10 || ourHunks < gitHunks*9/10 {
		t.Errorf("%d hunks, git has %d", ourHunks, gitHunks)
	}
}

// body is a diff from its first hunk on.
func body(patch []byte) []byte {
	_, after, _ := bytes.Cut(patch, []byte("\n@@ "))
	return after
}

func TestUnified(t *testing.T) {
	for _, c := range []struct {
		a, b string
		o    Options
		want string
	}{
		{"a\n", "a\n", Options{OldName: "x"}, ""},
		{"", "a\n", Options{OldName: "x", NewName: "y"}, "--- x\n+++ y\n@@ -0,0 +1 @@\n+a\n"},
		{"a\n", "a", Options{}, "@@ -1 +1 @@\n-a\n+a\n\\ No newline at end of file\n"},
		{"a", "", Options{}, "@@ -1 +0,0 @@\n-a\n\\ No newline at end of file\n"},
		{"1\n2\n3\n4\n5\n", "1\n2\nx\n4\n5\n", Options{Context: 1}, "@@ -2,3 +2,3 @@\n 2\n-3\n+x\n 4\n"},
		{"1\n2\n3\n", "1\n3\n", Options{Context: -1}, "@@ -2 +1,0 @@\n-2\n"},
		{"1\n2\n3\n4\n5\n", "x\n2\n3\n4\ny\n", Options{Context: 1}, "@@ -1,2 +1,2 @@\n-1\n+x\n 2\n@@ -4,2 +4,2 @@\n 4\n-5\n+y\n"},
		{"1\n2\n3\n4\n", "x\n2\n3\ny\n", Options{Context: 1}, "@@ -1,4 +1,4 @@\n-1\n+x\n 2\n 3\n-4\n+y\n"},
		{"a\r\n", "a\n", Options{}, "@@ -1 +1 @@\n-a\r\n+a\n"},
		{"a\x00", "b", Options{OldName: "x", NewName: "y"}, "Binary files x and y differ\n"},
	} {
		if got := string(Unified([]byte(c.a), []byte(c.b), c.o)); got != c.want {
			t.Errorf("%q, %q: got\n%s\nwant\n%s", c.a, c.b, got, c.want)
		}
	}
}

func TestMergeAgainstGit(t *testing.T) {
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(9, 10))
	n, clean, differ := 600, 0, 0
	for i := range n {
		alphabet := []int{3, 30, 1 << 30}[i%3]
		base := text(r, r.IntN(40), alphabet)
		ours, theirs := edit(r, base, 3, alphabet), edit(r, base, 3, alphabet)
		if i%10 == 0 {
			for _, p := range []*[]byte{&base, &ours, &theirs} {
				*p = bytes.ReplaceAll(*p, []byte("\n"), []byte("\r\n"))
			}
		}
		save(t, dir, "base", base)
		save(t, dir, "ours", ours)
		save(t, dir, "theirs", theirs)
		want, code := git(t, dir, "merge-file", "-p", "-L", "ours", "-L", "base", "-L", "theirs", "ours", "base", "theirs")
		got, conflicts, ok := Merge3(base, ours, theirs)
		if ok {
			clean++
		}
		if ok != (code == 0) || len(conflicts) != code || !bytes.Equal(got, want) {
			differ++
			t.Logf("base %q\nours %q\ntheirs %q\ngot  %d conflicts, %q\ngit: %d conflicts, %q", base, ours, theirs, len(conflicts), got, code, want)
		}
		checkHunks(t, got, ours, theirs, conflicts)
	}
	t.Logf("%d merges, %d clean, %d not as git has it", n, clean, differ)
	// Where a change can stand in several places, git's heuristics may choose another one than ours.
	if differ > n/100 {
		t.Errorf("%d of %d merges are not as git has them", differ, n)
	}
}

// checkHunks compares the blocks in a merged text with what the hunks say.
func checkHunks(t testing.TB, merged, ours, theirs []byte, conflicts []Hunk) {
	t.Helper()
	m, x, y := Lines(merged), Lines(ours), Lines(theirs)
	for _, h := range conflicts {
		block := m[h.Merged.Start:h.Merged.End]
		eol := strings.TrimPrefix(string(block[0]), markOurs)
		want := markOurs + eol + ended(h.Ours.of(x), eol) + markMiddle + eol + ended(h.Theirs.of(y), eol) + markTheirs + eol
		if got := string(bytes.Join(block, nil)); got != want || eol != "\n" && eol != "\r\n" {
			t.Errorf("hunk %+v: block %q, want %q", h, got, want)
		}
	}
}

func ended(lines [][]byte, eol string) string {
	s := string(bytes.Join(lines, nil))
	if s != "" && !strings.HasSuffix(s, "\n") {
		s += eol
	}
	return s
}
