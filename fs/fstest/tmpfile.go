package fstest

import (
	"golang.org/x/sys/unix"
)

func tmpfileTests() []test {
	return []test{
		{"write and link (s58)", tmpfileLink},
		{"never linked", tmpfileDrop},
		{"O_EXCL forbids linking", tmpfileExcl},
		{"link by descriptor alone", tmpfileEmptyPath},
		{"mode and umask", tmpfileMode},
		{"link onto an existing name", tmpfileExists},
		{"errors", tmpfileErrors},
	}
}

// tmpfile opens an unnamed file, or skips where there are none.
func (e *env) tmpfile(dir string, flags int, mode uint32) int {
	e.Helper()
	fd, err := unix.Open(e.p(dir), unix.O_TMPFILE|flags|unix.O_CLOEXEC, mode)
	if err == unix.EOPNOTSUPP {
		e.Skipf("O_TMPFILE is not supported here (EOPNOTSUPP)")
	}
	e.ok(err, "open with O_TMPFILE")
	return e.own(fd)
}

func (e *env) linkFd(fd int, name string) error {
	return unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+trimZeros(int64(fd)), unix.AT_FDCWD, e.p(name), unix.AT_SYMLINK_FOLLOW)
}

func tmpfileLink(e *env) {
	fd := e.tmpfile("", unix.O_RDWR, 0o644)
	e.lists("")
	e.eq(uint64(e.fstat(fd).Nlink), uint64(0), "nlink before linkat")
	e.fdwrite(fd, "before")
	e.ok(e.linkFd(fd, "f"), "linkat")
	e.eq(uint64(e.fstat(fd).Nlink), uint64(1), "nlink after linkat")
	e.is("f", "before")
	e.fdwrite(fd, " after")
	e.close(fd)
	e.is("f", "before after")
	e.unlink("f")
	e.lists("")
}

func tmpfileDrop(e *env) {
	for i := range 50 {
		fd := e.tmpfile("", unix.O_RDWR, 0o600)
		e.fdwrite(fd, pattern(10_000*i, byte(i)))
		e.eq(e.pread(fd, 10, 0), pattern(10_000*i, byte(i))[:min(10, 10_000*i)], "content")
		e.close(fd)
	}
	e.lists("")
}

func tmpfileExcl(e *env) {
	fd := e.tmpfile("", unix.O_RDWR|unix.O_EXCL, 0o600)
	e.fails(e.linkFd(fd, "f"), unix.ENOENT, "linkat of an O_EXCL temporary")
	e.gone("f")
}

func tmpfileEmptyPath(e *env) {
	e.needRoot("linkat with AT_EMPTY_PATH takes CAP_DAC_READ_SEARCH")
	fd := e.tmpfile("", unix.O_RDWR, 0o600)
	e.fdwrite(fd, "x")
	e.ok(unix.Linkat(fd, "", unix.AT_FDCWD, e.p("f"), unix.AT_EMPTY_PATH), "linkat with AT_EMPTY_PATH")
	e.is("f", "x")
}

func tmpfileMode(e *env) {
	a := e.agent()
	a.must("umask", 0o027)
	r := a.call("open", ".", unix.O_TMPFILE|unix.O_RDWR, 0o666)
	if r.Errno == unix.EOPNOTSUPP {
		e.Skipf("O_TMPFILE is not supported here (EOPNOTSUPP)")
	}
	e.ok(r.err(), "open with O_TMPFILE")
	path := "/proc/" + trimZeros(int64(a.pid)) + "/fd/" + trimZeros(r.N[0])
	e.ok(unix.Linkat(unix.AT_FDCWD, path, unix.AT_FDCWD, e.p("f"), unix.AT_SYMLINK_FOLLOW), "linkat of another process's file")
	e.eq(e.stat("f").Mode, uint32(unix.S_IFREG|0o640), "mode")
}

func tmpfileExists(e *env) {
	e.write("f", "there")
	fd := e.tmpfile("", unix.O_RDWR, 0o600)
	e.fails(e.linkFd(fd, "f"), unix.EEXIST, "linkat onto a name")
	e.is("f", "there")
	e.mkdir("d")
	e.ok(e.linkFd(fd, "d/g"), "linkat into another directory")
	e.ok(e.linkFd(fd, "h"), "second linkat")
	e.eq(uint64(e.fstat(fd).Nlink), uint64(2), "nlink")
}

func tmpfileErrors(e *env) {
	e.tmpfile("", unix.O_RDWR, 0o600)
	e.write("f", "x")
	_, err := unix.Open(e.p("f"), unix.O_TMPFILE|unix.O_RDWR, 0o600)
	e.fails(err, unix.ENOTDIR, "O_TMPFILE in a file")
	_, err = unix.Open(e.p("none"), unix.O_TMPFILE|unix.O_RDWR, 0o600)
	e.fails(err, unix.ENOENT, "O_TMPFILE in nothing")
	_, err = unix.Open(e.dir, unix.O_TMPFILE|unix.O_RDONLY, 0o600)
	e.fails(err, unix.EINVAL, "O_TMPFILE without write access")
}
