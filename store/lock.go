package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// lockFile is the name of the file that the writer of a store holds locked with flock(2). Its content only helps
// others to find the holder; the lock is what counts, so that a crash leaves nothing to clean up.
const lockFile = "lock"

// LockInfo is the content of the lock file.
type LockInfo struct {
	PID     int       `json:"pid"`
	Socket  string    `json:"socket"`
	Started time.Time `json:"started"`
}

// ReadLock says who has, or last had, the store in dir open for writing. It wraps ENOENT if nobody ever had.
func ReadLock(dir string) (LockInfo, error) {
	var info LockInfo
	f, err := openNoFollow(filepath.Join(dir, lockFile), os.O_RDONLY)
	if err != nil {
		return info, fmt.Errorf("read who has store %s: %w", dir, err)
	}
	defer f.Close()
	if err := json.NewDecoder(&limited{f, 64 << 10}).Decode(&info); err != nil {
		return info, fmt.Errorf("read who has store %s: %w", dir, err)
	}
	return info, nil
}

// takeLock locks dir for this process or returns a *LockedError. The lock goes with the file.
func takeLock(dir string, info LockInfo) (*os.File, error) {
	path := filepath.Join(dir, lockFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock of store %s: %w", dir, err)
	}
	if err := takeFlock(f, dir, info); err != nil {
		return nil, err
	}
	return f, nil
}

// takeFlock locks dir by its lock file, which it closes if it cannot.
func takeFlock(f *os.File, dir string, info LockInfo) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		_ = f.Close()              // nothing was written
		holder, _ := ReadLock(dir) // unknown if it is just being written
		return &LockedError{Dir: dir, PID: holder.PID, Socket: holder.Socket}
	}
	if err == nil {
		err = writeLock(f, info)
	}
	if err != nil {
		_ = f.Close() // the first error counts
		return fmt.Errorf("lock store %s: %w", dir, err)
	}
	return nil
}

func writeLock(f *os.File, info LockInfo) error {
	b, err := json.Marshal(info)
	if err != nil {
		return err
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err = f.WriteAt(append(b, '\n'), 0)
	return err
}
