package daemon

import (
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// TestThreadOfItsOwn: what goes to another namespace is never the first thread of the process, whose view of the mounts is that of /proc/self.
func TestThreadOfItsOwn(t *testing.T) {
	var first, ran atomic.Int32
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 50 {
				onThreadOfItsOwn(func() {
					ran.Add(1)
					if unix.Gettid() == os.Getpid() {
						first.Add(1)
					}
				})
			}
		})
	}
	wg.Wait()
	if first.Load() > 0 || ran.Load() != 16*50 {
		t.Errorf("%d of %d ran on the first thread", first.Load(), ran.Load())
	}
}
