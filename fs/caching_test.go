package fs_test

import (
	"syscall"
	"testing"

	"wsfs/fs"
	"wsfs/store"
)

// TestCaching: an empty file that one handle is open to for nothing but writing is written past a kernel's pages, and then
// so is everybody else, until the pages that came meanwhile have been dropped.
func TestCaching(t *testing.T) {
	w := newWorld(t)
	open := func(name string, flags uint32) *fs.Handle {
		t.Helper()
		a, h, err := w.fs.Create(w.c, store.RootIno, name, 0o644, flags)
		w.must(err)
		w.fs.Forget(a.Ino, 1)
		return h
	}
	check := func(what string, h *fs.Handle, can, past, keep bool) *fs.Handle {
		t.Helper()
		if p, k := h.Caching(can); p != past || k != keep {
			t.Errorf("%s: past %v, keep %v; want %v, %v", what, p, k, past, keep)
		}
		return h
	}
	put := func(h *fs.Handle) {
		t.Helper()
		_, err := h.WriteAt(w.c, []byte("text"), 0, false)
		w.must(err)
	}
	end := func(h *fs.Handle) {
		t.Helper()
		w.must(h.Flush(w.c, 1))
		h.Release(w.c, 1)
	}
	const wr, rd, rdwr = syscall.O_WRONLY, syscall.O_RDONLY, syscall.O_RDWR

	end(check("new, of a kernel that cannot", open("a", wr), false, false, true))
	end(check("new, for reading too", open("b", rdwr), true, false, true))

	h := check("new", open("f", wr), true, true, false)
	put(h)
	end(h)
	end(check("later", open("f", rd), true, false, true))
	end(check("for writing", open("f", wr), true, false, true))
	h = check("cut to nothing", open("f", wr|syscall.O_TRUNC), true, true, false)
	put(h)
	reader := check("meanwhile, for reading", open("f", rd), true, true, false)
	writer := check("meanwhile, for both", open("f", rdwr), true, true, false)
	end(h)
	end(check("while the second writer is there", open("f", rd), true, true, false))
	end(writer)
	end(check("after the last writer", open("f", rd), true, false, false))
	end(check("again", open("f", rd), true, false, true))
	end(reader)

	one := check("two at once, the first", open("two", wr), true, true, false)
	end(check("two at once, the second", open("two", wr), true, true, false))
	end(one)
	other := open("three", wr)
	late := open("three", rd)
	end(check("opened before the kernel knows of the first", late, true, false, true))
	end(check("the first", other, true, true, false))
}
