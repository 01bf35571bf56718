package store

import (
	"errors"
	"fmt"
	"syscall"
)

// Errors to be tested with errors.Is. Those that stand for an errno wrap it.
var (
	// ErrNotFound is a name, inode, version, workspace or tag that is not there. It wraps ENOENT.
	ErrNotFound = fmt.Errorf("not found: %w", syscall.ENOENT)
	// ErrCollected is a state that was collected. It wraps ENOENT, through ErrNotFound.
	ErrCollected = fmt.Errorf("collected: %w", ErrNotFound)
	// ErrExists is a name that is taken. It wraps EEXIST.
	ErrExists = fmt.Errorf("already exists: %w", syscall.EEXIST)
	// ErrCorrupt is a damaged database. It wraps EIO.
	ErrCorrupt = fmt.Errorf("damaged: %w", syscall.EIO)
	// ErrForeign is a database that wsfs did not make.
	ErrForeign = errors.New("not a wsfs database")
	// ErrNewerSchema is a store written by a newer wsfs.
	ErrNewerSchema = errors.New("written by a newer wsfs")
	// ErrOlderSchema is a store that has to be opened for writing once before this wsfs can read it.
	ErrOlderSchema = errors.New("written by an older wsfs")
	// ErrTooMany is more than was asked for.
	ErrTooMany = errors.New("too many")
	// ErrReadOnly is a write to a store opened read-only. It wraps EROFS.
	ErrReadOnly = fmt.Errorf("store is open read-only: %w", syscall.EROFS)
)

// LockedError says who holds a store that could not be opened for writing.
type LockedError struct {
	Dir    string
	PID    int    // 0 if unknown
	Socket string // where to talk to it, "" if nowhere
}

func (e *LockedError) Error() string {
	who := "another process"
	if e.PID != 0 {
		who = fmt.Sprintf("process %d", e.PID)
	}
	how := "stop it, or open the store read-only"
	if e.Socket != "" {
		how = "talk to it at " + e.Socket
	}
	return fmt.Sprintf("open store %s for writing: %s has it: %s", e.Dir, who, how)
}

// Unwrap makes errors.Is(err, syscall.EBUSY) true.
func (e *LockedError) Unwrap() error { return syscall.EBUSY }
