package fstest

import (
	"strings"

	"golang.org/x/sys/unix"
)

func createTests() []test {
	return []test{
		{"create, exclusive", createExcl},
		{"exclusive against symlinks", createExclSymlink},
		{"through a dangling symlink", createDangling},
		{"truncating open", createTrunc},
		{"truncating open with O_RDONLY", createTruncReadOnly},
		{"shorter overwrite leaves no tail (s26)", createShorter},
		{"truncate beside another handle (s27)", createTruncOther},
		{"echo redirection", createEcho},
		{"access modes", createModes},
		{"open of a directory", createOnDir},
		{"O_NOFOLLOW and O_PATH", createNoFollow},
		{"mode with umask", createUmask},
		{"read-only mode, writable handle", createReadOnlyMode},
		{"missing parent", createNoParent},
		{"vanished temporary", createVanish},
		{"many small files", createMany},
		{"open of a missing name after it was looked up", createNegative},
	}
}

func createExcl(e *env) {
	fd := e.open("f", unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o640)
	e.fdwrite(fd, "one")
	e.close(fd)
	_, err := unix.Open(e.p("f"), unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o644)
	e.fails(err, unix.EEXIST, "exclusive create over a file")
	e.is("f", "one")
	st := e.stat("f")
	e.eq(st.Mode, uint32(unix.S_IFREG|0o640), "mode")
	e.eq(uint64(st.Nlink), uint64(1), "nlink")
	fd = e.open("f", unix.O_CREAT|unix.O_WRONLY, 0o777)
	e.close(fd)
	e.eq(e.stat("f").Mode, uint32(unix.S_IFREG|0o640), "mode after a second open with O_CREAT")
	e.is("f", "one")
}

func createExclSymlink(e *env) {
	e.ok(unix.Symlink("nowhere", e.p("l")), "symlink")
	_, err := unix.Open(e.p("l"), unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o644)
	e.fails(err, unix.EEXIST, "exclusive create over a dangling symlink")
	e.gone("nowhere")
}

func createDangling(e *env) {
	e.ok(unix.Symlink("target", e.p("l")), "symlink")
	fd := e.open("l", unix.O_CREAT|unix.O_WRONLY, 0o644)
	e.fdwrite(fd, "through")
	e.close(fd)
	e.is("target", "through")
}

func createTrunc(e *env) {
	e.write("f", "0123456789")
	before := e.stat("f")
	tick()
	fd := e.open("f", unix.O_WRONLY|unix.O_TRUNC, 0)
	e.eq(e.fstat(fd).Size, int64(0), "size after O_TRUNC")
	e.eq(e.stat("f").Size, int64(0), "size by name after O_TRUNC")
	e.close(fd)
	after := e.stat("f")
	if mtime(after) <= mtime(before) || ctime(after) <= ctime(before) {
		e.Errorf("O_TRUNC moved neither mtime nor ctime")
	}
	e.eq(after.Ino, before.Ino, "inode after O_TRUNC")
}

// createTruncReadOnly: Linux truncates although the handle cannot write; no FLUSH need follow.
func createTruncReadOnly(e *env) {
	e.write("f", "0123456789")
	fd := e.open("f", unix.O_RDONLY|unix.O_TRUNC, 0)
	e.eq(e.pread(fd, 10, 0), "", "read after O_RDONLY|O_TRUNC")
	e.close(fd)
	e.is("f", "")
}

func createShorter(e *env) {
	e.write("t", strings.Repeat("A", 21))
	e.write("t", "BB\n")
	e.is("t", "BB\n")
	big := pattern(300_000, 1)
	e.write("t", big)
	e.write("t", big[:70_000])
	e.is("t", big[:70_000])
}

func createTruncOther(e *env) {
	e.write("t", "old bytes")
	a := e.open("t", unix.O_WRONLY|unix.O_TRUNC, 0)
	b := e.open("t", unix.O_WRONLY, 0)
	e.fdwrite(b, "new")
	e.close(b)
	e.is("t", "new")
	e.close(a)
	e.is("t", "new")
}

// createEcho is what a shell does for "echo x > f": a handle that is duplicated, closed once early and written later.
func createEcho(e *env) {
	for i := range 3 {
		fd := e.open("f", unix.O_CREAT|unix.O_WRONLY|unix.O_TRUNC, 0o644)
		dup, err := unix.Dup(fd)
		e.ok(err, "dup")
		e.close(fd)
		e.fdwrite(dup, "line "+itoa(int64(i))+"\n")
		e.close(dup)
		e.is("f", "line "+itoa(int64(i))+"\n")
	}
}

func createModes(e *env) {
	e.write("f", "abc")
	r := e.open("f", unix.O_RDONLY, 0)
	_, err := unix.Write(r, []byte("x"))
	e.fails(err, unix.EBADF, "write to a read-only handle")
	e.fails(unix.Ftruncate(r, 1), unix.EINVAL, "ftruncate of a read-only handle")
	w := e.open("f", unix.O_WRONLY, 0)
	_, err = unix.Read(w, make([]byte, 1))
	e.fails(err, unix.EBADF, "read from a write-only handle")
	e.is("f", "abc")
}

