package blob

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
)

// Options of a Store. The zero value works.
type Options struct {
	// ReadOnly: nothing is written, no directory or file is made; staging fails or has no effect beyond memory.
	ReadOnly bool
	// CacheBytes bounds the cache of decoded blobs; 0 means 64 MiB.
	CacheBytes int64
	// PackSize is the size at which a new pack is begun; 0 means 256 MiB.
	PackSize int64
	// InlineMax is the most stored bytes of a blob that go into its row instead of a pack; 0 means 256, below 0 none.
	InlineMax int
	// Small is how contents of at most MaxBlob bytes are compressed; the zero value means Zstd. They are compressed by
	// Settle, when nobody waits any more.
	Small Encoding
	// Large is how the blobs of large contents are compressed; the zero value means S2. Edit compresses them while
	// close or fsync waits, and reading them back in order is bound by decompression.
	Large Encoding
	// Workers is how many goroutines one large Edit or PutReader may use; 0 means one per CPU.
	Workers int
	// Room is asked before n more bytes of what Put and Edit are given are written; it returns an error that wraps ENOSPC to
	// keep a reserve for what Settle has to write. Nil: there is room until the disk says otherwise.
	Room func(n int64) error
	// At tells a crash test what comes next. Nil: there is none.
	At func(point string)
	// OpenPack opens the pack of that name for reading, of a store that is ReadOnly. Nil: by its path.
	OpenPack func(name string) (*os.File, error)
	// Log gets what is odd but no error of a call. Nil discards it.
	Log *slog.Logger
}

// Store keeps blobs. See the package's documentation for what it promises. All methods may be called from any number
// of goroutines.
type Store struct {
	o       Options
	index   Index
	packs   *packs
	codec   *codec
	cache   *cache
	pending *pending
	bufs    *buffers
	runs    runs
	places  places
	guard   guard
	closed  atomic.Bool
}

// Open opens the blobs in dir, whose packs lie in dir/packs. dir exists; nobody else has it open for writing. index is
// asked for every blob that is not in memory. Open starts no goroutines.
func Open(dir string, index Index, o Options) (*Store, error) {
	if o.CacheBytes <= 0 {
		o.CacheBytes = 64 << 20
	}
	if o.PackSize <= 0 {
		o.PackSize = 256 << 20
	}
	if o.InlineMax == 0 {
		o.InlineMax = 256
	}
	if o.Small == Raw {
		o.Small = Zstd
	}
	if o.Large == Raw {
		o.Large = S2
	}
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	c, err := newCodec()
	if err != nil {
		return nil, err
	}
	p, err := openPacks(filepath.Join(dir, "packs"), o.PackSize, o.ReadOnly, o.Log)
	if err != nil {
		c.close()
		return nil, fmt.Errorf("blob: opening %s: %w", dir, err)
	}
	if o.At != nil {
		p.at = o.At
	}
	if o.OpenPack != nil && o.ReadOnly {
		p.open = func(path string, _ int) (packFile, error) {
			f, err := o.OpenPack(filepath.Base(path))
			if err != nil {
				return nil, err
			}
			return osFile{f}, nil
		}
	}
	return &Store{
		o: o, index: index, packs: p, codec: c,
		cache: newCache(o.CacheBytes), pending: newPending(), bufs: newBuffers(o.Workers),
	}, nil
}

// Close releases the files. It syncs nothing. No call may be running; later ones fail with ErrClosed.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.runs.ahead.Wait()
	err := s.packs.close()
	s.codec.close()
	return err
}

// Sync returns when every blob staged or settled before it was called is on the disk. Concurrent calls share the work.
// After a failure, which is returned, nothing can be written to the store any more.
func (s *Store) Sync() error {
	if s.o.ReadOnly {
		return nil
	}
	return s.packs.sync()
}

// writable says why nothing can be staged, or nil.
func (s *Store) writable() error {
	switch {
	case s.closed.Load():
		return ErrClosed
	case s.o.ReadOnly:
		return ErrReadOnly
	}
	return nil
}

var _ io.Closer = (*Store)(nil)
