package fs_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"

	"wsfs/fs"
	"wsfs/store"
)

// BenchmarkCreate4K is what `tar x` costs per file without the kernel: create, write 4 KiB, close.
func BenchmarkCreate4K(b *testing.B) {
	w := newWorld(b)
	p := make([]byte, 4096)
	b.ReportAllocs()
	b.ResetTimer()
	var dir store.Ino
	for i := range b.N {
		if i%1000 == 0 {
			a, err := w.fs.Mkdir(w.c, store.RootIno, fmt.Sprint("d", i), 0o755)
			w.must(err)
			dir = a.Ino
		}
		copy(p, fmt.Sprint(i))
		_, h, err := w.fs.Create(w.c, dir, fmt.Sprint("f", i), 0o644, syscall.O_WRONLY)
		w.must(err)
		_, err = h.WriteAt(w.c, p, 0, false)
		w.must(err)
		w.must(h.Flush(w.c, 1))
		h.Release(w.c, 1)
	}
	b.StopTimer()
}

// BenchmarkOpenRead4K is open, read, close of a file whose bytes are in memory.
func BenchmarkOpenRead4K(b *testing.B) {
	w := newWorld(b)
	w.write("f", string(make([]byte, 4096)))
	ino := w.walk("f").Ino
	p := make([]byte, 4096)
	b.ReportAllocs()
	for b.Loop() {
		h, err := w.fs.Open(w.c, ino, syscall.O_RDONLY)
		w.must(err)
		_, err = h.ReadAt(w.c, p, 0)
		w.must(err)
		w.must(h.Flush(w.c, 1))
		h.Release(w.c, 1)
	}
}

// BenchmarkLookup is a name and its attributes from memory.
func BenchmarkLookup(b *testing.B) {
	w := newWorld(b)
	w.write("f", "x")
	b.ReportAllocs()
	for b.Loop() {
		a, err := w.fs.Lookup(w.c, store.RootIno, "f")
		w.must(err)
		w.fs.Forget(a.Ino, 1)
	}
}

// BenchmarkLoad is the first listing of a directory of 10,000 files after a start.
func BenchmarkLoad(b *testing.B) {
	w := newWorld(b)
	w.mkdir("d")
	for i := range 10_000 {
		w.write(fmt.Sprintf("d/f%05d", i), "x")
	}
	b.ResetTimer()
	for range b.N {
		b.StopTimer()
		w.reopen()
		b.StartTimer()
		d, err := w.fs.OpenDir(w.c, w.walk("d").Ino)
		w.must(err)
		n := 0
		w.must(d.Read(w.c, 0, func(fs.DirEntry) bool { n++; return true }))
		d.Close()
		if n != 10_002 {
			b.Fatal(n)
		}
	}
}

// BenchmarkEditBack is an edit that brings back a removed tree of 57,200 files, and a move of the pointer that does.
func BenchmarkEditBack(b *testing.B) {
	for _, how := range []string{"edit", "move"} {
		b.Run(how, func(b *testing.B) {
			w := newWorld(b)
			w.mkdir("t")
			for d := range 110 {
				w.mkdir(fmt.Sprintf("t/%d", d))
				for f := range 520 {
					w.write(fmt.Sprintf("t/%d/%d", d, f), "text")
				}
			}
			ctx := context.Background()
			var from, to point
			var err error
			for b.Loop() {
				b.StopTimer()
				to.timeline, to.seq, err = w.fs.Freeze(w.c)
				w.must(err)
				for d := range 110 {
					for f := range 520 {
						w.remove(fmt.Sprintf("t/%d/%d", d, f))
					}
					dir, name := w.split(fmt.Sprintf("t/%d", d))
					w.must(w.fs.Rmdir(w.c, dir, name))
				}
				w.must(w.fs.Rmdir(w.c, 1, "t"))
				h, err := w.fs.Hold(ctx)
				w.must(err)
				from.timeline, from.seq = h.At()
				var e *fs.Edit
				if how == "edit" {
					e = w.editTo(from, to)
				}
				b.StartTimer()
				if how == "edit" {
					_, err = h.Edit(ctx, e)
				} else {
					err = h.Move(ctx, fs.Move{Timeline: to.timeline, Seq: to.seq, Why: "rollback"})
				}
				w.must(err)
				h.Release()
			}
		})
	}
}
