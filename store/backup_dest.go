package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"wsfs/blob"
)

// backupFile is in a store's directory as long as that is a backup: until somebody opens it for writing.
const backupFile = "backup.json"

// BackupManifest is the content of backup.json.
type BackupManifest struct {
	Version  int              `json:"version"`
	Store    int64            `json:"store"`  // the number of the store that it is of
	Source   string           `json:"source"` // where that was
	Complete bool             `json:"complete"`
	Finished time.Time        `json:"finished,omitzero"` // when it was complete
	Database DatabaseSum      `json:"database,omitzero"`
	Next     *DatabaseSum     `json:"next,omitempty"` // of the database that was about to be put in place
	Packs    map[uint32]int64 `json:"packs"`          // bytes from their begin on that are on the disk, equal to the source's
}

// DatabaseSum is what the database's file was when it was written.
type DatabaseSum struct {
	Bytes  int64  `json:"bytes"`
	Blake3 string `json:"blake3"`
}

const manifestVersion = 1

var errIncomplete = errors.New("it is a backup that was never completed; run `wsfs backup` again, or use another one")

// ReadBackup reads backup.json of a directory. The error wraps os.ErrNotExist if it is no backup.
func ReadBackup(dir string) (*BackupManifest, error) {
	path := filepath.Join(dir, backupFile)
	f, err := openNoFollow(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var m BackupManifest
	if err := json.NewDecoder(&limited{f, 64 << 20}).Decode(&m); err != nil {
		return nil, fmt.Errorf("read %s: %w (%w)", path, err, ErrCorrupt)
	}
	if m.Version != manifestVersion {
		return nil, fmt.Errorf("read %s: it has version %d, this wsfs knows %d: %w", path, m.Version, manifestVersion, ErrNewerSchema)
	}
	if m.Packs == nil {
		m.Packs = map[uint32]int64{}
	}
	return &m, nil
}

// isUnfinished reports whether dir is a backup that was begun and never completed.
func isUnfinished(dir string) bool {
	m, err := ReadBackup(dir)
	return err == nil && !m.Complete
}

// limited ends a file that is longer than any of its kind.
type limited struct {
	f    *os.File
	left int64
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, fmt.Errorf("it is too long: %w", syscall.EFBIG)
	}
	n, err := l.f.Read(p[:min(int64(len(p)), l.left)])
	l.left -= int64(n)
	return n, err
}

// write replaces backup.json at once and durably.
func (m *BackupManifest) write(dir string) error {
	data, err := json.MarshalIndent(m, "", "\t")
	if err != nil {
		return err
	}
	tmp := filepath.Join(dir, nextDir, backupFile)
	if err := os.Remove(tmp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	f, err := openNoFollow(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return err
	}
	_, err = f.Write(append(data, '\n'))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", tmp, err)
	}
	if err := os.Rename(tmp, filepath.Join(dir, backupFile)); err != nil {
		return err
	}
	if err := syncDir(dir); err != nil {
		return fmt.Errorf("fsync %s: %w", dir, err)
	}
	return nil
}

// open locks dest and reads what it is. It changes nothing but a directory's mode that lets others in.
func (b *backup) open(id int64) error {
	if err := os.MkdirAll(b.dest, 0o700); err != nil {
		return err
	}
	if err := realDir(b.dest); err != nil {
		return err
	}
	m, err := ReadBackup(b.dest)
	switch {
	case err == nil:
	case !errors.Is(err, os.ErrNotExist):
		return err
	default:
		entries, err := os.ReadDir(b.dest)
		if err != nil {
			return err
		}
		if _, err := os.Lstat(filepath.Join(b.dest, b.s.drv.File)); err == nil {
			return fmt.Errorf("it holds a store that is no backup, or that was opened for writing since it was one; "+
				"choose another directory: %w", syscall.EEXIST)
		}
		for _, e := range entries {
			switch e.Name() {
			case lockFile, "lost+found", "packs", nextDir: // left by an attempt that ended at once
			default:
				return fmt.Errorf("it is not empty: it has %q; choose another directory: %w", e.Name(), syscall.ENOTEMPTY)
			}
		}
		m = &BackupManifest{Version: manifestVersion, Store: id, Source: b.s.dir, Packs: map[uint32]int64{}}
	}
	if m.Store != id {
		return fmt.Errorf("it is a backup of another store, that of %s, or of this one before it was restored; choose another "+
			"directory: %w", m.Source, syscall.EEXIST)
	}
	if st, err := os.Lstat(filepath.Join(b.dest, b.s.drv.File+"-wal")); err == nil && st.Size() > 0 {
		return fmt.Errorf("somebody has written to its database since; choose another directory: %w", syscall.EEXIST)
	}
	if b.lock, err = takeLock(b.dest, LockInfo{PID: os.Getpid(), Started: b.s.o.Now()}); err != nil {
		return err
	}
	if err := os.Chmod(b.dest, 0o700); err != nil {
		return err
	}
	m.Source = b.s.dir
	b.m = m
	return nil
}

// realDir refuses a symbolic link where a directory of ours should be.
func realDir(path string) error {
	st, err := os.Lstat(path)
	if err == nil && !st.IsDir() {
		err = fmt.Errorf("%s is not a directory: %w", path, syscall.ENOTDIR)
	}
	return err
}

// openNoFollow opens a regular file, which is made with mode 0600 if flags say so.
func openNoFollow(path string, flags int) (*os.File, error) {
	f, err := os.OpenFile(path, flags|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file: %w", path, syscall.EINVAL)
	}
	if err != nil {
		_ = f.Close() // the first error counts
		return nil, err
	}
	return f, nil
}

// databaseBytes is about how large a copy of the database becomes.
func (s *Store) databaseBytes() int64 {
	n := s.drv.LogSize(s.dir)
	if st, err := os.Stat(filepath.Join(s.dir, s.drv.File)); err == nil {
		n += st.Size()
	}
	return n
}

// sumDatabase hashes the database's file, of a directory in which nobody has it open. flush: it goes to the disk first.
func sumDatabase(dir, file string, flush bool) (DatabaseSum, error) {
	f, err := openNoFollow(filepath.Join(dir, file), os.O_RDONLY)
	if err != nil {
		return DatabaseSum{}, err
	}
	defer f.Close()
	if flush {
		if err := f.Sync(); err != nil {
			return DatabaseSum{}, fmt.Errorf("fsync %s: %w", f.Name(), err)
		}
		forget(f, 0, 0)
	}
	ref, n, err := blob.SumReader(f)
	if err != nil {
		return DatabaseSum{}, fmt.Errorf("read %s: %w", f.Name(), err)
	}
	return DatabaseSum{Bytes: n, Blake3: ref.String()}, nil
}
