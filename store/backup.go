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
	dest string
	rep  *BackupReport
	lock *os.File
	m    *BackupManifest
	had  map[uint32]int64 // bytes of packs that dest had
	ends map[uint32]int64 // bytes of packs that the copied database names
	next *Store           // the copied database, with the packs of dest
}

// nextDir holds the new database until it takes the place of the old one.
const nextDir = "next"

func (b *backup) nextDir() string { return filepath.Join(b.dest, nextDir) }

// state says what dest is after a failure.
func (b *backup) state() string {
	if b.m.Complete {
		return fmt.Sprintf("it still is the backup of %s", b.m.Finished.Format(time.RFC3339))
	}
	return "it is incomplete and no backup yet; run the same command again to go on"
}

func (b *backup) close() error {
	var errs []error
	if b.next != nil {
		errs = append(errs, b.next.closeAll())
	}
	if b.lock != nil {
		errs = append(errs, b.lock.Close())
	}
	return errors.Join(errs...)
}

// begin says in dest that it is being filled.
func (b *backup) begin(context.Context) error {
	for _, dir := range []string{filepath.Join(b.dest, "packs"), b.nextDir()} {
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
		if err := realDir(dir); err != nil {
			return err
		}
	}
	return b.m.write(b.dest)
}

// copyDatabase copies one state of the database and opens the copy.
func (b *backup) copyDatabase(ctx context.Context) error {
	old, err := os.ReadDir(b.nextDir())
	if err != nil {
		return err
	}
	for _, e := range old {
		if err := os.Remove(filepath.Join(b.nextDir(), e.Name())); err != nil {
			return fmt.Errorf("clear what an earlier attempt left: %w", err)
		}
	}
	if err := b.room(b.dest, b.s.databaseBytes()); err != nil {
		return err
	}
	conn, err := b.s.r.db.Conn(ctx)
	if err != nil {
		return err
	}
	err = b.s.drv.CopyTo(ctx, conn, b.nextDir(), func(done, total int64) error {
		b.o.Progress("database", done, total)
		return ctx.Err()
	})
	if err = errors.Join(err, conn.Close()); err != nil {
		return b.s.dbError("copy the database", err)
	}
	sum, err := sumDatabase(b.nextDir(), b.s.drv.File, true)
	if err != nil {
		return err
	}
	b.m.Next, b.rep.Database = &sum, sum.Bytes
	drv := b.s.drv
	db, err := drv.Open(ctx, b.nextDir(), ModeReadOnly)
	if err != nil {
		return b.s.dbError("open the copy of the database", err)
	}
	b.next = &Store{dir: b.dest, drv: drv, o: Options{ReadOnly: true, Log: b.s.o.Log}}
	b.next.r = newReaders(&b.next.drv, db)
	b.next.blobs, err = blob.Open(b.dest, b.next, blob.Options{ReadOnly: true, Log: b.s.o.Log})
	return err
}

// room says early that dest has no space for what comes.
func (b *backup) room(dir string, need int64) error {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return fmt.Errorf("ask for the free space of %s: %w", dir, err)
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
	if err := b.m.write(b.dest); err != nil { // with Next: from here on either database may be found
		return err
	}
	err := b.next.closeAll()
	b.next = nil
	if err != nil {
		return err
	}
	file := b.s.drv.File
	for _, left := range []string{file + "-wal", file + "-shm"} {
		if err := os.Remove(filepath.Join(b.dest, left)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if err := os.Rename(filepath.Join(b.nextDir(), file), filepath.Join(b.dest, file)); err != nil {
		return err
	}
	if err := syncDir(b.dest); err != nil {
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
	if err := b.m.write(b.dest); err != nil {
		return err
	}
	// What follows only saves space; what is not done now is done next time.
	for _, n := range gone {
		if os.Remove(filepath.Join(b.dest, "packs", blob.PackName(n))) == nil {
			b.rep.Removed++
		}
	}
	_ = os.RemoveAll(b.nextDir())
	return nil
}
