package fstest

import (
	"os"

	"golang.org/x/sys/unix"
)

func permTests() []test {
	return []test{
		{"chmod of every bit", permChmod},
		{"chmod of an open file", permOpen},
		{"directories: setgid, sticky", permDirBits},
		{"set-group-id inheritance (s39)", permSetgid},
		{"chown as owner", permChownSelf},
		{"access(2)", permAccess},
	}
}

func permChmod(e *env) {
	e.write("f", "x")
	e.mkdir("d")
	for _, mode := range []uint32{0, 0o7, 0o70, 0o700, 0o644, 0o755, 0o4755, 0o2755, 0o1644, 0o7777} {
		e.ok(unix.Chmod(e.p("f"), mode), "chmod")
		e.eq(e.stat("f").Mode, unix.S_IFREG|mode, "mode of a file")
		e.ok(unix.Chmod(e.p("d"), mode), "chmod")
		e.eq(e.stat("d").Mode, unix.S_IFDIR|mode, "mode of a directory")
	}
	e.fails(unix.Chmod(e.p("none"), 0o644), unix.ENOENT, "chmod of nothing")
}

func permOpen(e *env) {
	fd := e.open("f", unix.O_CREAT|unix.O_RDWR, 0o644)
	e.fdwrite(fd, "a")
	e.ok(unix.Chmod(e.p("f"), 0), "chmod")
	e.fdwrite(fd, "b")
	e.eq(e.pread(fd, 5, 0), "ab", "read by an open handle after chmod 0")
	e.ok(unix.Fchmod(fd, 0o600), "fchmod")
	e.close(fd)
	e.is("f", "ab")
	e.eq(e.stat("f").Mode&0o7777, uint32(0o600), "mode")
}

func permDirBits(e *env) {
	e.ok(unix.Mkdir(e.p("d"), 0o1777), "mkdir with the sticky bit")
	e.eq(e.stat("d").Mode&0o1000, uint32(0o1000), "sticky bit of a new directory")
	e.ok(unix.Chmod(e.p("d"), 0o3770), "chmod")
	e.eq(e.stat("d").Mode, uint32(unix.S_IFDIR|0o3770), "mode")
}

func permSetgid(e *env) {
	e.mkdir("d")
	group := os.Getegid()
	if os.Geteuid() == 0 {
		group = 12345
		e.ok(unix.Chown(e.p("d"), 0, group), "chown")
	}
	e.ok(unix.Chmod(e.p("d"), 0o2775), "chmod")
	if os.Geteuid() == 0 {
		e.ok(unix.Chown(e.p("d"), 1, group), "chown")
		e.eq(e.stat("d").Mode&0o2000, uint32(0o2000), "setgid of a directory after chown")
	}
	e.write("d/f", "x")
	e.mkdir("d/sub")
	e.ok(unix.Symlink("x", e.p("d/l")), "symlink")
	e.ok(unix.Mkfifo(e.p("d/p"), 0o644), "mkfifo")
	for _, n := range []string{"d/f", "d/sub", "d/l", "d/p"} {
		e.eq(e.stat(n).Gid, uint32(group), "group of %s", n)
	}
	e.eq(e.stat("d/sub").Mode&0o2000, uint32(0o2000), "setgid of a new directory")
	e.eq(e.stat("d/f").Mode&0o2000, uint32(0), "setgid of a new file")
	e.mkdir("d/sub/deeper")
	e.eq(e.stat("d/sub/deeper").Gid, uint32(group), "group two levels down")
	fd, err := unix.Open(e.p("d"), unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o644)
	if err == nil {
		e.own(fd)
		e.eq(e.fstat(fd).Gid, uint32(group), "group of an unnamed file")
	}
	e.write("out", "x")
	old := e.stat("out").Gid
	e.rename("out", "d/in")
	e.eq(e.stat("d/in").Gid, old, "group of a file that was moved in")
}

func permChownSelf(e *env) {
	e.write("f", "x")
	uid, gid := os.Geteuid(), os.Getegid()
	e.ok(unix.Chown(e.p("f"), -1, -1), "chown of nothing")
	e.ok(unix.Chown(e.p("f"), uid, gid), "chown to oneself")
	st := e.stat("f")
	e.eq([]uint32{st.Uid, st.Gid}, []uint32{uint32(uid), uint32(gid)}, "owner and group")
	if uid != 0 {
		e.fails(unix.Chown(e.p("f"), 0, -1), unix.EPERM, "give a file to root")
		e.fails(unix.Chown(e.p("f"), -1, 0), unix.EPERM, "give a file to root's group")
		return
	}
	e.ok(unix.Chown(e.p("f"), 11, 22), "chown")
	st = e.stat("f")
	e.eq([]uint32{st.Uid, st.Gid}, []uint32{11, 22}, "owner and group")
	e.ok(unix.Chown(e.p("f"), -1, 33), "chown of the group")
	st = e.stat("f")
	e.eq([]uint32{st.Uid, st.Gid}, []uint32{11, 33}, "owner and group")
	e.ok(unix.Symlink("f", e.p("l")), "symlink")
	e.ok(unix.Lchown(e.p("l"), 44, 55), "lchown")
	st = e.stat("l")
	e.eq([]uint32{st.Uid, st.Gid}, []uint32{44, 55}, "owner and group of the symlink")
	e.eq(e.stat("f").Uid, uint32(11), "owner behind the symlink")
	e.ok(unix.Chown(e.p("f"), 1<<31, 1<<31+1), "chown to a large id")
	e.eq(e.stat("f").Uid, uint32(1<<31), "a large owner id")
}

func permAccess(e *env) {
	e.write("f", "x")
	e.ok(unix.Chmod(e.p("f"), 0o400), "chmod")
	e.ok(unix.Access(e.p("f"), unix.F_OK), "access F_OK")
	e.ok(unix.Access(e.p("f"), unix.R_OK), "access R_OK")
	e.fails(unix.Access(e.p("f"), unix.X_OK), unix.EACCES, "access X_OK without any x bit")
	e.fails(unix.Access(e.p("none"), unix.F_OK), unix.ENOENT, "access of nothing")
	if os.Geteuid() != 0 {
		e.fails(unix.Access(e.p("f"), unix.W_OK), unix.EACCES, "access W_OK")
		_, err := unix.Open(e.p("f"), unix.O_WRONLY, 0)
		e.fails(err, unix.EACCES, "open for writing")
		e.mkdir("d")
		e.write("d/f", "x")
		e.ok(unix.Chmod(e.p("d"), 0o500), "chmod")
		e.fails(unix.Unlink(e.p("d/f")), unix.EACCES, "unlink in a read-only directory")
		e.fails(unix.Mkdir(e.p("d/g"), 0o755), unix.EACCES, "mkdir in a read-only directory")
		e.ok(unix.Chmod(e.p("d"), 0o300), "chmod")
		_, err = os.ReadDir(e.p("d"))
		e.fails(err, unix.EACCES, "list without r")
		e.is("d/f", "x")
		e.ok(unix.Chmod(e.p("d"), 0o600), "chmod")
		_, err = os.ReadFile(e.p("d/f"))
		e.fails(err, unix.EACCES, "read below a directory without x")
		e.ok(unix.Chmod(e.p("d"), 0o700), "chmod")
	}
}
