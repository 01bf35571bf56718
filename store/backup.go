package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"wsfs/blob"
)

// BackupOptions of Backup. The zero value works.
type BackupOptions struct {
	// Link makes hard links of packs that are full, where the file system can. They cost no space and protect against
	// mistakes, not against a failing disk.
	Link bool
	// Full reads and hashes every byte of the backup, not only what is new in it, and tests every rule.
	Full bool
	// Progress is told now and then how far a phase is, in bytes.
	Progress func(phase string, done, total int64)
}

// BackupReport says what Backup did.
type BackupReport struct {
	Database int64 // bytes of the database, which is copied whole
	Copied   int64 // bytes of packs that were copied
	Kept     int64 // bytes of packs that the backup had
	Linked   int64 // bytes of packs that were linked
	Removed  int   // packs that the store does not have any more
	Verified int64 // blobs that were read back and hashed
	Looked   int64 // blobs of which the record's header was compared
}

// Backup makes dest a store that holds what the database has: everything that was applied before it was called. The
// store may be written meanwhile. dest is missing, empty, or an earlier backup of this store, of which it keeps what
// it has: packs only grow, so that their new ends are copied and nothing else. The database is copied whole.
//
// Until the last step dest stays what it was: an earlier backup, or none, which its file backup.json then says. What
// was copied is kept for the next attempt. Nothing is called done before it is on the disk and was read back.
//
// The caller sees to it that no pack is deleted meanwhile (Hold, of the process that writes to the store).
func (s *Store) Backup(ctx context.Context, dest string, o BackupOptions) (rep BackupReport, err error) {
	if s.drv.CopyTo == nil {
		return rep, fmt.Errorf("back up: the driver %s cannot copy its database", s.drv.Name)
	}
	id, err := s.ID(ctx)
	if err != nil {
		return rep, err
	}
	if id == 0 {
		return rep, fmt.Errorf("back up store %s: it has no number yet; open it once for writing, with `wsfs sync`", s.dir)
	}
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	b := &backup{s: s, o: o, dest: dest, rep: &rep}
	defer func() { err = errors.Join(err, b.close()) }()
	if err := b.open(id); err != nil {
		return rep, fmt.Errorf("back up to %s: %w", dest, err)
	}
	for _, step := range []func(context.Context) error{b.begin, b.copyDatabase, b.copyPacks, b.verify, b.commit} {
		if err := step(ctx); err != nil {
			return rep, fmt.Errorf("back up to %s: %w; %s", dest, err, b.state())
		}
	}
	return rep, nil
}

// backup is one run of Backup.
type backup struct {
	s    *Store
	o    BackupOptions
	dest string   // its name, for messages
	dir  *os.Root // what it was when the backup began: all is written and read from there, and nothing leads out of it
	rep  *BackupReport
	lock *os.File
	m    *BackupManifest
	had  map[uint32]int64 // bytes of packs that dest had
	ends map[uint32]int64 // bytes of packs that the copied database names
	copy *os.File         // the copied database
	next *Store           // that, with the packs of dest; it reads both from dir
}

// nextDir holds the new database until it takes the place of the old one.
const nextDir = "next"

const packsDir = "packs"

// state says what dest is after a failure.
func (b *backup) state() string {
	if b.m.Complete {
		return fmt.Sprintf("it still is the backup of %s", b.m.Finished.Format(time.RFC3339))
	}
	return "it is incomplete and no backup yet; run the same command again to go on"
}

func (b *backup) close() error {
	var errs []error
	errs = append(errs, b.closeNext())
	if b.lock != nil {
		errs = append(errs, b.lock.Close())
	}
	if b.dir != nil {
		errs = append(errs, b.dir.Close())
	}
	return errors.Join(errs...)
}

func (b *backup) closeNext() error {
	var errs []error
	if b.next != nil {
		errs = append(errs, b.next.closeAll())
	}
	if b.copy != nil {
		errs = append(errs, b.copy.Close())
	}
	b.next, b.copy = nil, nil
	return errors.Join(errs...)
}

// begin says in dest that it is being filled.
func (b *backup) begin(context.Context) error {
	for _, dir := range []string{packsDir, nextDir} {
		if err := b.dir.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
		st, err := b.dir.Lstat(dir)
		if err == nil && !st.IsDir() {
			err = fmt.Errorf("%s is not a directory: %w", filepath.Join(b.dest, dir), syscall.ENOTDIR)
		}
		if err != nil {
			return err
		}
	}
	return b.m.write(b.dir)
}

// same says whether a name in dest leads to the file that it should.
func (b *backup) same(name string, is os.FileInfo) error {
	st, err := b.dir.Lstat(name)
	if err == nil && !os.SameFile(st, is) {
		err = fmt.Errorf("somebody has put something else in the place of %s", filepath.Join(b.dest, name))
	}
	return err
}

