package fstest

import (
	"strings"

	"golang.org/x/sys/unix"
)

func linkTests() []test {
	return []test{
		{"names share one inode (s10)", linkShared},
		{"open handle while names change (s13)", linkRecreate},
		{"link onto an existing name", linkExists},
		{"link of a directory", linkDir},
		{"link of a symlink", linkSymlink},
		{"many links", linkMany},
		{"link by descriptor", linkByFd},
		{"ctime moves", linkTimes},
		{"symlink targets", symlinkTargets},
		{"symlink longer than PATH_MAX", symlinkTooLong},
		{"symlink chains and loops", symlinkLoops},
		{"symlink attributes", symlinkAttr},
	}
}

func linkShared(e *env) {
	e.write("a", "x")
	e.mkdir("d")
	e.link("a", "d/b")
	e.eq(e.stat("a").Ino, e.stat("d/b").Ino, "inode")
	e.eq(uint64(e.stat("a").Nlink), uint64(2), "nlink")
	fd := e.open("d/b", unix.O_WRONLY|unix.O_APPEND, 0)
	e.fdwrite(fd, "more")
	e.eq(e.stat("a").Size, int64(5), "size by the other name, file still open")
	e.close(fd)
	e.is("a", "xmore")
	e.ok(unix.Chmod(e.p("d/b"), 0o640), "chmod")
	e.eq(e.stat("a").Mode&0o777, uint32(0o640), "mode by the other name")
	e.ok(unix.Truncate(e.p("a"), 2), "truncate")
	e.is("d/b", "xm")
	e.unlink("a")
	e.eq(uint64(e.stat("d/b").Nlink), uint64(1), "nlink after unlink")
	e.is("d/b", "xm")
}

func linkRecreate(e *env) {
	e.mkdir("d")
	e.write("v", "old")
	e.link("v", "d/s")
	fd := e.open("v", unix.O_RDWR, 0)
	e.unlink("v")
	e.write("v", "new")
	e.ok(unix.Fchmod(fd, 0o600), "fchmod")
	e.pwrite(fd, "OLD", 0)
	e.close(fd)
	e.is("d/s", "OLD")
	e.is("v", "new")
	e.eq(e.stat("d/s").Mode&0o777, uint32(0o600), "mode of the old file")
	e.eq(e.stat("v").Mode&0o777, uint32(0o644), "mode of the new file")
}

func linkExists(e *env) {
	e.write("a", "a")
	e.write("b", "b")
	e.mkdir("d")
	e.fails(unix.Link(e.p("a"), e.p("b")), unix.EEXIST, "link onto a file")
	e.fails(unix.Link(e.p("a"), e.p("d")), unix.EEXIST, "link onto a directory")
	e.fails(unix.Link(e.p("a"), e.p("a")), unix.EEXIST, "link onto itself")
	e.fails(unix.Link(e.p("none"), e.p("c")), unix.ENOENT, "link of nothing")
	e.eq(uint64(e.stat("a").Nlink), uint64(1), "nlink")
	e.is("b", "b")
}

func linkDir(e *env) {
	e.mkdir("d")
	e.fails(unix.Link(e.p("d"), e.p("e")), unix.EPERM, "hard link of a directory")
}

func linkSymlink(e *env) {
	e.write("f", "f")
	e.ok(unix.Symlink("f", e.p("l")), "symlink")
	e.ok(unix.Linkat(unix.AT_FDCWD, e.p("l"), unix.AT_FDCWD, e.p("m"), 0), "link of the symlink itself")
	e.eq(e.stat("m").Ino, e.stat("l").Ino, "inode")
	e.eq(uint64(e.stat("l").Nlink), uint64(2), "nlink of the symlink")
	e.ok(unix.Linkat(unix.AT_FDCWD, e.p("l"), unix.AT_FDCWD, e.p("n"), unix.AT_SYMLINK_FOLLOW), "link through the symlink")
	e.eq(e.stat("n").Ino, e.stat("f").Ino, "inode behind the symlink")
}

func linkMany(e *env) {
	e.write("o", "x")
	for i := range 400 {
		e.link("o", "l"+itoa(int64(i)))
	}
	e.eq(uint64(e.stat("o").Nlink), uint64(401), "nlink")
	for i := range 400 {
		e.unlink("l" + itoa(int64(i)))
	}
	e.eq(uint64(e.stat("o").Nlink), uint64(1), "nlink")
	e.is("o", "x")
}

