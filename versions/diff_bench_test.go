package versions

import (
	"context"
	"fmt"
	"syscall"
	"testing"

	"wsfs/blob"
	"wsfs/store"
)

// fill makes dirs directories with files files each, an op for each directory.
func (w *world) fill(dirs, files int) {
	content := []byte("content\n")
	for d := range dirs {
		dir := fmt.Sprintf("dir%d", d)
		w.mkdir(dir)
		p := w.paths[dir]
		op := &store.Op{Kind: store.OpImport, Contents: []blob.Staged{w.st.Blobs().StageSmall(content)}}
		for f := range files {
			ino, name := w.st.NewIno(), fmt.Sprintf("file%d", f)
			w.paths[dir+"/"+name] = ino
			op.Names = append(op.Names, store.Name{Parent: p, Name: name, Ino: ino, Type: syscall.S_IFREG})
			op.Versions = append(op.Versions, store.Version{
				Ino: ino, Mode: syscall.S_IFREG | 0o644, Nlink: 1, Size: int64(len(content)), Content: blob.Sum(content),
			})
			op.Items = append(op.Items, store.Item{Op: store.OpCreate, Ino: ino, Parent: p, Name: name})
		}
		w.append(op)
	}
}

// hundred changes 100 files of a filled tree, a quarter of them each by writing, by saving with replacement, by another name, and by removal.
func (w *world) hundred(text func(n int) string) {
	for n := range 100 {
		path := hundredth(n)
		switch n % 4 {
		case 0:
			w.write(path, text(n))
		case 1:
			w.replace(path, text(n))
		case 2:
			w.rename(path, path+".moved")
		case 3:
			w.remove(path)
		}
	}
}

func hundredth(n int) string { return fmt.Sprintf("dir%d/file%d", n, n*7) }

// BenchmarkDiff is the diff of 100 changes in a tree of 100,000 files: the bar is 20 ms.
func BenchmarkDiff(b *testing.B) {
	w := newWorld(b)
	w.fill(100, 1000)
	before := w.view()
	w.hundred(func(n int) string { return fmt.Sprint("other ", n) })
	after := w.view()
	for b.Loop() {
		list, err := Diff(context.Background(), w.st, before, after, DiffOptions{})
		if err != nil || len(list) != 100 {
			b.Fatal(len(list), err)
		}
	}
}