// inPlace says whether all that was written and read back is what dest has under its names. Who may write to it can change that the
// moment after; but what was led astray before is not called done.
func (b *backup) inPlace(database os.FileInfo) error {
	is, err := b.dir.Stat(".")
	if err != nil {
		return err
	}
	if st, e := os.Lstat(b.dest); e != nil || !os.SameFile(st, is) {
		return fmt.Errorf("somebody has put something else in the place of %s", b.dest)
	}
	if st, e := b.dir.Lstat(packsDir); e != nil || !st.IsDir() {
		return fmt.Errorf("somebody has put something else in the place of %s", filepath.Join(b.dest, packsDir))
	}
	err = b.same(b.s.drv.File, database)
	for n, end := range b.ends {
		st, e := b.dir.Lstat(packIn(n))
		if e == nil && (!st.Mode().IsRegular() || st.Size() < end) {
			e = fmt.Errorf("somebody has changed %s meanwhile", filepath.Join(b.dest, packIn(n)))
		}
		err = errors.Join(err, e)
	}
	return err
}

// copyDatabase copies one state of the database and opens the copy.
func (b *backup) copyDatabase(ctx context.Context) error {
	err := b.dir.RemoveAll(nextDir)
	if err == nil {
		err = b.dir.Mkdir(nextDir, 0o700)
	}
	if err != nil {
		return fmt.Errorf("clear what an earlier attempt left: %w", err)
	}
	if err := b.room(b.s.databaseBytes()); err != nil {
		return err
	}
	if b.copy, err = openIn(b.dir, filepath.Join(nextDir, b.s.drv.File), os.O_RDWR|os.O_CREATE|os.O_EXCL); err != nil {
		return err
	}
	conn, err := b.s.r.db.Conn(ctx)
	if err != nil {
		return err
	}
	err = b.s.drv.CopyTo(ctx, conn, b.copy, func(done, total int64) error {
		b.o.Progress("database", done, total)
		return ctx.Err()
	})
	if err = errors.Join(err, conn.Close()); err != nil {
		return b.s.dbError("copy the database", err)
	}
	sum, err := sumFile(b.copy, true)
	if err != nil {
		return err
	}
	b.m.Next, b.rep.Database = &sum, sum.Bytes
	drv := b.s.drv
	db, err := drv.OpenFile(ctx, b.copy)
	if err != nil {
		return b.s.dbError("open the copy of the database", err)
	}
	b.next = &Store{dir: b.dest, drv: drv, o: Options{ReadOnly: true, Log: b.s.o.Log}}
	b.next.r = newReaders(&b.next.drv, db)
	b.next.blobs, err = blob.Open(b.dest, b.next, blob.Options{ReadOnly: true, Log: b.s.o.Log, OpenPack: func(name string) (*os.File, error) {
		return openIn(b.dir, filepath.Join(packsDir, name), os.O_RDONLY)
	}})
	return err
}

// room says early that dest has no space for what comes.
func (b *backup) room(need int64) error {
	dir, err := openDir(b.dir, ".")
	if err != nil {
		return err
	}
	defer dir.Close()
	var st syscall.Statfs_t
	if err := syscall.Fstatfs(int(dir.Fd()), &st); err != nil {
		return fmt.Errorf("ask for the free space of %s: %w", b.dest, err)
	}
	if free := int64(st.Bavail) * st.Bsize; need > free {
		return fmt.Errorf("%d bytes more are needed and %d are free: %w", need, free, syscall.ENOSPC)
	}
	return nil
}

// commit makes what was copied the backup.
func (b *backup) commit(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := b.m.write(b.dir); err != nil { // with Next: from here on either database may be found
		return err
	}
	is, err := b.copy.Stat()
	if err = errors.Join(err, b.closeNext()); err != nil {
		return err
	}
	file := b.s.drv.File
	for _, left := range []string{file + "-wal", file + "-shm"} {
		if err := b.dir.Remove(left); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if err := b.same(filepath.Join(nextDir, file), is); err != nil {
		return err
	}
	if err := b.dir.Rename(filepath.Join(nextDir, file), file); err != nil {
		return err
	}
	if err := b.inPlace(is); err != nil {
		b.m.Complete = false // whatever it was before
		return errors.Join(err, b.m.write(b.dir))
	}
	if err := syncIn(b.dir, "."); err != nil {
		return fmt.Errorf("fsync %s: %w", b.dest, err)
	}
	b.m.Complete, b.m.Database, b.m.Next = true, *b.m.Next, nil
	b.m.Finished = b.s.o.Now().UTC().Truncate(time.Millisecond)
	var gone []uint32
	for n := range b.m.Packs {
		if _, ok := b.ends[n]; !ok {
			gone = append(gone, n)
			delete(b.m.Packs, n)
		}
	}
	if err := b.m.write(b.dir); err != nil {
		return err
	}
	// What follows only saves space; what is not done now is done next time.
	for _, n := range gone {
		if b.dir.Remove(packIn(n)) == nil {
			b.rep.Removed++
		}
	}
	_ = b.dir.RemoveAll(nextDir)
	return nil
}
