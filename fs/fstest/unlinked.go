package fstest

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

func unlinkedTests() []test {
	return []test{
		{"unlinked open file works on (s15)", unlinkedFile},
		{"many unlinked open files", unlinkedMany},
		{"unlinked file by another handle", unlinkedOther},
		{"no hidden files are left (s18)", unlinkedHidden},
		{"removed directory held open (s15)", unlinkedDir},
		{"removed working directory", unlinkedCwd},
		{"inode number is not reused while held (s46)", unlinkedReuse},
		{"unlink and rmdir errors", unlinkedErrors},
		{"unlinked FIFO and symlink handles", unlinkedPath},
		{"xattrs of an unlinked file", unlinkedXattr},
		{"utimes and chmod through /proc", unlinkedProc},
	}
}

func unlinkedFile(e *env) {
	fd := e.open("f", unix.O_CREAT|unix.O_RDWR, 0o600)
	e.fdwrite(fd, "data")
	e.unlink("f")
	e.gone("f")
	e.eq(uint64(e.fstat(fd).Nlink), uint64(0), "nlink")
	e.ok(unix.Ftruncate(fd, 16384), "ftruncate")
	e.pwrite(fd, "z", 16383)
	e.ok(unix.Fchmod(fd, 0o640), "fchmod")
	e.ok(unix.Futimes(fd, []unix.Timeval{{Sec: 1}, {Sec: 1}}), "futimes")
	e.ok(unix.Fsync(fd), "fsync")
	st := e.fstat(fd)
	e.eq(st.Size, int64(16384), "size")
	e.eq(st.Mode&0o777, uint32(0o640), "mode")
	e.eq(st.Mtim.Sec, int64(1), "mtime")
	e.eq(e.pread(fd, 4, 0), "data", "content")
	e.eq(e.pread(fd, 4, 16380), "\x00\x00\x00z", "content at the end")
	e.write("f", "another")
	e.pwrite(fd, "DATA", 0)
	e.is("f", "another")
}

func unlinkedMany(e *env) {
	var fds []int
	for i := range 200 {
		fd := e.open("f", unix.O_CREAT|unix.O_EXCL|unix.O_RDWR, 0o600)
		e.fdwrite(fd, itoa(int64(i)))
		e.unlink("f")
		fds = append(fds, fd)
	}
	e.lists("")
	for i, fd := range fds {
		e.eq(e.pread(fd, 8, 0), itoa(int64(i)), "content of file %d", i)
		e.close(fd)
	}
}

func unlinkedOther(e *env) {
	e.write("f", "shared")
	a := e.open("f", unix.O_RDWR, 0)
	ag := e.agent()
	b := ag.must("open", "f", unix.O_RDWR, 0).N[0]
	e.unlink("f")
	ag.must("pwrite", b, "SHARED and more", 0)
	e.eq(e.pread(a, 100, 0), "SHARED and more", "what the other process wrote")
	ag.must("close", b)
	e.eq(e.pread(a, 100, 0), "SHARED and more", "after the other handle is closed")
	ag.kill()
	e.pwrite(a, "x", 0)
	e.eq(e.pread(a, 3, 0), "xHA", "after the other process is gone")
}

func unlinkedHidden(e *env) {
	for range 200 {
		f, err := os.Create(e.p("t"))
		e.ok(err, "create")
		_, err = f.WriteString("temporary")
		e.ok(err, "write")
		e.ok(os.Remove(e.p("t")), "remove")
		e.ok(f.Close(), "close")
	}
	e.lists("")
	e.mkdir("d")
	fd := e.open("d/f", unix.O_CREAT|unix.O_RDWR, 0o644)
	e.unlink("d/f")
	e.ok(unix.Rmdir(e.p("d")), "rmdir of a directory whose only file is unlinked and open")
	e.fdwrite(fd, "still there")
}

