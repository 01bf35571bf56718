package fstest

import (
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"
)

func stableTests() []test {
	return []test{
		{"inode numbers stay (s45)", stableIno},
		{"device and inode of a tree (s53)", stableTree},
		{"attributes agree by every way", stableWays},
		{"inode numbers are distinct", stableDistinct},
		{"content is stable over time", stableContent},
	}
}

func stableIno(e *env) {
	e.write("f", "x")
	e.mkdir("d")
	f, d := e.stat("f").Ino, e.stat("d").Ino
	// Longer than the entry timeouts that file systems use.
	time.Sleep(1200 * time.Millisecond)
	e.eq(e.stat("f").Ino, f, "inode after a while")
	if out, err := exec.Command("ls", "-laR", e.dir).CombinedOutput(); err != nil {
		e.Errorf("ls: %v %s", err, out)
	}
	fd := e.open("", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	for _, ent := range e.rest(fd, 4096) {
		switch ent.name {
		case "f":
			e.eq(ent.ino, f, "inode in the listing")
		case "d":
			e.eq(ent.ino, d, "inode in the listing")
		}
	}
	e.rename("f", "d/g")
	e.eq(e.stat("d/g").Ino, f, "inode after a rename")
	w := e.open("d/g", unix.O_RDWR|unix.O_TRUNC, 0)
	e.fdwrite(w, "other")
	e.eq(e.fstat(w).Ino, f, "inode by descriptor")
	e.close(w)
	e.ok(unix.Chmod(e.p("d/g"), 0o600), "chmod")
	e.eq(e.stat("d/g").Ino, f, "inode after write and chmod")
	e.rename("d", "e")
	e.eq(e.stat("e").Ino, d, "inode of a directory after a rename")
	e.eq(e.stat("e/g").Ino, f, "inode of a file in a renamed directory")
}

func stableTree(e *env) {
	for i := range 20 {
		d := "d" + itoa(int64(i))
		e.mkdir(d)
		e.write(d+"/f", d)
		e.ok(os.Chtimes(e.p(d), time.Unix(1, 0), time.Unix(2, 0)), "chtimes")
	}
	dev := e.stat("").Dev
	for i := range 20 {
		d := "d" + itoa(int64(i))
		e.eq(e.stat(d).Dev, dev, "device of a directory")
		e.eq(e.stat(d+"/f").Dev, dev, "device of a file")
		e.eq(e.stat(d).Mtim.Sec, int64(2), "mtime of a directory")
	}
}

func stableWays(e *env) {
	e.write("f", pattern(70_000, 1))
	fd := e.open("f", unix.O_RDWR, 0)
	e.fdwrite(fd, "dirty")
	byName, byFd := e.stat("f"), e.fstat(fd)
	byName.Atim, byFd.Atim = unix.Timespec{}, unix.Timespec{}
	e.eq(byName, byFd, "stat and fstat")
	var sx unix.Statx_t
	e.ok(unix.Statx(unix.AT_FDCWD, e.p("f"), unix.AT_STATX_FORCE_SYNC, unix.STATX_ALL, &sx), "statx")
	e.eq([]uint64{sx.Ino, sx.Size, uint64(sx.Nlink), uint64(sx.Mode)}, []uint64{byFd.Ino, uint64(byFd.Size), uint64(byFd.Nlink), uint64(byFd.Mode)}, "statx and fstat")
	e.eq(byFd.Blocks >= 0 && byFd.Blksize > 0, true, "blocks and block size are sane")
}

func stableDistinct(e *env) {
	seen := map[uint64]string{}
	for i := range 300 {
		n := "f" + itoa(int64(i))
		e.write(n, "")
		ino := e.stat(n).Ino
		if other, taken := seen[ino]; taken {
			e.Fatalf("%s and %s have inode number %d", other, n, ino)
		}
		seen[ino] = n
	}
	if seen[0] != "" {
		e.Errorf("a file has inode number 0")
	}
}

func stableContent(e *env) {
	data := pattern(500_000, 7)
	e.write("f", data)
	for range 3 {
		e.is("f", data)
		fd := e.open("f", unix.O_RDONLY, 0)
		e.ok(unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED), "fadvise")
		e.is("f", data)
		e.close(fd)
		tick()
	}
}
