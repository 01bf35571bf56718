package fuse

import (
	"bytes"
	"os"
	"sync"
	"syscall"
	"testing"
)

// TestPastPages: the bytes of a new file go past the kernel's pages (fs.Handle.Caching). Whoever reads or maps it meanwhile
// sees them, at once or, in a mapping, soon; and nobody finds old pages afterwards.
func TestPastPages(t *testing.T) {
	s := startStore(t, serveConfig{})
	const pieces, size = 3000, 37
	want := make([]byte, pieces*size)
	for i := range want {
		want[i] = byte(i%251) + 1 // never the zero of a page that was filled too early
	}
	path := s.path("f")
	w, err := syscall.Open(path, syscall.O_WRONLY|syscall.O_CREAT|syscall.O_EXCL|syscall.O_CLOEXEC, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	write := func(p []byte) {
		if n, err := syscall.Write(w, p); err != nil || n != len(p) {
			t.Errorf("write: %d, %v", n, err)
		}
	}
	write(want[:size])
	early, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer early.Close()
	shared, err := syscall.Mmap(int(early.Fd()), 0, len(want), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		t.Fatalf("map a file that is being written: %v", err)
	}
	defer func() { _ = syscall.Munmap(shared) }()
	if !bytes.Equal(shared[:size], want[:size]) {
		t.Errorf("mapped: %q, want %q", shared[:size], want[:size])
	}
	stop := make(chan struct{})
	var readers sync.WaitGroup
	reader := func(look func() ([]byte, error)) {
		readers.Add(1)
		go func() {
			defer readers.Done()
			for {
				got, err := look()
				if err != nil || len(got) < size || !bytes.Equal(got, want[:len(got)]) {
					t.Errorf("read %d bytes, %v: not what was written", len(got), err)
					return
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		}()
	}
	reader(func() ([]byte, error) { return os.ReadFile(path) })
	reader(func() ([]byte, error) {
		buf := make([]byte, len(want))
		n, _ := early.ReadAt(buf, 0)
		return buf[:n], nil
	})
	for i := 1; i < pieces; i++ {
		write(want[i*size : (i+1)*size])
		if i%50 == 0 {
			_ = shared[i*size] // fill a page while it is being written
		}
	}
	close(stop)
	readers.Wait()
	if err := syscall.Close(w); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("after the close: %d bytes, %v, want %d", len(got), err, len(want))
		}
	}
	waitFor(t, func() bool { return bytes.Equal(shared, want) })
}

// TestPastPagesPrivileges: what a write takes from a file it also takes where the kernel does not ask first.
func TestPastPagesPrivileges(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	s := startStore(t, serveConfig{})
	fd, err := syscall.Open(s.path("f"), syscall.O_WRONLY|syscall.O_CREAT|syscall.O_EXCL|syscall.O_CLOEXEC, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	capability := []byte{1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0} // VFS_CAP_REVISION_2, effective: CAP_NET_RAW
	if err := syscall.Setxattr(s.path("f"), "security.capability", capability, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := syscall.Write(fd, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if n, err := syscall.Getxattr(s.path("f"), "security.capability", make([]byte, 64)); err != syscall.ENODATA {
		t.Errorf("file capabilities after a write: %d bytes, %v, want ENODATA", n, err)
	}
}
