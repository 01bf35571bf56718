package store

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"wsfs/blob"
)

var errTODO = errors.New("not built yet")

// Options of Open. The zero value works.
type Options struct {
	// ReadOnly opens without the lock, beside a writer if there is one: what the writer has applied is visible.
	ReadOnly bool
	// Socket is where this process will answer; it is written into the lock file so that others find it.
	Socket string
	Log    *slog.Logger
	Now    func() time.Time
	// GroupOps is how many ops one database transaction applies at most; 0: 1024.
	GroupOps int
	// GroupDelay is how long the applier waits for more ops; 0: 20 ms.
	GroupDelay time.Duration
	// MaxPending is how many bytes of ops may wait for the database before Wait blocks; 0: 64 MiB.
	MaxPending int64
	// Blob are the options of the blob store; ReadOnly and Log are set from these.
	Blob blob.Options
}

// Store is one database plus its blobs.
type Store struct {
	dir   string
	drv   Driver
	o     Options
	db    DB
	blobs *blob.Store
	lock  *os.File
	ids   idAlloc
	pipe  *pipeline // nil if read-only
}

// Init makes an empty store in dir, which is made with mode 0700 if missing. It refuses a directory that has one.
func Init(ctx context.Context, dir string, drv Driver) error {
	return errTODO
}

// Open opens the store in dir. Unless ReadOnly it takes the store's lock (a *LockedError says who has it), migrates
// the schema, replays the journal and starts the applier.
func Open(ctx context.Context, dir string, drv Driver, o Options) (*Store, error) {
	return nil, errTODO
}

// Close applies what is queued, then closes everything and gives up the lock.
func (s *Store) Close() error {
	return errTODO
}

// Dir is the store's directory.
func (s *Store) Dir() string { return s.dir }

// Blobs is the store's content.
func (s *Store) Blobs() *blob.Store { return s.blobs }

// applyGroup applies g in one transaction.
func (s *Store) applyGroup(ctx context.Context, g *group) error {
	return errTODO
}

// journalApplied says for each journal how far it was applied.
func (s *Store) journalApplied(ctx context.Context) (map[int64]int64, error) {
	return nil, errTODO
}