func unlinkedDir(e *env) {
	e.mkdir("d")
	e.write("d/f", "x")
	fd := e.open("d", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	e.fails(unix.Rmdir(e.p("d")), unix.ENOTEMPTY, "rmdir of a full directory")
	e.unlink("d/f")
	e.ok(unix.Rmdir(e.p("d")), "rmdir")
	e.gone("d")
	e.eq(uint64(e.fstat(fd).Nlink), uint64(0), "nlink")
	e.ok(unix.Fchmod(fd, 0o700), "fchmod")
	e.eq(e.fstat(fd).Mode&0o777, uint32(0o700), "mode")
	buf := make([]byte, 4096)
	n, err := unix.Getdents(fd, buf)
	if err != nil && err != unix.ENOENT {
		e.Errorf("getdents of a removed directory: %v", err)
	}
	if _, _, names := unix.ParseDirent(buf[:max(n, 0)], -1, nil); len(names) > 0 {
		e.Errorf("a removed directory lists %q", names)
	}
	_, err = unix.Openat(fd, "f", unix.O_RDONLY, 0)
	e.fails(err, unix.ENOENT, "openat in a removed directory")
	e.mkdir("d")
	e.write("d/new", "new")
	_, err = unix.Openat(fd, "new", unix.O_RDONLY, 0)
	e.fails(err, unix.ENOENT, "openat in a removed directory whose name is in use again")
}

func unlinkedCwd(e *env) {
	e.mkdir("d")
	a := e.agent()
	a.must("chdir", "d")
	e.ok(unix.Rmdir(e.p("d")), "rmdir")
	a.fails(unix.ENOENT, "getcwd")
	a.fails(unix.ENOENT, "open", "f", unix.O_CREAT|unix.O_WRONLY, 0o644)
	a.fails(unix.ENOENT, "mkdir", "e", 0o755)
	a.must("stat", ".")
	e.mkdir("d")
	a.fails(unix.ENOENT, "open", "f", unix.O_CREAT|unix.O_WRONLY, 0o644)
	e.lists("d")
	a.must("chdir", e.dir)
	a.must("stat", "d")
}

func unlinkedReuse(e *env) {
	e.mkdir("d")
	fd := e.open("d", unix.O_PATH|unix.O_DIRECTORY, 0)
	e.write("f", "x")
	file := e.open("f", unix.O_PATH, 0)
	held := map[uint64]string{e.fstat(fd).Ino: "directory", e.fstat(file).Ino: "file"}
	e.ok(unix.Rmdir(e.p("d")), "rmdir")
	e.unlink("f")
	for i := range 200 {
		e.mkdir("d" + itoa(int64(i)))
		e.write("w"+itoa(int64(i)), "")
	}
	for _, n := range e.names("") {
		if what, taken := held[e.stat(n).Ino]; taken {
			e.Errorf("%s has the inode number of a removed %s that is still open", n, what)
		}
	}
	e.mkdir("d")
	e.lists("d")
}

func unlinkedErrors(e *env) {
	e.write("f", "x")
	e.mkdir("d")
	e.fails(unix.Unlink(e.p("none")), unix.ENOENT, "unlink of nothing")
	e.fails(unix.Rmdir(e.p("none")), unix.ENOENT, "rmdir of nothing")
	e.fails(unix.Unlink(e.p("d")), unix.EISDIR, "unlink of a directory")
	e.fails(unix.Rmdir(e.p("f")), unix.ENOTDIR, "rmdir of a file")
	e.ok(unix.Symlink("d", e.p("l")), "symlink")
	e.fails(unix.Rmdir(e.p("l")), unix.ENOTDIR, "rmdir of a symlink to a directory")
	e.unlink("l")
	e.lists("", "d", "f")
}

func unlinkedPath(e *env) {
	e.ok(unix.Mkfifo(e.p("p"), 0o644), "mkfifo")
	e.ok(unix.Symlink("target", e.p("l")), "symlink")
	p := e.open("p", unix.O_PATH, 0)
	l := e.open("l", unix.O_PATH|unix.O_NOFOLLOW, 0)
	e.unlink("p")
	e.unlink("l")
	e.eq(e.fstat(p).Mode&unix.S_IFMT, uint32(unix.S_IFIFO), "type of an unlinked FIFO")
	e.eq(uint64(e.fstat(p).Nlink), uint64(0), "nlink of an unlinked FIFO")
	buf := make([]byte, 100)
	n, err := unix.Readlinkat(l, "", buf)
	e.ok(err, "readlink of an unlinked symlink")
	e.eq(string(buf[:n]), "target", "readlink of an unlinked symlink")
}

func unlinkedXattr(e *env) {
	fd := e.open("f", unix.O_CREAT|unix.O_RDWR, 0o600)
	e.xattrOrSkip(unix.Fsetxattr(fd, "user.a", []byte("1"), 0))
	e.unlink("f")
	buf := make([]byte, 10)
	n, err := unix.Fgetxattr(fd, "user.a", buf)
	e.ok(err, "fgetxattr")
	e.eq(string(buf[:n]), "1", "value")
	e.ok(unix.Fsetxattr(fd, "user.b", []byte("2"), 0), "fsetxattr")
	e.ok(unix.Fremovexattr(fd, "user.a"), "fremovexattr")
}

func unlinkedProc(e *env) {
	f, err := os.OpenFile(e.p("f"), os.O_CREATE|os.O_RDWR, 0o600)
	e.ok(err, "create")
	defer f.Close()
	e.unlink("f")
	path := "/proc/self/fd/" + trimZeros(int64(f.Fd()))
	e.ok(os.Chmod(path, 0o640), "chmod through /proc")
	e.ok(os.Truncate(path, 100), "truncate through /proc")
	g, err := os.OpenFile(path, os.O_RDWR, 0)
	e.ok(err, "open of an unlinked file through /proc")
	_, err = g.WriteAt([]byte("by the second"), 10)
	e.ok(err, "write by the second handle")
	e.ok(g.Close(), "close")
	e.eq(e.pread(int(f.Fd()), 13, 10), "by the second", "read by the first handle")
	runtime.KeepAlive(f)
}
