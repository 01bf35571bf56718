package fstest_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestDiskFull fills the disk below a store through a mount. Whoever writes gets ENOSPC, from the write or from the close,
// and never a file that looks whole; what was there stays as it was, can be read, moved, removed and undone; and when
// there is room again, everything goes on, before and after a kill.
func TestDiskFull(t *testing.T) {
	p := newPoweredOf(t, "160M")
	ballast := filepath.Join(p.disk, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 48<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	at := func(i int) string { return filepath.Join(p.dir, fmt.Sprintf("f%04d", i)) }
	data := func(i int) []byte {
		b := make([]byte, []int{3000, 70_000, 400_000, 1_500_000}[i%4])
		_, _ = rand.NewChaCha8([32]byte{byte(i), byte(i >> 8)}).Read(b)
		return b
	}
	have := map[int]bool{}
	check := func(when string) {
		t.Helper()
		for i := range have {
			if b, err := os.ReadFile(at(i)); err != nil || !bytes.Equal(b, data(i)) {
				t.Fatalf("%s: file %d has %d bytes that it should not have (%v)", when, i, len(b), err)
			}
		}
	}
	fill := func(from int) int {
		t.Helper()
		full := 0
		for i := from; full < 12; i++ { // of each size, three times in a row
			if i > from+4000 {
				t.Fatal("the disk never got full")
			}
			err := os.WriteFile(at(i), data(i), 0o644)
			switch {
			case err == nil:
				have[i], full = true, 0
			case errors.Is(err, syscall.ENOSPC):
				full++
				_ = os.Remove(at(i)) // what a failed write leaves is the writer's to clear
			default:
				t.Fatalf("file %d: %v", i, err)
			}
		}
		return from + 5000
	}
	next := fill(0)
	t.Logf("full after %d files", len(have))
	check("full")
	// On the full disk: names can be moved and removed, an undo brings them back, and what is too large changes nothing.
	if err := os.Rename(at(0), at(0)+".moved"); err != nil {
		t.Errorf("rename on a full disk: %v", err)
	}
	if err := os.Rename(at(0)+".moved", at(0)); err != nil {
		t.Errorf("rename on a full disk: %v", err)
	}
	script(t, p.dir, time.Minute, `env WSFS_SESSION=remover rm f0001 f0002 || exit 1; test ! -e f0001`)
	if _, msg, code := p.try("undo", "--workspace", "main", "--session", "remover"); code != 0 {
		t.Errorf("undo on a full disk ended with %d: %s", code, msg)
	}
	f, err := os.OpenFile(at(3), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = f.WriteAt(data(3)[:4096], 0); err == nil {
		err = f.Close() // the same bytes: no change
	}
	if err != nil && !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("write the same bytes on a full disk: %v", err)
	}
	check("after an undo")
	p.kill()
	tear(p.dir)
	if _, msg, code := p.try("mount", "main", p.dir); code != 0 {
		t.Logf("mount on a full disk ended with %d: %s", code, msg)
	} else {
		check("mounted on the full disk")
		p.kill()
		tear(p.dir)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	p.remount("main", p.dir)
	check("mounted with room again")
	before := len(have)
	fill(next)
	if len(have) < before+8 {
		t.Errorf("there were 48 MiB of room again, and %d files more", len(have)-before)
	}
	check("full again")
	p.wsfs("umount", p.dir)
	p.wsfs("check")
}
