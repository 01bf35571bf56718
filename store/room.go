package store

import (
	"fmt"
	"sync"
	"syscall"
	"time"
)

// room is how much of the store's disk may still be taken by content. What is in the journal has to find room in the
// database and in packs later, and what makes room again, removing and taking back, needs some itself. So content is
// refused, where its writer can still be told, while a reserve is left; everything else may use that up.
//
// The disk is asked at most every few milliseconds, and seldom while there is much room: others use it too.
type room struct {
	dir  string
	disk func(dir string) (free, total int64, err error) // bytes; for tests, too

	mu      sync.Mutex
	at      time.Time // guarded by mu; when the disk was asked
	free    int64     // guarded by mu; bytes above the reserve, then
	reserve int64     // guarded by mu
	taken   int64     // guarded by mu; since then
	asking  bool      // guarded by mu; askBeside runs
}

const (
	reserveMost  = 32 << 20 // a segment of the journal, a log of the database and its pages
	reserveShare = 16       // of a small disk the reserve is this part
	roomAge      = 10 * time.Millisecond
	roomAgeMuch  = time.Second // while there is
	roomMuch     = 1 << 30
)

func newRoom(dir string) *room { return &room{dir: dir, disk: diskRoom} }

func diskRoom(dir string) (free, total int64, err error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return 0, 0, err
	}
	return int64(fs.Bavail) * fs.Bsize, int64(fs.Blocks) * fs.Bsize, nil
}

// take asks for n bytes of content beside waiting ones, which are in the journal alone. The error wraps ENOSPC; then
// nothing was taken. Where the disk has to be asked first, which may stall, block is called before; it may be nil.
func (r *room) take(n, waiting int64, block func()) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	age, left := time.Since(r.at), r.free-r.taken-waiting-n
	switch {
	case age <= roomAge || left > roomMuch && age <= roomAgeMuch:
	case left > roomMuch: // it will not have gone: nobody has to wait
		if !r.asking {
			r.asking = true
			go r.askBeside()
		}
	default:
		r.mu.Unlock()
		if block != nil {
			block()
		}
		free, total, err := r.disk(r.dir)
		r.mu.Lock()
		if err != nil {
			return nil // whoever writes will find out
		}
		r.answer(free, total)
	}
	if r.free-r.taken-waiting < n {
		return fmt.Errorf("keep %d bytes more on the disk of store %s: %d MiB are kept for removing and undoing: %w",
			n, r.dir, r.reserve>>20, syscall.ENOSPC)
	}
	r.taken += n
	return nil
}

func (r *room) askBeside() {
	free, total, err := r.disk(r.dir)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asking = false
	if err == nil {
		r.answer(free, total)
	}
}

// answer is what the disk said. mu is held.
func (r *room) answer(free, total int64) {
	r.at, r.taken = time.Now(), 0
	r.reserve = min(reserveMost, total/reserveShare)
	r.free = free - r.reserve
}

// Room returns an error that wraps ENOSPC if the store's disk has no room for n more bytes of content. Whoever can still
// tell a writer asks here before the bytes are staged, with no lock of a whole tree held: the disk may be asked. block is called before that
// may wait, and may be nil.
func (s *Store) Room(n int64, block func()) error {
	if s.pipe == nil {
		return nil
	}
	return s.room.take(n, s.pipe.waiting.Load(), block)
}
