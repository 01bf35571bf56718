package blob

import (
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxOpenPacks bounds the descriptors kept open for reading.
const maxOpenPacks = 128

// packFile is what packs need of an open file; tests put failing ones in its place.
type packFile interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Truncate(size int64) error
	Datasync() error
}

type osFile struct{ *os.File }

// Datasync returns when the file's bytes and its length are on the disk.
func (f osFile) Datasync() error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// startWriting begins to bring bytes to the disk and does not wait: a Datasync that follows has less to do.
func (f osFile) startWriting(off, n int64) {
	_ = unix.SyncFileRange(int(f.Fd()), off, n, unix.SYNC_FILE_RANGE_WRITE) // Datasync tells what is wrong
}

func openFile(path string, flag int) (packFile, error) {
	f, err := os.OpenFile(path, flag|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

// packs is the directory of pack files. Safe for any number of goroutines.
//
// Locks: syncMu before mu. mu is not held while bytes are written or synced.
type packs struct {
	dir      string
	packSize int64
	log      *slog.Logger
	open     func(path string, flag int) (packFile, error)
	at       func(point string) // see Options.At

	syncMu sync.Mutex // one sync at a time: who waits for it finds most of the work done

	mu     sync.Mutex
	files  map[uint32]packFile // guarded by mu; open packs, for reading; the current one also for writing
	order  []uint32            // guarded by mu; keys of files without cur, oldest first
	cur    uint32              // guarded by mu; the pack appended to, 0 before the first
	end    int64               // guarded by mu; where the next record of cur goes
	last   uint32              // guarded by mu; the highest number in use
	dirty  map[uint32]packFile // guarded by mu; written since the last sync
	busy   map[uint32]packFile // guarded by mu; being synced now, so not to be closed
	newDir bool                // guarded by mu; a pack was created since the last sync
	poison error               // guarded by mu; set by a failed sync, for good
}

// openPacks looks for the last pack in dir and goes on behind its end. With readOnly it only reads.
func openPacks(dir string, packSize int64, readOnly bool, log *slog.Logger) (*packs, error) {
	p := &packs{
		dir: dir, packSize: packSize, log: log, open: openFile,
		files: map[uint32]packFile{}, dirty: map[uint32]packFile{}, at: func(string) {},
	}
	if readOnly {
		return p, nil
	}
	if err := os.Mkdir(dir, 0o700); err == nil {
		if err := syncDir(filepath.Dir(dir)); err != nil {
			return nil, fmt.Errorf("blob: making the directory %s durable: %w", dir, err)
		}
	} else if !errors.Is(err, iofs.ErrExist) {
		return nil, fmt.Errorf("blob: making the directory for packs: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("blob: listing packs: %w", err)
	}
	for _, e := range entries {
		if n, ok := parsePackName(e.Name()); ok {
			p.last = max(p.last, n)
		}
	}
	if p.last == 0 {
		return p, nil
	}
	return p, p.resume(p.last)
}

// resume makes pack n the current one if it is whole enough to append to. If not, the next append starts a new one.
func (p *packs) resume(n uint32) error {
	path := p.path(n)
	st, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("blob: opening the last pack: %w", err)
	}
	if st.Size() >= p.packSize {
		return nil
	}
	f, err := p.open(path, os.O_RDWR)
	if err != nil {
		return fmt.Errorf("blob: opening the last pack: %w", err)
	}
	var h [packHeader]byte
	if _, err := f.ReadAt(h[:], 0); err == nil {
		err = checkPackHeader(h[:], n)
		if err == nil {
			p.cur, p.end, p.files[n] = n, st.Size(), f
			return nil
		}
		p.log.Warn("last pack is not appended to; a new one is started", "pack", path, "why", err)
	}
	return f.Close()
}

func (p *packs) path(n uint32) string { return filepath.Join(p.dir, PackName(n)) }

func parsePackName(name string) (n uint32, ok bool) {
	if len(name) != len("00000000.pack") || name[8:] != ".pack" {
		return 0, false
	}
	for _, c := range []byte(name[:8]) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + uint32(c-'0')
	}
	return n, n > 0
}

// append writes b, one or more whole records, and returns where it begins. On an error nothing that was appended
// before is touched, and b is nowhere.
func (p *packs) append(b []byte) (pack uint32, off int64, err error) {
	p.mu.Lock()
	if err := p.writable(); err != nil {
		p.mu.Unlock()
		return 0, 0, err
	}
	pack, off = p.cur, p.end
	p.end += int64(len(b))
	f := p.files[pack]
	p.mu.Unlock()

	_, err = f.WriteAt(b, off)

	p.mu.Lock()
	defer p.mu.Unlock()
	p.dirty[pack] = f // also after an error: part of it may be there
	if err == nil {
		return pack, off, nil
	}
	// Give the room back if nothing came behind it, so that a full disk does not leave a pack full of gaps.
	if p.cur == pack && p.end == off+int64(len(b)) {
		p.end = off
	}
	return 0, 0, fmt.Errorf("blob: appending %d bytes to %s at %d: %w", len(b), p.path(pack), off, err)
}

// writable makes sure that there is a current pack with room. Called with mu held.
func (p *packs) writable() error {
	if p.poison != nil {
		return p.poison
	}
	if p.cur != 0 && p.end < p.packSize {
		return nil
	}
	n := p.last + 1
	path := p.path(n)
	f, err := p.open(path, os.O_RDWR|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return fmt.Errorf("blob: starting a new pack: %w", err)
	}
	p.at("pack begun")
	p.last = n // used up even if the header fails: its name may exist now
	if _, err := f.WriteAt(appendPackHeader(nil, n), 0); err != nil {
		err = errors.Join(err, f.Close())
		return fmt.Errorf("blob: starting the pack %s: %w", path, err)
	}
	p.at("pack started")
	if p.cur != 0 {
		p.order = append(p.order, p.cur)
	}
	p.cur, p.end, p.files[n], p.dirty[n], p.newDir = n, packHeader, f, f, true
	p.evict()
	return nil
}

// reserve keeps appends from overwriting what a location names, even if the file is shorter than that.
func (p *packs) reserve(loc Location) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = max(p.last, loc.Pack)
	if loc.Pack == p.cur {
		p.end = max(p.end, loc.Offset+loc.Length)
	} else if loc.Pack > p.cur && p.cur != 0 {
		p.order = append(p.order, p.cur)
		p.cur = 0 // a pack that came later is gone or unusable: go on behind it
	}
}

