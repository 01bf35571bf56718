package fstest

import (
	"strings"

	"golang.org/x/sys/unix"
)

func namesTests() []test {
	return []test{
		{"any bytes (s44)", namesAnyBytes},
		{"length 255 and 256", namesLength},
		{"path near PATH_MAX", namesPathMax},
		{"case and normal forms differ", namesCase},
		{"dot and dot-dot", namesDots},
		{"trailing slash", namesTrailingSlash},
		{"empty path", namesEmpty},
		{"component is a file", namesNotDir},
	}
}

func oddNames() []string {
	return []string{
		"\xff\xfe", "a\nb", "\x01", " ", "-rf", "*", "'\"", "%00", "e\u0301", "\u00e9", "A", "a", "\\", "..x", "...", "con ",
		strings.Repeat("x", 255), strings.Repeat("\xf0", 255), "\u200b", ".wsf", "a:b", "~", "\t", "\x7f", "%s%n",
	}
}

func namesAnyBytes(e *env) {
	for _, n := range oddNames() {
		e.write(n, n)
	}
	e.lists("", oddNames()...)
	for _, n := range oddNames() {
		e.is(n, n)
		e.rename(n, "moved")
		e.rename("moved", n)
		e.mkdir("d")
		e.rename("d", "d"+n[:min(len(n), 200)])
		e.ok(unix.Rmdir(e.p("d"+n[:min(len(n), 200)])), "rmdir of %q", n)
		e.ok(unix.Symlink(n, e.p("link")), "symlink to %q", n)
		e.is("link", n)
		e.unlink("link")
		e.unlink(n)
	}
	e.lists("")
}

func namesLength(e *env) {
	long := strings.Repeat("n", 256)
	var st unix.Stat_t
	e.write(long[:255], "x")
	e.eq(e.stat(long[:255]).Size, int64(1), "size under the longest name")
	_, err := unix.Open(e.p(long), unix.O_CREAT|unix.O_WRONLY, 0o644)
	e.fails(err, unix.ENAMETOOLONG, "create with 256 bytes")
	e.fails(unix.Lstat(e.p(long), &st), unix.ENAMETOOLONG, "stat with 256 bytes")
	e.fails(unix.Mkdir(e.p(long), 0o755), unix.ENAMETOOLONG, "mkdir with 256 bytes")
	e.fails(unix.Mkfifo(e.p(long), 0o644), unix.ENAMETOOLONG, "mkfifo with 256 bytes")
	e.fails(unix.Symlink("t", e.p(long)), unix.ENAMETOOLONG, "symlink with 256 bytes")
	e.fails(unix.Link(e.p(long[:255]), e.p(long)), unix.ENAMETOOLONG, "link with 256 bytes")
	e.fails(unix.Rename(e.p(long[:255]), e.p(long)), unix.ENAMETOOLONG, "rename to 256 bytes")
	e.fails(unix.Unlink(e.p(long)), unix.ENAMETOOLONG, "unlink with 256 bytes")
}

// namesPathMax builds a tree deeper than PATH_MAX from the inside and works at its end by relative names.
func namesPathMax(e *env) {
	part := strings.Repeat("d", 250)
	a := e.agent()
	const depth = 20 // 5,000 bytes
	for range depth {
		a.must("mkdir", part, 0o755)
		a.must("chdir", part)
	}
	fd := a.must("open", "f", unix.O_CREAT|unix.O_RDWR, 0o644).N[0]
	a.must("write", fd, "deep")
	a.must("close", fd)
	fd = a.must("open", "f", unix.O_RDONLY, 0).N[0]
	e.eq(a.must("pread", fd, 10, 0).S[0], "deep", "content below PATH_MAX")
	a.must("close", fd)
	a.must("rename", "f", "g")
	a.must("unlink", "g")
	for range depth {
		a.must("chdir", "..")
		a.must("rmdir", part)
	}

	// An absolute path of 4,095 bytes works, one of 4,096 does not.
	path := e.dir
	for len(path) < 4095-251 {
		path += "/" + strings.Repeat("p", min(250, 4095-251-len(path)))
		e.ok(unix.Mkdir(path, 0o755), "mkdir at %d bytes", len(path))
	}
	last := path + "/" + strings.Repeat("f", 4095-len(path)-1)
	fd2, err := unix.Open(last, unix.O_CREAT|unix.O_WRONLY, 0o644)
	e.ok(err, "create with a path of %d bytes", len(last))
	e.close(fd2)
	_, err = unix.Open(last+"x", unix.O_CREAT|unix.O_WRONLY, 0o644)
	e.fails(err, unix.ENAMETOOLONG, "create with a path of %d bytes", len(last)+1)
}

