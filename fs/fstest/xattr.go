package fstest

import (
	"fmt"
	"sort"
	"strings"

	"golang.org/x/sys/unix"
)

func xattrTests() []test {
	return []test{
		{"set, get, list, remove (s58)", xattrBasic},
		{"flags CREATE and REPLACE", xattrFlags},
		{"sizes", xattrSizes},
		{"many names", xattrMany},
		{"values of any bytes", xattrBytes},
		{"directories and links", xattrKinds},
		{"namespaces", xattrSpaces},
		{"name limits", xattrLimits},
		{"survive rename, chmod and write; ctime moves", xattrSurvive},
		{"by descriptor", xattrFd},
	}
}

func (e *env) xattrOrSkip(err error) {
	e.Helper()
	if err == unix.EOPNOTSUPP {
		e.Skipf("extended attributes are not supported here (EOPNOTSUPP)")
	}
	e.ok(err, "setxattr")
}

func (e *env) getx(name, attr string) (string, error) {
	buf := make([]byte, 70_000)
	n, err := unix.Lgetxattr(e.p(name), attr, buf)
	return string(buf[:max(n, 0)]), err
}

// user lists the attributes of the user namespace.
func (e *env) user(name string) []string {
	e.Helper()
	buf := make([]byte, 70_000)
	n, err := unix.Llistxattr(e.p(name), buf)
	e.ok(err, "listxattr")
	var list []string
	for _, s := range strings.Split(string(buf[:n]), "\x00") {
		if strings.HasPrefix(s, "user.") {
			list = append(list, s)
		}
	}
	sort.Strings(list)
	return list
}

func xattrBasic(e *env) {
	e.write("f", "x")
	e.xattrOrSkip(unix.Setxattr(e.p("f"), "user.k", []byte(strings.Repeat("v", 1000)), 0))
	v, err := e.getx("f", "user.k")
	e.ok(err, "getxattr")
	e.eq(v, strings.Repeat("v", 1000), "value")
	e.eq(e.user("f"), []string{"user.k"}, "list")
	e.ok(unix.Setxattr(e.p("f"), "user.k", []byte("new"), 0), "replace")
	v, err = e.getx("f", "user.k")
	e.ok(err, "getxattr")
	e.eq(v, "new", "value")
	_, err = e.getx("f", "user.none")
	e.fails(err, unix.ENODATA, "get of a missing attribute")
	e.fails(unix.Removexattr(e.p("f"), "user.none"), unix.ENODATA, "remove of a missing attribute")
	e.ok(unix.Removexattr(e.p("f"), "user.k"), "remove")
	_, err = e.getx("f", "user.k")
	e.fails(err, unix.ENODATA, "get after remove")
	e.eq(len(e.user("f")), 0, "list after remove")
}

func xattrFlags(e *env) {
	e.write("f", "x")
	e.xattrOrSkip(unix.Setxattr(e.p("f"), "user.a", []byte("1"), unix.XATTR_CREATE))
	e.fails(unix.Setxattr(e.p("f"), "user.a", []byte("2"), unix.XATTR_CREATE), unix.EEXIST, "CREATE of what exists")
	e.fails(unix.Setxattr(e.p("f"), "user.b", []byte("2"), unix.XATTR_REPLACE), unix.ENODATA, "REPLACE of what does not")
	e.ok(unix.Setxattr(e.p("f"), "user.a", []byte("3"), unix.XATTR_REPLACE), "REPLACE")
	v, err := e.getx("f", "user.a")
	e.ok(err, "getxattr")
	e.eq(v, "3", "value")
}

func xattrSizes(e *env) {
	e.write("f", "x")
	e.xattrOrSkip(unix.Setxattr(e.p("f"), "user.k", []byte("0123456789"), 0))
	n, err := unix.Getxattr(e.p("f"), "user.k", nil)
	e.ok(err, "size query")
	e.eq(n, 10, "size")
	_, err = unix.Getxattr(e.p("f"), "user.k", make([]byte, 9))
	e.fails(err, unix.ERANGE, "get with a buffer that is too small")
	n, err = unix.Listxattr(e.p("f"), nil)
	e.ok(err, "size of the list")
	if n < len("user.k\x00") {
		e.Errorf("size of the list: %d", n)
	}
	_, err = unix.Listxattr(e.p("f"), make([]byte, 3))
	e.fails(err, unix.ERANGE, "list with a buffer that is too small")
	e.ok(unix.Setxattr(e.p("f"), "user.empty", nil, 0), "empty value")
	v, err := e.getx("f", "user.empty")
	e.ok(err, "get of an empty value")
	e.eq(v, "", "empty value")
	e.eq(e.user("f"), []string{"user.empty", "user.k"}, "list")
	if err := unix.Setxattr(e.p("f"), "user.big", make([]byte, 65537), 0); err != unix.E2BIG && err != unix.ENOSPC {
		e.Errorf("value of 64 KiB + 1: got %v, want E2BIG", err)
	}
}