// sync returns when every append that returned before is on the disk. A failure is final: what the kernel still holds
// of the failed write is unknown, so trying again could call lost bytes safe.
func (p *packs) sync() error {
	p.syncMu.Lock()
	defer p.syncMu.Unlock()
	p.mu.Lock()
	if p.poison != nil {
		p.mu.Unlock()
		return p.poison
	}
	dirty, newDir := p.dirty, p.newDir
	if len(dirty) == 0 && !newDir {
		p.mu.Unlock()
		return nil
	}
	p.dirty, p.busy, p.newDir = map[uint32]packFile{}, dirty, false
	p.mu.Unlock()

	var err error
	for n, f := range dirty {
		if e := f.Datasync(); e != nil {
			err = fmt.Errorf("blob: syncing %s: %w", p.path(n), e)
		}
	}
	if newDir && err == nil {
		if e := syncDir(p.dir); e != nil {
			err = fmt.Errorf("blob: syncing the directory %s: %w", p.dir, e)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy = nil
	if err != nil {
		p.poison = fmt.Errorf("%w; nothing more is written: check the disk, then start again", err)
		return p.poison
	}
	p.evict()
	return nil
}

// readAt fills b from a pack.
func (p *packs) readAt(b []byte, pack uint32, off int64) error {
	for {
		f, err := p.file(pack)
		if err != nil {
			return err
		}
		n, err := f.ReadAt(b, off)
		if n == len(b) {
			return nil
		}
		if errors.Is(err, os.ErrClosed) {
			p.mu.Lock()
			closed := p.files == nil
			p.mu.Unlock()
			if !closed {
				continue // it was evicted in between
			}
			return ErrClosed
		}
		return err
	}
}

// readSome is readAt that may end early, at the end of the pack.
func (p *packs) readSome(b []byte, pack uint32, off int64) (int, error) {
	f, err := p.file(pack)
	if err != nil {
		return 0, err
	}
	n, err := f.ReadAt(b, off)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// file returns the pack, open for reading.
func (p *packs) file(n uint32) (packFile, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.files == nil {
		return nil, ErrClosed
	}
	if f := p.files[n]; f != nil {
		return f, nil
	}
	f, err := p.open(p.path(n), os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	p.files[n] = f
	p.order = append(p.order, n)
	p.evict()
	return f, nil
}

// evict closes the packs that were opened longest ago, but none that has to be synced. Called with mu held.
func (p *packs) evict() {
	for i := 0; len(p.order) > maxOpenPacks && i < len(p.order); {
		n := p.order[i]
		if p.dirty[n] != nil || p.busy[n] != nil {
			i++
			continue
		}
		if err := p.files[n].Close(); err != nil {
			p.log.Warn("closing a pack that was only read", "pack", p.path(n), "err", err)
		}
		delete(p.files, n)
		p.order = append(p.order[:i], p.order[i+1:]...)
	}
}

func (p *packs) close() error {
	p.syncMu.Lock()
	defer p.syncMu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	var err error
	for _, f := range p.files {
		err = errors.Join(err, f.Close())
	}
	p.files, p.poison = nil, ErrClosed
	return err
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// startWriting begins to bring what was appended to the disk, where files can do that.
func (p *packs) startWriting(pack uint32, off, n int64) {
	p.mu.Lock()
	f := p.files[pack]
	p.mu.Unlock()
	if f, ok := f.(interface{ startWriting(off, n int64) }); ok {
		f.startWriting(off, n)
	}
}
