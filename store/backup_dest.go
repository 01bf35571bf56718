package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
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
	f, err := openNoFollow(filepath.Join(dir, backupFile), os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	return readManifest(f)
}

// readManifest reads backup.json and closes it.
func readManifest(f *os.File) (*BackupManifest, error) {
	defer f.Close()
	path := f.Name()
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
func (m *BackupManifest) write(dir *os.Root) error {
	data, err := json.MarshalIndent(m, "", "\t")
	if err != nil {
		return err
	}
	tmp := filepath.Join(nextDir, backupFile)
	if err := dir.Remove(tmp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	f, err := openIn(dir, tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return err
	}
	_, err = f.Write(append(data, '\n'))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", filepath.Join(dir.Name(), tmp), err)
	}
	if err := dir.Rename(tmp, backupFile); err != nil {
		return err
	}
	if err := syncIn(dir, "."); err != nil {
		return fmt.Errorf("fsync %s: %w", filepath.Clean(dir.Name()), err)
	}
	return nil
}

// open locks dest and reads what it is. It changes nothing but a directory's mode that lets others in.
func (b *backup) open(id int64) error {
	if err := os.MkdirAll(b.dest, 0o700); err != nil {
		return err
	}
	var err error
	if b.dir, err = openRoot(b.dest); err != nil {
		return err
	}
	var m *BackupManifest
	f, err := openIn(b.dir, backupFile, os.O_RDONLY)
	if err == nil {
		m, err = readManifest(f)
	}
	switch {
	case err == nil:
	case !errors.Is(err, os.ErrNotExist):
		return err
	default:
		entries, err := fs.ReadDir(b.dir.FS(), ".")
		if err != nil {
			return err
		}
		if _, err := b.dir.Lstat(b.s.drv.File); err == nil {
			return fmt.Errorf("it holds a store that is no backup, or that was opened for writing since it was one; "+
				"choose another directory: %w", syscall.EEXIST)
		}
		for _, e := range entries {
			switch e.Name() {
			case lockFile, "lost+found", packsDir, nextDir: // left by an attempt that ended at once
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
	if st, err := b.dir.Lstat(b.s.drv.File + "-wal"); err == nil && st.Size() > 0 {
		return fmt.Errorf("somebody has written to its database since; choose another directory: %w", syscall.EEXIST)
	}
	lock, err := openIn(b.dir, lockFile, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return err
	}
	if err := takeFlock(lock, b.dest, LockInfo{PID: os.Getpid(), Started: b.s.o.Now()}); err != nil {
		return err
	}
	b.lock = lock
	if err := b.dir.Chmod(".", 0o700); err != nil {
		return err
	}
	m.Source = b.s.dir
	b.m = m
	return nil
}

// openRoot opens a directory to write into it whatever becomes of its name. It refuses a symbolic link.
func openRoot(path string) (*os.Root, error) {
	r, err := os.OpenRoot(path + "/") // without that it would wait for the writer of a FIFO
	if err != nil {
		return nil, err
	}
	is, err := r.Stat(".")
	st, lerr := os.Lstat(path)
	if err = errors.Join(err, lerr); err == nil && !os.SameFile(is, st) {
		err = fmt.Errorf("%s is not a directory: %w", path, syscall.ENOTDIR)
	}
	if err != nil {
		_ = r.Close() // nothing was written
		return nil, err
	}
	return r, nil
}

// openIn opens a regular file in dir that has no other name, which is made with mode 0600 if flags say so.
func openIn(dir *os.Root, name string, flags int) (*os.File, error) {
	f, err := dir.OpenFile(name, flags|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file: %w", f.Name(), syscall.EINVAL)
	}
	if err == nil && flags&(os.O_WRONLY|os.O_RDWR) != 0 {
		if sys, ok := st.Sys().(*syscall.Stat_t); ok && sys.Nlink > 1 {
			err = fmt.Errorf("%s has other names, which would change with it: remove it and try again: %w", f.Name(), syscall.EMLINK)
		}
	}
	if err != nil {
		_ = f.Close() // the first error counts
		return nil, err
	}
	return f, nil
}

// syncIn makes the names in a directory durable.
func syncIn(dir *os.Root, name string) error {
	f, err := openDir(dir, name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// openDir opens a directory in dir; of a FIFO in its place it would wait for a writer otherwise.
func openDir(dir *os.Root, name string) (*os.File, error) {
	return dir.OpenFile(name, os.O_RDONLY|syscall.O_DIRECTORY, 0)
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

// sumDatabase hashes the database's file, of a directory in which nobody has it open.
func sumDatabase(dir, file string) (DatabaseSum, error) {
	f, err := openNoFollow(filepath.Join(dir, file), os.O_RDONLY)
	if err != nil {
		return DatabaseSum{}, err
	}
	defer f.Close()
	return sumFile(f, false)
}

// sumFile hashes a file from its begin. flush: it goes to the disk first.
func sumFile(f *os.File, flush bool) (DatabaseSum, error) {
	if flush {
		if err := f.Sync(); err != nil {
			return DatabaseSum{}, fmt.Errorf("fsync %s: %w", f.Name(), err)
		}
		forget(f, 0, 0)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return DatabaseSum{}, err
	}
	ref, n, err := blob.SumReader(f)
	if err != nil {
		return DatabaseSum{}, fmt.Errorf("read %s: %w", f.Name(), err)
	}
	return DatabaseSum{Bytes: n, Blake3: ref.String()}, nil
}
