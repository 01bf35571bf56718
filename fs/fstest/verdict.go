package fstest

import (
	"fmt"
	"os"
	"sort"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Verdicts has several users try every operation on files and directories of all kinds of modes in dir, and says of each what
// the answer was and what is there then. Two directories of file systems that check permissions alike give equal lists.
// It takes root. Unless all are wanted, some modes stand for the rest.
func Verdicts(t *testing.T, dir string, all bool) (list []string) {
	e := &env{T: t, dir: dir}
	v := &verdicts{env: e, xattrs: true}
	e.ok(unix.Chmod(dir, 0o755), "chmod")
	for _, w := range []struct {
		name string
		who  who
	}{
		{"root", who{}},
		{"owner", who{uid: alice, gid: alice}},
		{"group", who{uid: bob, gid: team}},
		{"supplementary", who{uid: bob, gid: bob, groups: []int{7, team}}},
		{"stranger", who{uid: bob, gid: bob}},
	} {
		a := e.agentAs(w.who)
		a.must("umask", 0o027)
		v.users = append(v.users, user{w.name, a})
	}
	// What is done to a file, by the modes of the file.
	files, dirs, owners := []uint32{0o6777, 0o640, 0o604}, []uint32{0o1777, 0o2775, 0o1730}, []int{bob}
	if all {
		files = append(files, 0o666, 0o644, 0o070, 0o711, 0)
		dirs, owners = append(dirs, 0o777, 0o771, 0o705, 0o070, 0), append(owners, alice)
	}
	for _, mode := range files {
		v.run(fileVerdicts(), fmt.Sprintf("file %#o", mode), state{dir: 0o755, file: mode, owner: alice})
	}
	// What is done to names, by the modes of the directory and the owner of what is in it.
	for _, mode := range dirs {
		for _, owner := range owners {
			v.run(nameVerdicts(), fmt.Sprintf("directory %#o, files of %d", mode, owner), state{dir: mode, file: 0o664, owner: owner})
		}
	}
	e.ok(removeAll(e.p("d")), "clean up")
	return v.list
}

type user struct {
	name string
	a    *agent
}

// state is what an operation finds: directory d of alice and team, in it what belongs to owner and team.
type state struct {
	dir, file uint32
	owner     int
}

type verdict struct {
	what string
	try  func(a *agent) unix.Errno
}

type verdicts struct {
	*env
	users  []user
	list   []string
	xattrs bool
}

func (v *verdicts) run(ops []verdict, where string, s state) {
	v.make(s)
	first := v.look()
	for _, op := range ops {
		if !v.xattrs && strings.Contains(op.what, "xattr") {
			continue
		}
		for _, u := range v.users {
			errno := op.try(u.a)
			line := fmt.Sprintf("%s: %s by %s: %s", where, op.what, u.name, unix.ErrnoName(errno))
			if errno == 0 {
				now := v.look()
				line += " " + now
				if now != first || strings.Contains(op.what, "xattr") { // what look does not see
					v.make(s)
				}
			}
			v.list = append(v.list, line)
		}
	}
}

// make puts things in order.
func (v *verdicts) make(s state) {
	e := v.env
	e.ok(removeAll(e.p("d")), "clean up")
	e.mkdir("d")
	e.write("d/f", "#!/bin/true\n")
	if err := unix.Setxattr(e.p("d/f"), "user.k", []byte("v"), 0); err == unix.EOPNOTSUPP {
		v.xattrs = false
	} else {
		e.ok(err, "setxattr")
	}
	e.write("d/g", "other")
	e.mkdir("d/empty")
	e.ok(unix.Symlink("f", e.p("d/l")), "symlink")
	for _, name := range []string{"f", "g", "empty", "l"} {
		e.ok(unix.Lchown(e.p("d/"+name), s.owner, team), "chown")
	}
	e.ok(unix.Chmod(e.p("d/f"), s.file), "chmod")
	e.ok(unix.Chmod(e.p("d/empty"), 0o755), "chmod")
	e.ok(unix.Chown(e.p("d"), alice, team), "chown")
	e.ok(unix.Chmod(e.p("d"), s.dir), "chmod")
}

// look is what is there.
func (v *verdicts) look() string {
	names, err := os.ReadDir(v.p("d"))
	v.ok(err, "list")
	out := make([]string, 0, len(names)+1)
	for _, name := range append([]string{""}, dirNames(names)...) {
		st := v.stat("d/" + name)
		line := fmt.Sprintf("%s %o %d:%d", name, st.Mode, st.Uid, st.Gid)
		if st.Mode&unix.S_IFMT == unix.S_IFREG {
			line += fmt.Sprintf(" %d %.20q", st.Nlink, v.read("d/"+name))
		}
		out = append(out, line)
	}
	return strings.Join(out, ", ")
}

func dirNames(list []os.DirEntry) []string {
	out := make([]string, len(list))
	for i, d := range list {
		out[i] = d.Name()
	}
	sort.Strings(out)
	return out
}

// one is a system call of an agent.
func one(what, call string, args ...any) verdict {
	return verdict{what, func(a *agent) unix.Errno { return a.call(call, args...).Errno }}
}

// opened is an opening and what is done then.
func opened(what string, flags int, then ...any) verdict {
	return verdict{what, func(a *agent) unix.Errno {
		r := a.call("open", "d/f", flags, 0o666)
		if r.Errno != 0 {
			return r.Errno
		}
		var errno unix.Errno
		if len(then) > 0 {
			errno = a.call(then[0].(string), append([]any{r.N[0]}, then[1:]...)...).Errno
		}
		a.must("close", r.N[0])
		return errno
	}}
}

func fileVerdicts() []verdict {
	return []verdict{
		one("stat", "stat", "d/f"),
		one("access F", "access", "d/f", unix.F_OK), one("access R", "access", "d/f", unix.R_OK),
		one("access W", "access", "d/f", unix.W_OK), one("access X", "access", "d/f", unix.X_OK),
		one("exec", "exec", "./d/f"),
		opened("open to read", unix.O_RDONLY), opened("open to write", unix.O_WRONLY), opened("open for both", unix.O_RDWR),
		opened("open through a link", unix.O_RDONLY), opened("open to truncate", unix.O_WRONLY|unix.O_TRUNC),
		opened("open to read and truncate", unix.O_RDONLY|unix.O_TRUNC), opened("open with O_CREAT", unix.O_RDWR|unix.O_CREAT),
		opened("open with O_CREAT, O_EXCL", unix.O_RDWR|unix.O_CREAT|unix.O_EXCL), opened("open with O_NOATIME", unix.O_RDONLY|unix.O_NOATIME),
		opened("open with O_PATH", unix.O_PATH), opened("open with O_DIRECTORY", unix.O_RDONLY|unix.O_DIRECTORY),
		opened("write", unix.O_WRONLY, "write", "x"), opened("append", unix.O_WRONLY|unix.O_APPEND, "write", "x"),
		opened("ftruncate", unix.O_WRONLY, "ftruncate", 3), opened("fallocate", unix.O_WRONLY, "fallocate", 0, 0, 10000),
		opened("fchmod", unix.O_RDONLY, "fchmod", 0o6751), opened("flock", unix.O_RDONLY, "flock", unix.LOCK_EX),
		one("truncate", "truncate", "d/f", 3),
		one("chmod", "chmod", "d/f", 0o6711), one("chmod of the same", "chmod", "d/f", 0o644), one("chmod with sticky", "chmod", "d/f", 0o1755),
		one("chown to oneself", "chown", "d/f", alice, -1), one("chown to another", "chown", "d/f", bob, -1),
		one("chown to one's group", "chown", "d/f", -1, alice), one("chown to a shared group", "chown", "d/f", -1, team),
		one("chown to a strange group", "chown", "d/f", -1, 99), one("chown of nothing", "chown", "d/f", -1, -1),
		one("utimes to now", "utimens", "d/f"), one("utimes", "utimens", "d/f", 1, 2, 3, 4),
		one("getxattr", "getxattr", "d/f", "user.k"), one("listxattr", "listxattr", "d/f"), one("setxattr", "setxattr", "d/f", "user.k", "w"),
		one("removexattr", "removexattr", "d/f", "user.k"), one("setxattr trusted", "setxattr", "d/f", "trusted.k", "w"),
		one("setxattr security", "setxattr", "d/f", "security.k", "w"), one("getxattr trusted", "getxattr", "d/f", "trusted.k"),
		one("link", "link", "d/f", "d/new"), one("inotify", "watch", "d/f"), one("readlink", "readlink", "d/l"),
	}
}

func nameVerdicts() []verdict {
	create := unix.O_CREAT | unix.O_RDWR
	return []verdict{
		one("list", "list", "d"), one("stat", "stat", "d/f"), one("stat of nothing", "stat", "d/none"), one("chdir", "access", "d", unix.X_OK),
		one("open", "open", "d/f", unix.O_RDONLY, 0), one("open of a directory", "open", "d", unix.O_RDONLY|unix.O_DIRECTORY, 0),
		one("readlink", "readlink", "d/l"), one("inotify", "watch", "d"),
		one("create", "open", "d/new", create, 0o6777), one("create exclusively", "open", "d/new", create|unix.O_EXCL, 0o600),
		one("create what is there", "open", "d/g", create, 0o600), one("unnamed file", "open", "d", unix.O_TMPFILE|unix.O_RDWR, 0o2770),
		one("mkdir", "mkdir", "d/new", 0o7777), one("mkdir over a file", "mkdir", "d/f", 0o755), one("mkfifo", "mknod", "d/new", unix.S_IFIFO|0o666, 0),
		one("socket", "mknod", "d/new", unix.S_IFSOCK|0o666, 0), one("device", "mknod", "d/new", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))),
		one("symlink", "symlink", "f", "d/new"), one("symlink over a file", "symlink", "f", "d/g"), one("link", "link", "d/f", "d/new"),
		one("unlink", "unlink", "d/f"), one("unlink of a link", "unlink", "d/l"), one("unlink of nothing", "unlink", "d/none"),
		one("unlink of a directory", "unlink", "d/empty"), one("rmdir", "rmdir", "d/empty"), one("rmdir of a file", "rmdir", "d/f"),
		one("rmdir of the directory", "rmdir", "d"),
		one("rename", "rename", "d/f", "d/new"), one("rename over", "rename", "d/f", "d/g"), one("rename of a directory", "rename", "d/empty", "d/new"),
		one("rename below", "rename", "d/f", "d/empty/f"), one("rename of a directory over a file", "rename", "d/empty", "d/f"),
		one("rename of nothing", "rename", "d/none", "d/new"), one("exchange", "renameat2", "d/f", "d/g", unix.RENAME_EXCHANGE),
		one("rename, no replacing", "renameat2", "d/f", "d/g", unix.RENAME_NOREPLACE), one("rename, nothing to replace", "renameat2", "d/f", "d/new", unix.RENAME_NOREPLACE),
		one("chmod of the directory", "chmod", "d", 0o2711), one("chown of the directory", "chown", "d", -1, team),
		one("utimes of the directory", "utimens", "d"), one("setxattr of the directory", "setxattr", "d", "user.k", "v"),
		one("setxattr of a symlink", "setxattr", "d/l", "user.k", "v"), one("chown of a symlink", "chown", "d/l", -1, team),
	}
}
