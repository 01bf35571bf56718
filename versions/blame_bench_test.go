package versions

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"wsfs/blob"
	"wsfs/store"
)

// benchLines and benchVersions are the case of the bars: a file of 5,000 lines with 1,000 versions.
const benchLines, benchVersions = 5000, 1000

// benchTexts calls save with each version: every one changes three places.
func benchTexts(save func(text string)) {
	r := rand.New(rand.NewPCG(1, 4))
	var lines []string
	for i := range benchLines {
		lines = append(lines, fmt.Sprintf("\treturn f%d(ctx, %d) // what line %d says\n", i%97, i, i))
	}
	save(strings.Join(lines, ""))
	for n := range benchVersions - 1 {
		for k := range 3 {
			lines[r.IntN(len(lines))] = fmt.Sprintf("\tchanged by %d, place %d\n", n, k)
		}
		if n%10 == 0 {
			i := r.IntN(len(lines))
			lines = slices.Insert(slices.Delete(lines, i, i+1), r.IntN(len(lines)-1), fmt.Sprintf("\tmoved %d\n", n))
		}
		save(strings.Join(lines, ""))
	}
}

// BenchmarkBlame is the first blame; every round opens the texts anew.
func BenchmarkBlame(b *testing.B) {
	w := newWorld(b)
	w.create("f", "")
	benchTexts(func(text string) {
		w.command("agent", fmt.Sprint("edit ", w.seq))
		w.writeLarge("f", text)
	})
	ver, err := Find(context.Background(), w.view(), "f", true)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := blame(context.Background(), w.st, ver, BlameRange{}, &blameCache{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkBlameAgain asks for the same once more, and BenchmarkBlameNext for a version that is one edit newer.
func BenchmarkBlameAgain(b *testing.B) { benchBlameKept(b, 0) }
func BenchmarkBlameNext(b *testing.B)  { benchBlameKept(b, 1) }

func benchBlameKept(b *testing.B, newer int) {
	w := newWorld(b)
	w.create("f", "")
	text := ""
	benchTexts(func(t string) {
		w.command("agent", fmt.Sprint("edit ", w.seq))
		w.writeLarge("f", t)
		text = t
	})
	blameOf := func() {
		ver, err := Find(context.Background(), w.view(), "f", true)
		if err == nil {
			_, err = Blame(context.Background(), w.st, ver, BlameRange{})
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	blameOf()
	for i := range newer {
		w.command("agent", fmt.Sprint("edit ", w.seq))
		w.writeLarge("f", strings.Replace(text, "what line 2500 says", fmt.Sprint("edit", i), 1))
	}
	for b.Loop() {
		blameOf()
	}
}

// writeLarge is write for texts of any size.
func (w *world) writeLarge(path, content string) {
	st, err := w.st.Blobs().PutReader(context.Background(), strings.NewReader(content))
	if err != nil {
		w.t.Fatal(err)
	}
	p, name := w.at(path)
	v := w.nodes[w.paths[path]]
	v.Size, v.Content, v.Replaced = st.Content.Size, st.Content.Ref, 0
	w.append(&store.Op{
		Kind: store.OpWrite, Versions: []store.Version{v}, Items: []store.Item{{Op: store.OpWrite, Ino: v.Ino, Parent: p, Name: name}},
		Contents: []blob.Staged{st},
	})
}

// BenchmarkGitBlame is the same history in git.
func BenchmarkGitBlame(b *testing.B) {
	if _, err := exec.LookPath("git"); err != nil {
		b.Skip("git is not installed")
	}
	dir := b.TempDir()
	git := exec.Command("git", "fast-import", "--quiet")
	git.Dir = dir
	git.Stderr = os.Stderr
	if out, err := exec.Command("git", "init", "-q", dir).CombinedOutput(); err != nil {
		b.Fatalf("%v %s", err, out)
	}
	in, err := os.Create(filepath.Join(dir, "stream"))
	if err != nil {
		b.Fatal(err)
	}
	n := 0
	benchTexts(func(text string) {
		n++
		fmt.Fprintf(in, "commit refs/heads/main\ncommitter A <a@b> %d +0000\ndata 1\nx\nM 100644 inline f\ndata %d\n%s\n", 1e9+n, len(text), text)
	})
	if _, err := in.Seek(0, 0); err != nil {
		b.Fatal(err)
	}
	git.Stdin = in
	if err := git.Run(); err != nil {
		b.Fatal(err)
	}
	_ = in.Close()
	for b.Loop() {
		blame := exec.Command("git", "blame", "-s", "main", "--", "f")
		blame.Dir = dir
		if out, err := blame.CombinedOutput(); err != nil {
			b.Fatalf("%v %.200s", err, out)
		}
	}
}
