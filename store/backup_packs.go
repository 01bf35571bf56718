package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"wsfs/blob"
)

// copyStep is how much is copied between two looks at the context.
const copyStep = 16 << 20

// copyPacks copies of every pack what the copied database names and dest does not have.
func (b *backup) copyPacks(ctx context.Context) error {
	b.ends, b.had = map[uint32]int64{}, map[uint32]int64{}
	_, err := scanAll(ctx, b.next.r, 2, `SELECT pack, max(pack_offset + pack_length) FROM blob WHERE pack > 0 GROUP BY pack`, nil, func(c *cells) error {
		n, end := c.int(0), c.int(1)
		if n >= 1<<32 || end < 0 {
			return fmt.Errorf("a blob is at %d of pack %d: %w", end, n, ErrCorrupt)
		}
		b.ends[uint32(n)] = end
		return nil
	})
	if err != nil {
		return err
	}
	var need, top int64
	for n, end := range b.ends {
		st, err := b.dir.Lstat(packIn(n))
		if err == nil {
			b.had[n] = min(b.m.Packs[n], st.Size())
		} else if !errors.Is(err, os.ErrNotExist) {
			return err
		}
		need += max(0, end-b.had[n])
		b.rep.Kept += min(b.had[n], end)
		top = max(top, int64(n))
	}
	if !b.o.Link { // how much can be linked is not known before
		if err := b.room(need); err != nil {
			return err
		}
	}
	var done int64
	for _, n := range slices.Sorted(maps.Keys(b.ends)) {
		from, end := b.had[n], b.ends[n]
		if from >= end {
			continue
		}
		if b.o.Link && from == 0 && b.link(n, end, int64(n) < top) {
			b.rep.Linked += end
		} else {
			err := b.copyPack(ctx, n, from, end, func(k int64) {
				done += k
				b.o.Progress("packs", done, need)
			})
			if err != nil {
				return err
			}
			b.rep.Copied += end - from
		}
		b.m.Packs[n] = end
		if err := b.m.write(b.dir); err != nil {
			return err
		}
	}
	return nil
}

// packIn is the name of a pack in a store's directory.
func packIn(n uint32) string { return filepath.Join(packsDir, blob.PackName(n)) }

func (s *Store) packPath(n uint32) string { return filepath.Join(s.dir, packIn(n)) }

// link makes a hard link of a pack to which nothing is appended any more, neither here nor there.
func (b *backup) link(n uint32, end int64, full bool) bool {
	from := b.s.packPath(n)
	st, err := os.Lstat(from)
	if err != nil || !full || !st.Mode().IsRegular() || st.Size() < end {
		return false
	}
	_ = b.dir.Remove(packIn(n)) // nothing in it is known to be good
	dir, err := openDir(b.dir, packsDir)
	if err != nil {
		return false
	}
	defer dir.Close()
	return unix.Linkat(unix.AT_FDCWD, from, int(dir.Fd()), blob.PackName(n), 0) == nil && dir.Sync() == nil
}

// copyPack brings bytes [from, end) of a pack to dest and to the disk.
func (b *backup) copyPack(ctx context.Context, n uint32, from, end int64, step func(int64)) (err error) {
	src, err := openNoFollow(b.s.packPath(n), os.O_RDONLY)
	if err != nil {
		return fmt.Errorf("a pack that the store needs: %w", err)
	}
	defer src.Close()
	dst, err := openIn(b.dir, packIn(n), os.O_WRONLY|os.O_CREATE)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	if _, err := src.Seek(from, io.SeekStart); err != nil {
		return err
	}
	if _, err := dst.Seek(from, io.SeekStart); err != nil {
		return err
	}
	if err := dst.Truncate(from); err != nil {
		return err
	}
	for at := from; at < end; {
		if err := ctx.Err(); err != nil {
			return err
		}
		k, err := io.CopyN(dst, src, min(copyStep, end-at))
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("%s has %d bytes where the store needs %d: %w", src.Name(), at+k, end, ErrCorrupt)
		}
		if err != nil {
			return err
		}
		at += k
		step(k)
	}
	if err := fdatasync(dst); err != nil {
		return fmt.Errorf("fdatasync %s: %w", dst.Name(), err)
	}
	forget(dst, from, end-from)
	return syncIn(b.dir, packsDir)
}

// verify reads back what is new, and of everything else the headers: a pack that is not the one it should be is found.
func (b *backup) verify(ctx context.Context) error {
	if b.o.Full {
		if err := b.rules(ctx); err != nil {
			return err
		}
	}
	var total, seen int64
	if _, err := scanAll(ctx, b.next.r, 1, `SELECT count(*) FROM blob`, nil, func(c *cells) error {
		total = c.int(0)
		return nil
	}); err != nil {
		return err
	}
	b.o.Progress("verify", 0, total)
	_, err := scanAll(ctx, b.next.r, 7, `SELECT `+blobCols+` FROM blob b WHERE b.pack > 0 ORDER BY b.pack, b.pack_offset`, nil, func(c *cells) error {
		loc := c.location()
		if c.bad != nil {
			return c.bad
		}
		if seen++; seen%1024 == 0 {
			b.o.Progress("verify", seen, total)
		}
		if loc.Offset+loc.Length > b.had[loc.Pack] {
			b.rep.Verified++
			return b.next.blobs.Verify(ctx, loc)
		}
		b.rep.Looked++
		return b.next.blobs.CheckRecord(ctx, loc)
	})
	if err != nil {
		return fmt.Errorf("what was written does not read back: %w; if the disk is sound, remove its pack from the directory and try again", err)
	}
	return nil
}

// rules is Check of the backup.
func (b *backup) rules(ctx context.Context) error {
	var first *Problem
	n := 0
	err := b.next.Check(ctx, func(p Problem) {
		if n++; first == nil {
			first = &p
		}
	})
	if err == nil && n > 0 {
		err = fmt.Errorf("%d broken rules, the first is: %v: %w", n, *first, ErrCorrupt)
	}
	return err
}

// forget has the next reader of a file ask the disk.
func forget(f *os.File, off, n int64) {
	_ = unix.Fadvise(int(f.Fd()), off, n, unix.FADV_DONTNEED) // advice
}
