package fstest

import (
	"golang.org/x/sys/unix"
)

func renameTests() []test {
	return []test{
		{"old name gone, new name there (s04)", renameBasic},
		{"over a file (s08)", renameOver},
		{"open file replaced: fstat nlink 0 (s16)", renameOverOpen},
		{"file stays open across directories (s06)", renameOpenOther},
		{"directory over an empty one (s09)", renameDirOverEmpty},
		{"directory over a full one", renameDirOverFull},
		{"file and directory do not mix", renameMixed},
		{"into its own subdirectory", renameIntoSelf},
		{"two links of one inode (s14)", renameSameInode},
		{"directories swap names (s07)", renameSwapDirs},
		{"relink, then rename over (s03)", renameRelink},
		{"NOREPLACE (s54)", renameNoReplace},
		{"EXCHANGE (s54)", renameExchange},
		{"EXCHANGE of a file and a directory", renameExchangeMixed},
		{"EXCHANGE across directories and levels", renameExchangeLevels},
		{"unknown flags", renameFlags},
		{"directory with an open file and a working directory", renameDirInUse},
		{"directory moves: parent, nlink", renameDirParent},
		{"symlinks are renamed, not followed", renameSymlink},
		{"times of parents and of the file", renameTimes},
		{"missing names", renameMissing},
		{"editor saves", renameEditor},
		{"trees with many levels", renameTree},
		{"same name", renameSelf},
	}
}

func renameBasic(e *env) {
	for i := range 200 {
		a, b := "a"+itoa(int64(i)), "b"+itoa(int64(i))
		e.write(a, a)
		ino := e.stat(a).Ino
		e.rename(a, b)
		e.gone(a)
		e.is(b, a)
		e.eq(e.stat(b).Ino, ino, "inode after rename")
	}
}

func renameOver(e *env) {
	e.write("a", "1")
	e.write("b", "2")
	ino := e.stat("a").Ino
	e.rename("a", "b")
	e.is("b", "1")
	e.eq(e.stat("b").Ino, ino, "inode")
	e.lists("", "b")
}

func renameOverOpen(e *env) {
	e.write("a", "A")
	e.write("b", "B")
	fd := e.open("b", unix.O_RDWR, 0)
	e.rename("a", "b")
	e.eq(uint64(e.fstat(fd).Nlink), uint64(0), "nlink of the replaced file")
	e.eq(e.pread(fd, 5, 0), "B", "content of the replaced file")
	e.pwrite(fd, "BB", 0)
	e.ok(unix.Ftruncate(fd, 2), "ftruncate of the replaced file")
	e.ok(unix.Fsync(fd), "fsync of the replaced file")
	e.eq(e.pread(fd, 5, 0), "BB", "content of the replaced file after a write")
	e.is("b", "A")
	e.close(fd)
	e.is("b", "A")

	// One of two links replaced.
	e.write("x", "X")
	e.link("x", "y")
	fd = e.open("x", unix.O_RDONLY, 0)
	e.write("z", "Z")
	e.rename("z", "x")
	e.eq(uint64(e.fstat(fd).Nlink), uint64(1), "nlink of a replaced file with another link")
	e.is("y", "X")
}

func renameOpenOther(e *env) {
	e.write("f", "hello")
	e.mkdir("d")
	fd := e.open("f", unix.O_RDWR, 0)
	e.rename("f", "d/f")
	e.eq(e.pread(fd, 5, 0), "hello", "read after the move")
	e.pwrite(fd, "J", 0)
	e.ok(unix.Ftruncate(fd, 3), "ftruncate after the move")
	e.ok(unix.Fsync(fd), "fsync after the move")
	e.ok(unix.Fchmod(fd, 0o600), "fchmod after the move")
	e.close(fd)
	e.is("d/f", "Jel")
	e.eq(e.stat("d/f").Mode&0o777, uint32(0o600), "mode")
}