func xattrMany(e *env) {
	e.write("f", "x")
	var want []string
	for i := range 20 {
		k := fmt.Sprintf("user.key%02d", i)
		e.xattrOrSkip(unix.Setxattr(e.p("f"), k, []byte(strings.Repeat("v", i)), 0))
		want = append(want, k)
	}
	e.eq(e.user("f"), want, "list")
	for i := range 20 {
		v, err := e.getx("f", want[i])
		e.ok(err, "getxattr")
		e.eq(len(v), i, "length of %s", want[i])
	}
	for i := 0; i < 20; i += 2 {
		e.ok(unix.Removexattr(e.p("f"), want[i]), "remove")
	}
	e.eq(len(e.user("f")), 10, "attributes left")
}

func xattrBytes(e *env) {
	e.write("f", "x")
	value := "\x00\xff\n" + pattern(500, 1)
	e.xattrOrSkip(unix.Setxattr(e.p("f"), "user.\xff\x01 odd", []byte(value), 0))
	v, err := e.getx("f", "user.\xff\x01 odd")
	e.ok(err, "getxattr")
	e.eq(v, value, "value")
	e.eq(e.user("f"), []string{"user.\xff\x01 odd"}, "list")
}

func xattrKinds(e *env) {
	e.mkdir("d")
	e.write("f", "x")
	e.xattrOrSkip(unix.Setxattr(e.p("d"), "user.k", []byte("dir"), 0))
	v, err := e.getx("d", "user.k")
	e.ok(err, "getxattr of a directory")
	e.eq(v, "dir", "value")
	e.ok(unix.Symlink("f", e.p("l")), "symlink")
	e.ok(unix.Setxattr(e.p("l"), "user.k", []byte("through"), 0), "setxattr through a symlink")
	v, err = e.getx("f", "user.k")
	e.ok(err, "getxattr")
	e.eq(v, "through", "value behind the symlink")
	e.fails(unix.Lsetxattr(e.p("l"), "user.k", []byte("x"), 0), unix.EPERM, "user attribute of a symlink")
	e.link("f", "g")
	v, err = e.getx("g", "user.k")
	e.ok(err, "getxattr by another link")
	e.eq(v, "through", "value by another link")
}

func xattrSpaces(e *env) {
	e.write("f", "x")
	e.xattrOrSkip(unix.Setxattr(e.p("f"), "user.k", []byte("x"), 0))
	e.fails(unix.Setxattr(e.p("f"), "nonsense.k", []byte("x"), 0), unix.EOPNOTSUPP, "unknown namespace")
	e.fails(unix.Setxattr(e.p("f"), "user.", []byte("x"), 0), unix.EINVAL, "empty name")
	_, err := e.getx("f", "security.capability")
	if err != unix.ENODATA && err != unix.EOPNOTSUPP {
		e.Errorf("get of security.capability: got %v, want ENODATA", err)
	}
	_, err = e.getx("f", "system.posix_acl_access")
	if err != unix.ENODATA && err != unix.EOPNOTSUPP {
		e.Errorf("get of system.posix_acl_access: got %v, want ENODATA or EOPNOTSUPP", err)
	}
}

func xattrLimits(e *env) {
	e.write("f", "x")
	e.xattrOrSkip(unix.Setxattr(e.p("f"), "user."+strings.Repeat("k", 250), []byte("x"), 0))
	e.eq(len(e.user("f")), 1, "attributes")
	err := unix.Setxattr(e.p("f"), "user."+strings.Repeat("k", 251), []byte("x"), 0)
	e.fails(err, unix.ERANGE, "name of 256 bytes")
}

func xattrSurvive(e *env) {
	e.write("f", "x")
	before := e.stat("f")
	tick()
	e.xattrOrSkip(unix.Setxattr(e.p("f"), "user.k", []byte("v"), 0))
	after := e.stat("f")
	e.eq(mtime(after), mtime(before), "mtime after setxattr")
	if ctime(after) <= ctime(before) {
		e.Errorf("setxattr did not move ctime")
	}
	fd := e.open("f", unix.O_RDWR, 0)
	e.fdwrite(fd, "written")
	e.ok(unix.Fsetxattr(fd, "user.while", []byte("open"), 0), "fsetxattr on a dirty file")
	e.fdwrite(fd, " more")
	e.close(fd)
	e.rename("f", "g")
	e.ok(unix.Chmod(e.p("g"), 0o600), "chmod")
	e.ok(unix.Truncate(e.p("g"), 3), "truncate")
	e.eq(e.user("g"), []string{"user.k", "user.while"}, "list")
	e.is("g", "wri")
	e.write("h", "other")
	e.rename("h", "g")
	e.eq(len(e.user("g")), 0, "attributes of the file that took the name")
}

func xattrFd(e *env) {
	fd := e.open("f", unix.O_CREAT|unix.O_RDONLY, 0o644)
	e.xattrOrSkip(unix.Fsetxattr(fd, "user.k", []byte("v"), 0))
	buf := make([]byte, 100)
	n, err := unix.Fgetxattr(fd, "user.k", buf)
	e.ok(err, "fgetxattr")
	e.eq(string(buf[:n]), "v", "value")
	n, err = unix.Flistxattr(fd, buf)
	e.ok(err, "flistxattr")
	if !strings.Contains(string(buf[:n]), "user.k\x00") {
		e.Errorf("flistxattr: %q", buf[:n])
	}
	e.ok(unix.Fremovexattr(fd, "user.k"), "fremovexattr")
}
