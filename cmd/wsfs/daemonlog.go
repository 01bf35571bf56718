package main

import (
	"fmt"
	"os"
	"sync"
	"syscall"

	"wsfs/internal/daemon"
)

// maxLog is the size at which the daemon's log is put aside: as daemon.log.1, in place of the one before.
const maxLog = 16 << 20

// logFile is the daemon's log, which together with the one before takes at most twice max and one line.
type logFile struct {
	path string
	max  int64

	mu   sync.Mutex
	f    *os.File // guarded by mu
	size int64    // guarded by mu
}

func openLog(dir string) (*logFile, error) {
	l := &logFile{path: daemon.LogFile(dir), max: maxLog}
	if err := l.open(); err != nil {
		return nil, fmt.Errorf("open the daemon's log: %w", err)
	}
	return l, nil
}

// open is called with mu held, or before anybody else has the log.
func (l *logFile) open() error {
	if st, err := os.Lstat(l.path); err == nil && st.Size() > l.max {
		_ = os.Rename(l.path, l.path+".1") // the log only grows longer then
	}
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	st, err := f.Stat()
	if err != nil {
		_ = f.Close() // the first error counts
		return err
	}
	l.f, l.size = f, st.Size()
	return nil
}

// Write implements io.Writer. A log that cannot be put aside goes on where it is.
func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size+int64(len(p)) > l.max && l.size > 0 {
		old := l.f
		if os.Rename(l.path, l.path+".1") == nil && l.open() == nil {
			_ = old.Close() // all of it was written
		} else {
			l.size = 0 // tried again after as much more
		}
	}
	n, err := l.f.Write(p)
	l.size += int64(n)
	return n, err
}

// Close implements io.Closer.
func (l *logFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.f.Close()
}
