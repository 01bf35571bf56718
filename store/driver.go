package store

import (
	"context"
	"database/sql"
	"io"
	"os"
	"time"
)

// Driver is everything in which databases differ, as hooks: shared code never asks for a driver's name. A driver
// package (store/sqlite) returns one; it holds no state, so that one value opens any number of stores.
type Driver struct {
	// Name is for messages and for `wsfs stat`.
	Name string
	// File is the name of the database's file in the store's directory, "" if it is none.
	File string
	// Types are the column types and table options the schema is written with.
	Types Types
	// Probe looks at the database in dir without changing a byte of it. It returns the schema version, 0 if there is
	// no database, and an error that wraps ErrCorrupt or ErrForeign if what is there is not one of ours.
	Probe func(dir string) (int, error)
	// Open opens the database in dir, making an empty one if mode is ModeCreate.
	Open func(ctx context.Context, dir string, mode Mode) (DB, error)
	// Rebind turns a query written with ? into the database's own placeholders. Nil: it takes ? as it is.
	Rebind func(query string) string
	// Begin and Commit are the statements around a write transaction, so that it holds the write lock from the start.
	Begin, Commit, Rollback string
	// InsertInto begins an INSERT of many rows whose failure is the end of its transaction. A database that would
	// otherwise keep what it needs to undo the statement alone may have a cheaper form for that.
	InsertInto string
	// SetVersion records the schema version inside the migration's transaction.
	SetVersion func(ctx context.Context, q Execer, version int) error
	// Version reads it.
	Version func(ctx context.Context, q Queryer) (int, error)
	// Classify says what kind of failure err is; it sees through wrapping.
	Classify func(err error) Class
	// Checkpoint folds the database's own log into it, and with a wait empties it: it waits at most so long for readers, and nobody writes
	// meanwhile. Then, and without a wait, it does what it can. It returns how many bytes of log are left that could not be folded.
	Checkpoint func(ctx context.Context, q Queryer, wait time.Duration) (left int64, err error)
	// Bulk makes a Conn of a driver's connection for writing, around database/sql. It is closed before that, and used in its transactions.
	Bulk func(conn any) (Conn, error)
	// EmptyLog gives the room of a log that is folded in back to the disk, unless somebody reads: it never waits.
	EmptyLog func(ctx context.Context, q Queryer) error
	// LogSize is the size of the database's own log in bytes; the applier checkpoints when it is large. It must be
	// cheap.
	LogSize func(dir string) int64
	// CopyTo writes one state of the database that conn reads to an empty file, as a database that can be opened also where
	// nothing may be written. It asks progress now and then, in bytes, and ends with its error. It does not sync. Nil: it cannot.
	CopyTo func(ctx context.Context, conn *sql.Conn, to io.Writer, progress func(done, total int64) error) error
	// OpenFile opens what CopyTo wrote to f, for reading, whatever its name leads to by now. Nobody writes to f, and it stays open until DB
	// is closed. It is there if CopyTo is.
	OpenFile func(ctx context.Context, f *os.File) (DB, error)
	// Sync makes every committed transaction durable.
	Sync func(dir string) error
	// Warm has the system read the database ahead, as far as that is cheap; it returns before it is read. Nil: there is nothing to read.
	Warm func(dir string) error
	// Integrity runs the database's own check and reports what it finds, one line each.
	Integrity func(ctx context.Context, q Queryer, report func(string)) error
	// Free is how many bytes of the database's file hold nothing. Shrink gives about so many of them back to the disk with the
	// next checkpoint, in one transaction; it returns false if this database cannot do that but by Rebuild, which writes all of it
	// once more and leaves nothing free, nor any byte of what was deleted. Both run outside of transactions.
	Free    func(ctx context.Context, q Queryer) (int64, error)
	Shrink  func(ctx context.Context, q Queryer, bytes int64) (bool, error)
	Rebuild func(ctx context.Context, q Execer) error
	// Plan returns the query plan, for tests of the plans that matter.
	Plan func(ctx context.Context, q Queryer, query string, args ...any) (string, error)
}

// Mode says how a driver opens a database.
type Mode int

// The modes of Driver.Open.
const (
	ModeWrite    Mode = iota // an existing database, one writer and readers
	ModeCreate               // the same, made if missing
	ModeReadOnly             // readers only; another process may be writing
)

// DB is an open database: one writing connection (nil in ModeReadOnly) and a pool for reading.
type DB struct {
	Writer, Reader *sql.DB
	// Readers is how many reading connections there may be.
	Readers int
	// Conn opens one more connection for reading that does without database/sql. Nil: queries go to Reader.
	Conn func() (Conn, error)
	// Close is called when all connections are closed. Nil: there is nothing more to do.
	Close func() error
}

// Conn is a connection without database/sql, used by one goroutine at a time. The database must be open for as long.
type Conn interface {
	// Each runs a query, or a statement around several, and calls fn with each row until fn fails, which is its error then. args are
	// int64, []byte, string or nil. fn must not use the connection. The end of ctx ends the query.
	Each(ctx context.Context, query string, args []any, fn func(Row) error) error
	Close() error
}

// Row is one row of a result. It, and the bytes it gave, are good until the function that got it returns.
type Row interface {
	// Int is column i, 0 for NULL; false if it is no integer.
	Int(i int) (int64, bool)
	// Bytes is column i, blob or text; nil for NULL and what is empty; false if it is something else.
	Bytes(i int) ([]byte, bool)
	Null(i int) bool
}

// Types are the names that the schema is written with.
type Types struct {
	Int    string // 64-bit integer
	Serial string // the same, numbered by the database if a row brings no value
	Bytes  string // bytes, compared as bytes
	Text   string // valid UTF-8
	// Clustered is appended to CREATE TABLE for tables that should lie in the order of their primary key.
	Clustered string
	// Updated is appended for tables whose rows are updated in place all the time.
	Updated string
}

// Class is a kind of database failure.
type Class int

// The classes of Driver.Classify.
const (
	ClassOther    Class = iota
	ClassBusy           // somebody else holds the database: try again
	ClassFull           // no space left
	ClassCorrupt        // the database is damaged
	ClassReadOnly       // the medium or the file refuses writing
)

// Execer is the writing part of *sql.DB, *sql.Conn and *sql.Tx.
type Execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// Queryer is the reading part of *sql.DB, *sql.Conn and *sql.Tx.
type Queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}
