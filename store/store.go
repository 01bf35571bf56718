package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"wsfs/blob"
)

// Options of Open. The zero value works.
type Options struct {
	// ReadOnly opens without the lock, beside a writer if there is one: what the writer has applied is visible.
	ReadOnly bool
	// Socket is where this process will answer; it is written into the lock file so that others find it.
	Socket string
	// Log gets what is odd but no error of a call. Nil discards it.
	Log *slog.Logger
	// Now is the clock. Nil: time.Now.
	Now func() time.Time
	// GroupOps is how many ops one database transaction applies at most; 0: as many as have come while the one before was
	// applied, up to 8192.
	GroupOps int
	// GroupDelay: the applier waits for more ops until none came for so long, at most 50 times that; 0: 20 ms. Nobody who
	// wants the database to have his op waits for it (Apply).
	GroupDelay time.Duration
	// MaxPending is how many bytes of memory ops may take that wait for the database before Wait blocks; 0: 128 MiB.
	MaxPending int64
	// SegmentBytes is the size of a journal segment; 0: 16 MiB. Two of them are reserved on the disk while the store is
	// open, so that an op is never accepted that finds no room.
	SegmentBytes int64
	// MergeAfter is how many segments a read path may have below a timeline before neighbours are merged into hidden ones;
	// 0: 8, negative: never.
	MergeAfter int
	// crashPoint is called at the fault points: named places of everything that a kill might leave half done. Crash tests
	// stop the process there.
	crashPoint func(point string)
	// Blob are the options of the blob store; ReadOnly and Log are set from these.
	Blob blob.Options
}

// Store is one database plus its blobs. All methods may be called from any number of goroutines.
type Store struct {
	dir   string
	drv   Driver
	o     Options
	r     *readers
	w     *writer  // nil if read-only, as are a, merge, lock and pipe
	a     *applier // used only by the goroutine that applies
	merge *merger
	blobs *blob.Store
	lock  *os.File
	// checking is held by Check, which keeps one reading connection and needs others: two could wait for each other.
	checking sync.Mutex
	ids      idAlloc
	pipe     *pipeline
	room     *room
	holds    holds
	history  sync.RWMutex // see UseHistory
	gc       sync.Mutex   // held by who collects or purges
	letting  letting
	amends   atomic.Int64 // groups that were committed and amended something
}

// Init makes an empty store in dir, which is made with mode 0700 if missing. It refuses a directory that has one; the
// error wraps EEXIST.
func Init(ctx context.Context, dir string, drv Driver) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make store %s: %w", dir, err)
	}
	if err := plainFiles(dir); err != nil {
		return err
	}
	v, err := drv.Probe(dir)
	if err != nil {
		return fmt.Errorf("make store %s: %w", dir, err)
	}
	if v != 0 {
		return fmt.Errorf("make store %s: there is one: %w", dir, ErrExists)
	}
	if isUnfinished(dir) {
		return fmt.Errorf("make store %s: %w: %w", dir, errIncomplete, ErrExists)
	}
	s := &Store{dir: dir, drv: drv}
	if s.lock, err = takeLock(dir, LockInfo{PID: os.Getpid(), Started: time.Now()}); err != nil {
		return err
	}
	if err = s.openDatabase(ctx, ModeCreate); err == nil {
		err = s.migrate(ctx)
	}
	if err == nil {
		err = errors.Join(syncDir(dir), syncDir(filepath.Dir(filepath.Clean(dir))))
	}
	return errors.Join(err, s.closeAll())
}

// Open opens the store in dir. Unless ReadOnly it takes the store's lock (a *LockedError says who has it), migrates
// the schema, replays the journal and starts the applier.
func Open(ctx context.Context, dir string, drv Driver, o Options) (*Store, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if err := probe(dir, &drv, o.ReadOnly); err != nil {
		return nil, err
	}
	s := &Store{dir: dir, drv: drv, o: o, room: newRoom(dir)}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.closeAll())
	}
	return s, nil
}

func (s *Store) open(ctx context.Context) (err error) {
	mode := ModeReadOnly
	if !s.o.ReadOnly {
		mode = ModeWrite
		info := LockInfo{PID: os.Getpid(), Socket: s.o.Socket, Started: s.o.Now()}
		if s.lock, err = takeLock(s.dir, info); err != nil {
			return err
		}
	}
	if err := s.openDatabase(ctx, mode); err != nil {
		return err
	}
	if s.w != nil {
		if err := s.migrate(ctx); err != nil {
			return err
		}
		// The database's log is a new file: what is synced into it later must have a name after a power cut.
		if err := syncDir(s.dir); err != nil {
			return fmt.Errorf("open store %s: %w", s.dir, err)
		}
		if err := s.becomeOne(ctx); err != nil {
			return err
		}
		s.a, s.merge = newApplier(s), newMerger(s)
	}
	b := s.o.Blob
	b.ReadOnly, b.Log = s.o.ReadOnly, s.o.Log
	b.At = s.at
	b.Room = func(n int64) error { return s.Room(n, nil) }
	if s.blobs, err = blob.Open(s.dir, s, b); err != nil {
		return fmt.Errorf("open the blobs of store %s: %w", s.dir, err)
	}
	if s.o.ReadOnly {
		return nil
	}
	if err := s.startJournal(ctx); err != nil {
		return err
	}
	s.merge.start()
	return nil
}

func (s *Store) openDatabase(ctx context.Context, mode Mode) error {
	db, err := s.drv.Open(ctx, s.dir, mode)
	if err != nil {
		return s.dbError("open the database", err)
	}
	s.r = newReaders(&s.drv, db)
	if db.Writer == nil {
		return nil
	}
	if s.w, err = newWriter(ctx, &s.drv, db.Writer); err != nil {
		return s.dbError("open the database for writing", errors.Join(err, db.Writer.Close()))
	}
	return nil
}

// Close applies what is queued, then closes everything and gives up the lock. It returns the error that stopped the
// store, if one did. No other call may be running.
func (s *Store) Close() error {
	var errs []error
	if s.w != nil {
		s.merge.end()
		errs = append(errs, s.stopJournal())
		_, err := s.checkpoint(context.Background(), patience)
		errs = append(errs, err)
	}
	return errors.Join(append(errs, s.closeAll())...)
}

// closeAll closes what is open, in the opposite order.
func (s *Store) closeAll() error {
	var errs []error
	if s.blobs != nil {
		errs = append(errs, s.blobs.Close())
	}
	if s.r != nil {
		errs = append(errs, s.r.close())
	}
	if s.w != nil {
		errs = append(errs, s.w.close())
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close store %s: %w", s.dir, err)
	}
	return nil
}

// Warm says that the database will be read soon, and much of it. Not to know that costs no more than time.
func (s *Store) Warm() {
	if s.drv.Warm == nil {
		return
	}
	if err := s.drv.Warm(s.dir); err != nil {
		s.o.Log.Debug("read the database ahead", "error", err)
	}
}

// at tells a crash test what comes next.
func (s *Store) at(point string) {
	if s.o.crashPoint != nil {
		s.o.crashPoint(point)
	}
}

// Fault tells a crash test what comes next in a package above.
func (s *Store) Fault(point string) { s.at(point) }

// Dir is the store's directory.
func (s *Store) Dir() string { return s.dir }

// Driver is the name of the store's database driver.
func (s *Store) Driver() string { return s.drv.Name }

// Blobs is the store's content.
func (s *Store) Blobs() *blob.Store { return s.blobs }