func linkByFd(e *env) {
	e.write("f", "f")
	fd := e.open("f", unix.O_RDONLY, 0)
	path := "/proc/self/fd/" + trimZeros(int64(fd))
	e.ok(unix.Linkat(unix.AT_FDCWD, path, unix.AT_FDCWD, e.p("g"), unix.AT_SYMLINK_FOLLOW), "linkat of a descriptor")
	e.is("g", "f")
	e.unlink("f")
	e.unlink("g")
	e.fails(unix.Linkat(unix.AT_FDCWD, path, unix.AT_FDCWD, e.p("h"), unix.AT_SYMLINK_FOLLOW), unix.ENOENT, "linkat of an unlinked file")
}

func linkTimes(e *env) {
	e.write("f", "f")
	before := e.stat("f")
	tick()
	e.link("f", "g")
	linked := e.stat("f")
	e.eq(mtime(linked), mtime(before), "mtime after link")
	if ctime(linked) <= ctime(before) {
		e.Errorf("link did not move ctime")
	}
	tick()
	e.unlink("g")
	if ctime(e.stat("f")) <= ctime(linked) {
		e.Errorf("unlink did not move the ctime of the name that is left")
	}
}

func symlinkTargets(e *env) {
	for i, target := range []string{"x", "/absolute/nowhere", "../up", "a//b", "\xff\xfe", strings.Repeat("t", 1000), strings.Repeat("/t", 2047)} {
		n := "l" + itoa(int64(i))
		e.ok(unix.Symlink(target, e.p(n)), "symlink to %s", short(target))
		buf := make([]byte, 5000)
		k, err := unix.Readlink(e.p(n), buf)
		e.ok(err, "readlink of %s", short(target))
		e.eq(string(buf[:k]), target, "target")
		e.eq(e.stat(n).Size, int64(len(target)), "size of a symlink")
		k, err = unix.Readlink(e.p(n), buf[:1])
		e.ok(err, "short readlink")
		e.eq(string(buf[:k]), target[:1], "short readlink")
	}
	_, err := unix.Readlink(e.dir, make([]byte, 10))
	e.fails(err, unix.EINVAL, "readlink of a directory")
	e.fails(unix.Symlink("y", e.p("l00000000")), unix.EEXIST, "symlink onto a name")
}

func symlinkTooLong(e *env) {
	e.fails(unix.Symlink(strings.Repeat("t", 4096), e.p("l")), unix.ENAMETOOLONG, "symlink to 4,096 bytes")
	e.gone("l")
}

func symlinkLoops(e *env) {
	e.ok(unix.Symlink("b", e.p("a")), "symlink")
	e.ok(unix.Symlink("a", e.p("b")), "symlink")
	var st unix.Stat_t
	e.fails(unix.Stat(e.p("a"), &st), unix.ELOOP, "stat through a loop")
	_, err := unix.Open(e.p("a"), unix.O_RDONLY, 0)
	e.fails(err, unix.ELOOP, "open through a loop")
	e.write("f", "end")
	prev := "f"
	for i := range 30 {
		n := "c" + itoa(int64(i))
		e.ok(unix.Symlink(prev, e.p(n)), "symlink")
		prev = n
	}
	e.is(prev, "end")
}

func symlinkAttr(e *env) {
	e.ok(unix.Symlink("none", e.p("l")), "symlink")
	st := e.stat("l")
	e.eq(st.Mode, uint32(unix.S_IFLNK|0o777), "mode")
	times := []unix.Timespec{{Sec: 7, Nsec: 8}, {Sec: 9, Nsec: 10}}
	e.ok(unix.UtimesNanoAt(unix.AT_FDCWD, e.p("l"), times, unix.AT_SYMLINK_NOFOLLOW), "utimens of the symlink")
	e.eq(mtime(e.stat("l")), int64(9_000_000_010), "mtime of the symlink")
	if err := unix.Chmod(e.p("l"), 0o600); err != unix.ENOENT {
		e.Errorf("chmod through a dangling symlink: got %v, want ENOENT", err)
	}
}