func namesCase(e *env) {
	for i, n := range []string{"Name", "name", "NAME", "\u00fc", "u\u0308"} {
		fd := e.open(n, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o644)
		e.fdwrite(fd, itoa(int64(i)))
		e.close(fd)
	}
	e.is("name", itoa(1))
	e.is("\u00fc", itoa(3))
	e.eq(len(e.names("")), 5, "number of names")
}

func namesDots(e *env) {
	e.mkdir("d")
	e.fails(unix.Rmdir(e.p("d/.")), unix.EINVAL, "rmdir of .")
	if err := unix.Rmdir(e.p("d/..")); err == nil {
		e.Errorf("rmdir of .. worked")
	}
	e.fails(unix.Mkdir(e.p("d/."), 0o755), unix.EEXIST, "mkdir of .")
	e.fails(unix.Mkdir(e.p("d/.."), 0o755), unix.EEXIST, "mkdir of ..")
	e.fails(unix.Rename(e.p("d/."), e.p("x")), unix.EBUSY, "rename of .")
	e.fails(unix.Rename(e.p("d"), e.p("d/..")), unix.EBUSY, "rename to ..")
	e.eq(e.stat("d/.").Ino, e.stat("d").Ino, "inode of d/.")
	e.eq(e.stat("d/..").Ino, e.stat("").Ino, "inode of d/..")
}

func namesTrailingSlash(e *env) {
	e.write("f", "x")
	e.mkdir("d")
	var st unix.Stat_t
	e.fails(unix.Lstat(e.p("f/"), &st), unix.ENOTDIR, "stat of f/")
	e.ok(unix.Lstat(e.p("d/"), &st), "stat of d/")
	_, err := unix.Open(e.p("new/"), unix.O_CREAT|unix.O_WRONLY, 0o644)
	e.fails(err, unix.EISDIR, "create of new/")
	e.ok(unix.Mkdir(e.p("made/"), 0o755), "mkdir of made/")
	e.fails(unix.Rename(e.p("f"), e.p("g/")), unix.ENOTDIR, "rename of a file to g/")
	e.fails(unix.Unlink(e.p("f/")), unix.ENOTDIR, "unlink of f/")
	e.ok(unix.Rename(e.p("made/"), e.p("again/")), "rename of made/ to again/")
	e.lists("", "f", "d", "again")
}

func namesEmpty(e *env) {
	var st unix.Stat_t
	e.fails(unix.Lstat("", &st), unix.ENOENT, "stat of the empty path")
	e.fails(unix.Symlink("", e.p("l")), unix.ENOENT, "symlink to the empty path")
	e.gone("l")
}

func namesNotDir(e *env) {
	e.write("f", "x")
	var st unix.Stat_t
	e.fails(unix.Lstat(e.p("f/x"), &st), unix.ENOTDIR, "stat below a file")
	_, err := unix.Open(e.p("f/x"), unix.O_CREAT|unix.O_WRONLY, 0o644)
	e.fails(err, unix.ENOTDIR, "create below a file")
	e.fails(unix.Mkdir(e.p("f/x"), 0o755), unix.ENOTDIR, "mkdir below a file")
	_, err = unix.Open(e.p("f"), unix.O_RDONLY|unix.O_DIRECTORY, 0)
	e.fails(err, unix.ENOTDIR, "open of a file as a directory")
	e.fails(unix.Mkdir(e.p("none/x"), 0o755), unix.ENOENT, "mkdir below nothing")
}