func renameDirOverEmpty(e *env) {
	e.mkdir("a")
	e.mkdir("b")
	e.write("a/x", "x")
	fd := e.open("b", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	e.rename("a", "b")
	e.lists("b", "x")
	e.lists("", "b")
	e.eq(uint64(e.fstat(fd).Nlink), uint64(0), "nlink of the replaced directory")
}

func renameDirOverFull(e *env) {
	e.mkdir("a")
	e.mkdir("b")
	e.write("b/y", "y")
	err := unix.Rename(e.p("a"), e.p("b"))
	if err != unix.ENOTEMPTY && err != unix.EEXIST {
		e.Errorf("rename over a full directory: got %v, want ENOTEMPTY", err)
	}
	e.lists("", "a", "b")
	e.lists("b", "y")
	e.unlink("b/y")
	e.rename("a", "b")
}

func renameMixed(e *env) {
	e.write("f", "x")
	e.mkdir("d")
	e.fails(unix.Rename(e.p("f"), e.p("d")), unix.EISDIR, "file over directory")
	e.fails(unix.Rename(e.p("d"), e.p("f")), unix.ENOTDIR, "directory over file")
	e.ok(unix.Symlink("d", e.p("l")), "symlink")
	e.fails(unix.Rename(e.p("d"), e.p("l")), unix.ENOTDIR, "directory over symlink")
	e.rename("f", "l")
	e.is("l", "x")
	e.lists("", "d", "l")
}

func renameIntoSelf(e *env) {
	e.mkdir("d")
	e.mkdir("d/e")
	e.mkdir("d/e/f")
	e.fails(unix.Rename(e.p("d"), e.p("d/x")), unix.EINVAL, "into itself")
	e.fails(unix.Rename(e.p("d"), e.p("d/e/f/x")), unix.EINVAL, "into a descendant")
	e.fails(unix.Rename(e.p("d"), e.p("d/e")), unix.EINVAL, "over its child")
	err := unix.Rename(e.p("d/e"), e.p("d"))
	if err != unix.ENOTEMPTY && err != unix.EEXIST {
		e.Errorf("over its parent: got %v, want ENOTEMPTY", err)
	}
	e.fails(unix.Renameat2(unix.AT_FDCWD, e.p("d"), unix.AT_FDCWD, e.p("d/e"), unix.RENAME_EXCHANGE), unix.EINVAL, "exchange with its child")
	e.lists("d/e", "f")
}

func renameSameInode(e *env) {
	e.write("a", "x")
	e.link("a", "b")
	e.rename("a", "b")
	e.lists("", "a", "b")
	e.eq(uint64(e.stat("a").Nlink), uint64(2), "nlink")
	e.mkdir("d")
	e.link("a", "d/c")
	e.rename("d/c", "b")
	e.lists("d", "c")
	e.eq(uint64(e.stat("a").Nlink), uint64(3), "nlink")
}

func renameSwapDirs(e *env) {
	e.mkdir("A")
	e.mkdir("B")
	e.write("B/x", "x")
	e.lists("A")
	e.lists("B", "x")
	e.rename("A", "C")
	e.rename("B", "A")
	e.lists("A", "x")
	e.lists("C")
	e.is("A/x", "x")
}

func renameRelink(e *env) {
	e.write("f1", "")
	e.link("f1", "l")
	e.unlink("l")
	e.write("f2", "2")
	e.link("f1", "l")
	e.rename("f2", "l")
	e.eq(uint64(e.stat("f1").Nlink), uint64(1), "nlink")
	e.gone("f2")
	e.is("l", "2")
}

func (e *env) rename2(from, to string, flags uint) error {
	return unix.Renameat2(unix.AT_FDCWD, e.p(from), unix.AT_FDCWD, e.p(to), flags)
}

func renameNoReplace(e *env) {
	e.write("a", "A")
	e.write("b", "B")
	e.mkdir("d")
	e.fails(e.rename2("a", "b", unix.RENAME_NOREPLACE), unix.EEXIST, "NOREPLACE over a file")
	e.fails(e.rename2("a", "d", unix.RENAME_NOREPLACE), unix.EEXIST, "NOREPLACE over a directory")
	e.fails(e.rename2("a", "a", unix.RENAME_NOREPLACE), unix.EEXIST, "NOREPLACE over itself")
	e.is("b", "B")
	e.is("a", "A")
	e.ok(e.rename2("a", "c", unix.RENAME_NOREPLACE), "NOREPLACE to a free name")
	e.is("c", "A")
	e.gone("a")
}

func renameExchange(e *env) {
	e.write("a", "A")
	e.write("b", "BB")
	ia, ib := e.stat("a").Ino, e.stat("b").Ino
	e.ok(e.rename2("a", "b", unix.RENAME_EXCHANGE), "EXCHANGE")
	e.is("a", "BB")
	e.is("b", "A")
	e.eq(e.stat("a").Ino, ib, "inode of a")
	e.eq(e.stat("b").Ino, ia, "inode of b")
	e.eq(uint64(e.stat("a").Nlink), uint64(1), "nlink of a")
	e.fails(e.rename2("a", "none", unix.RENAME_EXCHANGE), unix.ENOENT, "EXCHANGE with a missing name")
	e.fails(e.rename2("none", "a", unix.RENAME_EXCHANGE), unix.ENOENT, "EXCHANGE of a missing name")
	e.is("a", "BB")
	e.ok(e.rename2("a", "a", unix.RENAME_EXCHANGE), "EXCHANGE with itself")
	e.is("a", "BB")
}

func renameExchangeMixed(e *env) {
	e.mkdir("p")
	e.mkdir("q")
	e.write("p/f", "F")
	e.mkdir("q/d")
	e.write("q/d/x", "X")
	fd := e.open("p/f", unix.O_RDWR, 0)
	e.ok(e.rename2("p/f", "q/d", unix.RENAME_EXCHANGE), "EXCHANGE of a file and a directory")
	e.is("q/d", "F")
	e.is("p/f/x", "X")
	e.pwrite(fd, "G", 0)
	e.is("q/d", "G")
	e.eq(uint64(e.stat("p").Nlink), uint64(3), "nlink of the directory that got one")
	e.eq(uint64(e.stat("q").Nlink), uint64(2), "nlink of the directory that lost one")
	e.eq(e.stat("p/f/..").Ino, e.stat("p").Ino, "parent of the moved directory")
}

func renameExchangeLevels(e *env) {
	e.mkdir("a")
	e.mkdir("a/b")
	e.mkdir("c")
	e.write("a/b/deep", "deep")
	e.write("c/flat", "flat")
	e.ok(e.rename2("a/b", "c", unix.RENAME_EXCHANGE), "EXCHANGE across levels")
	e.is("c/deep", "deep")
	e.is("a/b/flat", "flat")
	e.lists("a", "b")
	e.lists("c", "deep")
}

func renameFlags(e *env) {
	e.write("a", "A")
	e.write("b", "B")
	e.fails(e.rename2("a", "b", unix.RENAME_NOREPLACE|unix.RENAME_EXCHANGE), unix.EINVAL, "NOREPLACE with EXCHANGE")
	e.fails(e.rename2("a", "b", 1<<20), unix.EINVAL, "a flag that does not exist")
	// WHITEOUT needs a device node; a file system may refuse it, but not do a plain rename instead.
	if err := e.rename2("a", "c", unix.RENAME_WHITEOUT); err != nil {
		e.is("a", "A")
	} else if e.stat("a").Mode&unix.S_IFMT != unix.S_IFCHR {
		e.Errorf("RENAME_WHITEOUT left no whiteout")
	}
	e.is("b", "B")
}

func renameDirInUse(e *env) {
	e.mkdir("d")
	e.mkdir("d/sub")
	e.mkdir("other")
	e.write("d/sub/f", "f")
	fd := e.open("d/sub/f", unix.O_RDWR, 0)
	dir := e.open("d/sub", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	a := e.agent()
	a.must("chdir", "d/sub")
	e.rename("d", "other/moved")
	e.pwrite(fd, "F", 0)
	e.is("other/moved/sub/f", "F")
	got, err := unix.Openat(dir, "f", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	e.ok(err, "openat in a moved directory")
	e.own(got)
	e.eq(a.must("getcwd").S[0], e.p("other/moved/sub"), "working directory after the move")
	a.must("close", a.must("open", "g", unix.O_CREAT|unix.O_WRONLY, 0o644).N[0])
	e.lists("other/moved/sub", "f", "g")
	a.must("chdir", "../../..")
	e.eq(a.must("getcwd").S[0], e.dir, "working directory three levels up")
	e.gone("d")
}

func renameDirParent(e *env) {
	e.mkdir("p")
	e.mkdir("q")
	e.mkdir("p/d")
	e.eq(uint64(e.stat("p").Nlink), uint64(3), "nlink of a directory with one subdirectory")
	e.rename("p/d", "q/d")
	e.eq(uint64(e.stat("p").Nlink), uint64(2), "nlink of the old parent")
	e.eq(uint64(e.stat("q").Nlink), uint64(3), "nlink of the new parent")
	e.eq(e.stat("q/d/..").Ino, e.stat("q").Ino, "parent")
	e.mkdir("p/e")
	e.rename("p/e", "q/d") // over an empty directory
	e.eq(uint64(e.stat("p").Nlink), uint64(2), "nlink of the old parent")
	e.eq(uint64(e.stat("q").Nlink), uint64(3), "nlink of the new parent after replacing")
}

func renameSymlink(e *env) {
	e.write("f", "f")
	e.ok(unix.Symlink("f", e.p("l")), "symlink")
	e.rename("l", "m")
	e.eq(e.stat("m").Mode&unix.S_IFMT, uint32(unix.S_IFLNK), "type")
	e.is("f", "f")
	e.ok(unix.Symlink("f", e.p("n")), "symlink")
	e.write("g", "g")
	e.rename("g", "n")
	e.is("f", "f")
	e.is("n", "g")
	e.lists("", "f", "m", "n")
}

func renameTimes(e *env) {
	e.mkdir("p")
	e.mkdir("q")
	e.write("p/f", "f")
	e.ok(unix.UtimesNano(e.p("p/f"), []unix.Timespec{{Sec: 1}, {Sec: 2, Nsec: 3}}), "utimens")
	p, q, f := e.stat("p"), e.stat("q"), e.stat("p/f")
	tick()
	e.rename("p/f", "q/f")
	if mtime(e.stat("p")) <= mtime(p) || mtime(e.stat("q")) <= mtime(q) {
		e.Errorf("rename did not move the mtime of both parents")
	}
	if ctime(e.stat("p")) <= ctime(p) || ctime(e.stat("q")) <= ctime(q) {
		e.Errorf("rename did not move the ctime of both parents")
	}
	e.eq(mtime(e.stat("q/f")), mtime(f), "mtime of the file")
	if ctime(e.stat("q/f")) <= ctime(f) {
		e.Errorf("rename did not move the ctime of the file")
	}
}

func renameMissing(e *env) {
	e.write("f", "f")
	e.fails(unix.Rename(e.p("none"), e.p("x")), unix.ENOENT, "from a missing name")
	e.fails(unix.Rename(e.p("f"), e.p("none/x")), unix.ENOENT, "into a missing directory")
	e.fails(unix.Rename(e.p("f"), e.p("f/x")), unix.ENOTDIR, "below a file")
	e.fails(unix.Rename(e.p("f"), "/proc/x"), unix.EXDEV, "to another file system")
	e.is("f", "f")
}

// renameEditor does what vim, emacs, sed -i and git do to save a file.
func renameEditor(e *env) {
	e.write("f", "version 0")
	for i := 1; i <= 20; i++ {
		text := "version " + itoa(int64(i))
		switch i % 3 {
		case 0: // backup by rename, new file under the old name, backup removed
			e.rename("f", "f~")
			fd := e.open("f", unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o644)
			e.fdwrite(fd, text)
			e.ok(unix.Fsync(fd), "fsync")
			e.close(fd)
			e.unlink("f~")
		case 1: // temporary, rename over
			e.write("sedXXXX", text)
			e.rename("sedXXXX", "f")
		default: // lock file by O_EXCL, rename over
			fd := e.open("f.lock", unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o644)
			e.fdwrite(fd, text)
			e.close(fd)
			e.rename("f.lock", "f")
		}
		e.is("f", text)
		e.lists("", "f")
	}
}

func renameTree(e *env) {
	path := "t"
	e.mkdir(path)
	for i := range 30 {
		e.write(path+"/f", itoa(int64(i)))
		path += "/d"
		e.mkdir(path)
	}
	e.rename("t", "u")
	e.rename("u/d/d/d", "v")
	e.rename("u", "v/d/u")
	e.is("v/f", itoa(3))
	e.is("v/d/u/d/f", itoa(1))
	e.lists("", "v")
	e.eq(e.stat("v/d/u/d/d/..").Ino, e.stat("v/d/u/d").Ino, "parent")
}

func renameSelf(e *env) {
	e.write("f", "f")
	e.mkdir("d")
	e.rename("f", "f")
	e.rename("d", "d")
	e.is("f", "f")
	e.lists("", "f", "d")
}
