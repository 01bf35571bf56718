package fstest

import (
	"os"

	"golang.org/x/sys/unix"
)

func syncTests() []test {
	return []test{
		{"fsync and fdatasync of files", syncFile},
		{"fsync of directories (s48)", syncDir},
		{"fsync of read-only and unlinked handles", syncOdd},
		{"sync_file_range, syncfs, sync", syncAll},
		{"statfs (s59)", syncStatfs},
		{"statfs after a large file (s59)", syncStatfsUsed},
	}
}

func syncFile(e *env) {
	fd := e.open("f", unix.O_CREAT|unix.O_RDWR, 0o644)
	for i := range 20 {
		e.pwrite(fd, pattern(5000, byte(i)), int64(i)*5000)
		if i%2 == 0 {
			e.ok(unix.Fsync(fd), "fsync")
		} else {
			e.ok(unix.Fdatasync(fd), "fdatasync")
		}
	}
	e.ok(unix.Fsync(fd), "fsync of clean data")
	e.eq(e.stat("f").Size, int64(100_000), "size")
	e.eq(e.pread(fd, 5000, 95_000), pattern(5000, 19), "content")
}

func syncDir(e *env) {
	e.mkdir("d")
	e.write("d/f", "x")
	fd := e.open("d", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	e.ok(unix.Fsync(fd), "fsync of a directory")
	e.ok(unix.Fdatasync(fd), "fdatasync of a directory")
	e.unlink("d/f")
	e.ok(unix.Rmdir(e.p("d")), "rmdir")
	e.ok(unix.Fsync(fd), "fsync of a removed directory")
}

func syncOdd(e *env) {
	e.write("f", "x")
	r := e.open("f", unix.O_RDONLY, 0)
	e.ok(unix.Fsync(r), "fsync of a read-only handle")
	w := e.open("f", unix.O_WRONLY, 0)
	e.fdwrite(w, "yy")
	e.ok(unix.Fsync(r), "fsync by the reader of what the writer wrote")
	e.unlink("f")
	e.fdwrite(w, "zz")
	e.ok(unix.Fsync(w), "fsync of an unlinked file")
	p := e.open("", unix.O_PATH, 0)
	e.fails(unix.Fsync(p), unix.EBADF, "fsync of an O_PATH handle")
}

func syncAll(e *env) {
	fd := e.open("f", unix.O_CREAT|unix.O_RDWR, 0o644)
	e.fdwrite(fd, pattern(100_000, 1))
	e.ok(unix.SyncFileRange(fd, 0, 50_000, unix.SYNC_FILE_RANGE_WAIT_BEFORE|unix.SYNC_FILE_RANGE_WRITE|unix.SYNC_FILE_RANGE_WAIT_AFTER), "sync_file_range")
	e.ok(unix.Syncfs(fd), "syncfs")
	unix.Sync()
	e.is("f", pattern(100_000, 1))
}

func syncStatfs(e *env) {
	e.write("f", "x")
	var dir, file unix.Statfs_t
	e.ok(unix.Statfs(e.dir, &dir), "statfs")
	e.ok(unix.Statfs(e.p("f"), &file), "statfs of a file")
	e.eq(file.Type, dir.Type, "type by a file")
	e.eq(dir.Namelen, int64(255), "longest name")
	if dir.Bsize <= 0 || dir.Blocks == 0 || dir.Bfree == 0 || dir.Bfree > dir.Blocks || dir.Bavail > dir.Bfree {
		e.Errorf("statfs: block size %d, blocks %d, free %d, available %d", dir.Bsize, dir.Blocks, dir.Bfree, dir.Bavail)
	}
	if dir.Files == 0 || dir.Ffree == 0 || dir.Ffree > dir.Files {
		e.Errorf("statfs: files %d, free %d", dir.Files, dir.Ffree)
	}
	e.fails(unix.Statfs(e.p("none"), &dir), unix.ENOENT, "statfs of nothing")
}

func syncStatfsUsed(e *env) {
	var before, after unix.Statfs_t
	e.ok(unix.Statfs(e.dir, &before), "statfs")
	e.write("big", pattern(8<<20, 1))
	f, err := os.Open(e.p("big"))
	e.ok(err, "open")
	defer f.Close()
	e.ok(f.Sync(), "fsync")
	e.ok(unix.Statfs(e.dir, &after), "statfs")
	// Other programs free space, too; only nonsense is caught.
	if after.Bfree == 0 || after.Blocks == 0 {
		e.Errorf("statfs after writing 8 MiB: blocks %d, free %d", after.Blocks, after.Bfree)
	}
	e.eq(e.stat("big").Blocks > 0, true, "a file of 8 MiB has blocks")
}