func createOnDir(e *env) {
	e.mkdir("d")
	_, err := unix.Open(e.p("d"), unix.O_WRONLY, 0)
	e.fails(err, unix.EISDIR, "open of a directory for writing")
	_, err = unix.Open(e.p("d"), unix.O_CREAT|unix.O_RDONLY, 0o644)
	e.fails(err, unix.EISDIR, "O_CREAT on a directory")
	_, err = unix.Open(e.p("d"), unix.O_RDONLY|unix.O_TRUNC, 0)
	e.fails(err, unix.EISDIR, "O_TRUNC on a directory")
	fd := e.open("d", unix.O_RDONLY, 0)
	_, err = unix.Read(fd, make([]byte, 10))
	e.fails(err, unix.EISDIR, "read of a directory")
	e.fails(unix.Truncate(e.p("d"), 0), unix.EISDIR, "truncate of a directory")
}

func createNoFollow(e *env) {
	e.write("f", "abc")
	e.ok(unix.Symlink("f", e.p("l")), "symlink")
	_, err := unix.Open(e.p("l"), unix.O_RDONLY|unix.O_NOFOLLOW, 0)
	e.fails(err, unix.ELOOP, "open of a symlink with O_NOFOLLOW")
	fd := e.open("l", unix.O_PATH|unix.O_NOFOLLOW, 0)
	e.eq(e.fstat(fd).Mode&unix.S_IFMT, uint32(unix.S_IFLNK), "type behind O_PATH|O_NOFOLLOW")
	_, err = unix.Read(fd, make([]byte, 1))
	e.fails(err, unix.EBADF, "read from O_PATH")
	fd = e.open("f", unix.O_PATH, 0)
	re, err := unix.Open("/proc/self/fd/"+trimZeros(int64(fd)), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	e.ok(err, "open again through an O_PATH handle")
	e.own(re)
	e.eq(e.pread(re, 10, 0), "abc", "content behind an O_PATH handle")
}

func createUmask(e *env) {
	a := e.agent()
	for _, umask := range []int{0, 0o22, 0o77, 0o777} {
		a.must("umask", umask)
		n := "m" + itoa(int64(umask))
		a.must("close", a.must("open", n, unix.O_CREAT|unix.O_WRONLY, 0o666).N[0])
		e.eq(e.stat(n).Mode, uint32(unix.S_IFREG|0o666&^umask), "mode of a file with umask %#o", umask)
		a.must("mkdir", n+"d", 0o777)
		e.eq(e.stat(n+"d").Mode, uint32(unix.S_IFDIR|0o777&^umask), "mode of a directory with umask %#o", umask)
		a.must("mknod", n+"p", unix.S_IFIFO|0o666, 0)
		e.eq(e.stat(n+"p").Mode, uint32(unix.S_IFIFO|0o666&^umask), "mode of a FIFO with umask %#o", umask)
	}
}

func createReadOnlyMode(e *env) {
	fd := e.open("f", unix.O_CREAT|unix.O_EXCL|unix.O_RDWR, 0o444)
	e.fdwrite(fd, "written")
	e.ok(unix.Ftruncate(fd, 4), "ftruncate")
	e.close(fd)
	e.is("f", "writ")
	fd = e.open("g", unix.O_CREAT|unix.O_EXCL|unix.O_RDWR, 0)
	e.fdwrite(fd, "hidden")
	e.eq(e.pread(fd, 10, 0), "hidden", "read of a file of mode 0 through its handle")
}

func createNoParent(e *env) {
	_, err := unix.Open(e.p("none/f"), unix.O_CREAT|unix.O_WRONLY, 0o644)
	e.fails(err, unix.ENOENT, "create below a missing directory")
	e.mkdir("d")
	fd := e.open("d", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	e.ok(unix.Rmdir(e.p("d")), "rmdir")
	_, err = unix.Openat(fd, "f", unix.O_CREAT|unix.O_WRONLY, 0o644)
	e.fails(err, unix.ENOENT, "create in a removed directory")
	e.fails(unix.Mkdirat(fd, "f", 0o755), unix.ENOENT, "mkdir in a removed directory")
	e.fails(unix.Symlinkat("x", fd, "f"), unix.ENOENT, "symlink in a removed directory")
	e.write("f", "x")
	e.fails(unix.Linkat(unix.AT_FDCWD, e.p("f"), fd, "f", 0), unix.ENOENT, "link into a removed directory")
	e.fails(unix.Renameat(unix.AT_FDCWD, e.p("f"), fd, "f"), unix.ENOENT, "rename into a removed directory")
}

func createVanish(e *env) {
	for i := range 300 {
		n := "t" + itoa(int64(i%3))
		e.write(n, "x")
		e.unlink(n)
		e.gone(n)
	}
	e.lists("")
}

func createMany(e *env) {
	for i := range 500 {
		e.write("f"+itoa(int64(i)), pattern(i*7, byte(i)))
	}
	for i := range 500 {
		e.is("f"+itoa(int64(i)), pattern(i*7, byte(i)))
	}
}

func createNegative(e *env) {
	for i := range 100 {
		n := "n" + itoa(int64(i))
		e.gone(n)
		e.write(n, n)
		e.is(n, n)
		e.unlink(n)
		e.gone(n)
		e.mkdir(n)
		e.eq(e.stat(n).Mode&unix.S_IFMT, uint32(unix.S_IFDIR), "type of a name that came back as a directory")
	}
}
