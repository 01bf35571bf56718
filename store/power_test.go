package store_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"wsfs/store"
)

// A power cut, simulated by shutting the file system down below the store: what only the page cache had is gone. What
// was synced is there, and of the rest a prefix.
func TestPowerCut(t *testing.T) {
	image := filepath.Join(t.TempDir(), "image")
	disk := t.TempDir()
	run := func(name string, args ...string) error {
		out, err := exec.Command(name, args...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s %v: %w: %s", name, args, err, out)
		}
		return nil
	}
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, 300<<20); err != nil {
		t.Fatal(err)
	}
	if err := run("mkfs.ext4", "-q", "-F", image); err != nil {
		t.Skipf("needs an ext4 image: %v", err)
	}
	mount := func() error { return run("mount", "-o", "loop", image, disk) }
	if err := mount(); err != nil {
		t.Skipf("needs to mount an image: %v", err)
	}
	t.Cleanup(func() {
		if err := run("umount", disk); err != nil {
			t.Error(err)
		}
	})
	dir := filepath.Join(disk, "store")
	makeKillStore(t, dir)
	r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	head := store.Seq(1)
	rounds, lost := 10, 0
	for range rounds {
		acked, synced := stop(t, dir, "", time.Duration(150+r.IntN(400))*time.Millisecond, true, func() {
			if err := shutdown(disk); err != nil {
				t.Errorf("shut the file system down: %v", err)
			}
		})
		if t.Failed() {
			return
		}
		if err := run("umount", disk); err != nil {
			t.Fatal(err)
		}
		if err := mount(); err != nil {
			t.Fatal(err)
		}
		was := head
		if head = verify(t, dir, min(head, synced), synced, true); head < acked {
			lost += int(acked - head)
		}
		if head < was {
			t.Fatalf("the store ended at %d, synced, and ends at %d now", was, head)
		}
	}
	t.Logf("%d power cuts; of what was not synced %d changes are lost, %d are there", rounds, lost, head-1)
}

// shutdown stops all writing to the file system of dir, without flushing its journal.
func shutdown(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	const ioctl = 0x8004587d // FS_IOC_SHUTDOWN
	flag := uint32(2)        // FS_SHUTDOWN_FLAGS_NOLOGFLUSH
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), ioctl, uintptr(unsafe.Pointer(&flag))); errno != 0 {
		return errno
	}
	return nil
}
