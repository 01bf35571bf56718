package fstest

import (
	"golang.org/x/sys/unix"
)

// Two users that are nobody's on a common machine.
const (
	alice = 54321
	bob   = 54322
	team  = 54400
)

func usersTests() []test {
	all := []test{
		{"owner, group, other", usersClasses},
		{"supplementary groups", usersGroups},
		{"directories: search, list, write", usersDirs},
		{"sticky directory", usersSticky},
		{"write clears setuid and setgid (s39)", usersKillWrite},
		{"direct write clears setuid and setgid", usersKillDirect},
		{"a mode that the kernel knows is not believed after a write (generic/355)", usersKillKnown},
		{"truncate clears setuid and setgid", usersKillTruncate},
		{"fallocate and copy_file_range clear setuid and setgid", usersKillRange},
		{"chown clears setuid and setgid", usersKillChown},
		{"chown and chmod by non-owners", usersChown},
		{"chmod by a stranger to the group drops setgid (s39)", usersChmodSetgid},
		{"utimes by non-owners", usersTimes},
		{"hard links and symlinks of others", usersLinks},
		{"owner and group of new files", usersNew},
		{"xattrs of others", usersXattr},
		{"root overrides", usersRoot},
	}
	for i := range all {
		fn := all[i].fn
		all[i].fn = func(e *env) {
			e.needRoot("two other users take part")
			e.ok(unix.Chmod(e.dir, 0o777), "chmod")
			fn(e)
		}
	}
	return all
}

// owned makes a file of a user.
func (e *env) owned(name string, uid, gid int, mode uint32) {
	e.Helper()
	e.write(name, "content")
	e.ok(unix.Chown(e.p(name), uid, gid), "chown")
	e.ok(unix.Chmod(e.p(name), mode), "chmod")
}

func (a *agent) mayOpen(name string, flags int, allowed bool) {
	a.e.Helper()
	r := a.call("open", name, flags, 0o644)
	switch {
	case allowed && r.Errno == 0:
		a.must("close", r.N[0])
	case allowed:
		a.e.Errorf("open of %s with flags %#x: %v, want success", name, flags, r.err())
	case r.Errno != unix.EACCES:
		a.e.Errorf("open of %s with flags %#x: got %v, want EACCES", name, flags, r.err())
	}
}

func usersClasses(e *env) {
	a, b := e.agentAs(who{uid: alice, gid: alice}), e.agentAs(who{uid: bob, gid: team})
	for _, c := range []struct {
		mode          uint32
		aliceR, bobR  bool
		aliceW, bobW  bool
		aliceX, bobsX bool
	}{
		{0o600, true, false, true, false, false, false},
		{0o640, true, true, true, false, false, false},
		{0o444, true, true, false, false, false, false},
		{0o060, false, true, false, true, false, false}, // the owner is not the group, even if it would gain
		{0o711, true, false, true, false, true, true},
		{0, false, false, false, false, false, false},
	} {
		e.owned("f", alice, team, c.mode)
		a.mayOpen("f", unix.O_RDONLY, c.aliceR)
		a.mayOpen("f", unix.O_WRONLY, c.aliceW)
		a.mayOpen("f", unix.O_RDWR, c.aliceR && c.aliceW)
		b.mayOpen("f", unix.O_RDONLY, c.bobR)
		b.mayOpen("f", unix.O_WRONLY, c.bobW)
		b.mayOpen("f", unix.O_RDONLY|unix.O_TRUNC, c.bobR && c.bobW)
		e.eq(a.call("access", "f", unix.X_OK).Errno == 0, c.aliceX, "mode %#o: owner may execute", c.mode)
		e.eq(b.call("access", "f", unix.X_OK).Errno == 0, c.bobsX, "mode %#o: group may execute", c.mode)
		e.unlink("f")
	}
}

func usersGroups(e *env) {
	member := e.agentAs(who{uid: bob, gid: bob, groups: []int{team, 7}})
	stranger := e.agentAs(who{uid: bob, gid: bob})
	e.owned("f", alice, team, 0o660)
	member.mayOpen("f", unix.O_RDWR, true)
	stranger.mayOpen("f", unix.O_RDWR, false)
	stranger.mayOpen("f", unix.O_RDONLY, false)
	e.mkdir("d")
	e.ok(unix.Chown(e.p("d"), alice, team), "chown")
	e.ok(unix.Chmod(e.p("d"), 0o770), "chmod")
	member.mayOpen("d/new", unix.O_CREAT|unix.O_WRONLY, true)
	stranger.mayOpen("d/new2", unix.O_CREAT|unix.O_WRONLY, false)
	stranger.fails(unix.EACCES, "stat", "d/new")
}

func usersDirs(e *env) {
	b := e.agentAs(who{uid: bob, gid: bob})
	e.mkdir("d")
	e.write("d/f", "x")
	e.ok(unix.Chmod(e.p("d/f"), 0o666), "chmod")
	for _, c := range []struct {
		mode               uint32
		list, stat, create bool
	}{
		{0o777, true, true, true},
		{0o775, true, true, false},
		{0o771, false, true, false},
		{0o774, true, false, false},
		{0o773, false, true, true},
		{0o772, false, false, false},
		{0o770, false, false, false},
	} {
		e.ok(unix.Chmod(e.p("d"), c.mode), "chmod")
		e.eq(b.call("list", "d").Errno == 0, c.list, "mode %#o: list", c.mode)
		e.eq(b.call("stat", "d/f").Errno == 0, c.stat, "mode %#o: stat", c.mode)
		b.mayOpen("d/f", unix.O_RDWR, c.stat)
		e.eq(b.call("mkdir", "d/new", 0o755).Errno == 0, c.create, "mode %#o: mkdir", c.mode)
		e.eq(b.call("rmdir", "d/new").Errno == 0, c.create, "mode %#o: rmdir", c.mode)
		e.eq(b.call("rename", "d/f", "d/g").Errno == 0, c.create, "mode %#o: rename", c.mode)
		e.eq(b.call("rename", "d/g", "d/f").Errno == 0, c.create, "mode %#o: rename back", c.mode)
		e.eq(b.call("symlink", "x", "d/l").Errno == 0, c.create, "mode %#o: symlink", c.mode)
		e.eq(b.call("unlink", "d/l").Errno == 0, c.create, "mode %#o: unlink", c.mode)
	}
	e.is("d/f", "x")
}

func usersSticky(e *env) {
	a, b := e.agentAs(who{uid: alice, gid: alice}), e.agentAs(who{uid: bob, gid: bob})
	e.mkdir("t")
	e.ok(unix.Chmod(e.p("t"), 0o1777), "chmod")
	a.must("close", a.must("open", "t/a", unix.O_CREAT|unix.O_WRONLY, 0o666).N[0])
	a.must("mkdir", "t/ad", 0o777)
	b.must("close", b.must("open", "t/b", unix.O_CREAT|unix.O_WRONLY, 0o666).N[0])
	b.fails(unix.EPERM, "unlink", "t/a")
	b.fails(unix.EPERM, "rename", "t/a", "t/mine")
	b.fails(unix.EPERM, "rename", "t/b", "t/a")
	b.fails(unix.EPERM, "rmdir", "t/ad")
	e.lists("t", "a", "ad", "b")
	b.must("rename", "t/b", "t/c")
	b.must("unlink", "t/c")
	a.must("rmdir", "t/ad")
	// The owner of the directory may remove what is not hers.
	e.ok(unix.Chown(e.p("t"), bob, bob), "chown")
	b.must("unlink", "t/a")
}

func usersKillWrite(e *env) {
	b := e.agentAs(who{uid: bob, gid: bob})
	for _, way := range []string{"write", "append", "pwrite"} {
		e.owned("f", alice, alice, 0o6777)
		flags := unix.O_WRONLY
		if way == "append" {
			flags |= unix.O_APPEND
		}
		fd := b.must("open", "f", flags, 0).N[0]
		e.eq(e.stat("f").Mode&0o7777, uint32(0o6777), "mode after open")
		if way == "pwrite" {
			b.must("pwrite", fd, "x", 3)
		} else {
			b.must("write", fd, "x")
		}
		e.eq(e.stat("f").Mode&0o7777, uint32(0o777), "mode after %s by another user", way)
		b.must("close", fd)
		e.eq(e.stat("f").Mode&0o7777, uint32(0o777), "mode after close")
		e.unlink("f")
	}
	// setgid without group execution is not a privilege (once mandatory locking).
	e.owned("f", alice, alice, 0o2766)
	fd := b.must("open", "f", unix.O_WRONLY, 0).N[0]
	b.must("write", fd, "x")
	b.must("close", fd)
	if mode := e.stat("f").Mode & 0o7777; mode != 0o766 && mode != 0o2766 {
		e.Errorf("mode 02766 after a write by another user is %#o", mode)
	}
	// Root writes: nothing is cleared.
	e.owned("g", alice, alice, 0o6777)
	e.ok(unix.Truncate(e.p("g"), 3), "truncate by root")
	rootFd := e.open("g", unix.O_WRONLY, 0)
	e.fdwrite(rootFd, "x")
	e.close(rootFd)
	e.eq(e.stat("g").Mode&0o7777, uint32(0o6777), "mode after a write by root")
}

// usersKillDirect asks for the mode alone: a kernel that asks for size and times afresh may still believe an old mode.
func usersKillDirect(e *env) {
	e.owned("f", alice, alice, 0o666)
	b := e.agentAs(who{uid: bob, gid: bob})
	for range 20 {
		e.ok(unix.Chmod(e.p("f"), 0o6777), "chmod")
		var st unix.Statx_t
		e.ok(unix.Statx(unix.AT_FDCWD, e.p("f"), 0, unix.STATX_MODE, &st), "statx")
		e.eq(st.Mode&0o7777, uint16(0o6777), "mode before")
		r := b.call("open", "f", unix.O_WRONLY|unix.O_DIRECT, 0)
		if r.Errno == unix.EINVAL {
			e.Skip("no O_DIRECT here")
		}
		e.ok(r.err(), "open with O_DIRECT")
		b.must("pwritepage", r.N[0], 0)
		e.ok(unix.Statx(unix.AT_FDCWD, e.p("f"), 0, unix.STATX_MODE, &st), "statx")
		e.eq(st.Mode&0o7777, uint16(0o777), "mode after a direct write by another user")
		b.must("close", r.N[0])
	}
}

func usersKillRange(e *env) {
	b, c := e.agentAs(who{uid: bob, gid: bob}), e.agentAs(who{uid: bob, gid: bob, groups: []int{alice}})
	e.owned("from", alice, alice, 0o644)
	mode := func() uint32 {
		e.Helper()
		var st unix.Statx_t
		e.ok(unix.Statx(unix.AT_FDCWD, e.p("f"), 0, unix.STATX_MODE, &st), "statx")
		return uint32(st.Mode) & 0o7777
	}
	for _, t := range []struct {
		how string
		fn  func(a *agent, fd int64) reply
	}{
		{"fallocate inside", func(a *agent, fd int64) reply { return a.call("fallocate", fd, 0, 0, 3) }},
		{"fallocate that grows", func(a *agent, fd int64) reply { return a.call("fallocate", fd, 0, 0, 100) }},
		{"punch hole", func(a *agent, fd int64) reply {
			return a.call("fallocate", fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 3)
		}},
		{"zero range", func(a *agent, fd int64) reply {
			return a.call("fallocate", fd, unix.FALLOC_FL_ZERO_RANGE, 0, 3)
		}},
		{"copy_file_range", func(a *agent, fd int64) reply {
			from := a.must("open", "from", unix.O_RDONLY, 0).N[0]
			defer a.must("close", from)
			return a.call("copyrange", from, fd, 4)
		}},
	} {
		for _, m := range []struct {
			by           *agent
			before, then uint32
		}{{e.agent(), 0o6777, 0o6777}, {b, 0o6777, 0o777}, {b, 0o6766, 0o766}, {c, 0o6766, 0o2766}, {c, 0o6776, 0o776}} {
			e.owned("f", alice, alice, m.before)
			e.eq(mode(), m.before, "mode before %s", t.how)
			fd := m.by.must("open", "f", unix.O_WRONLY, 0).N[0]
			r := t.fn(m.by, fd)
			m.by.must("close", fd)
			if r.Errno == unix.EOPNOTSUPP {
				continue // as tmpfs has no FALLOC_FL_ZERO_RANGE
			}
			e.ok(r.err(), "%s", t.how)
			e.eq(mode(), m.then, "mode %#o after %s by another user", m.before, t.how)
		}
	}
}

// usersKillKnown is usersKillDirect for ordinary writes and for opens that truncate.
func usersKillKnown(e *env) {
	b := e.agentAs(who{uid: bob, gid: bob})
	mode := func() uint16 {
		var st unix.Statx_t
		e.ok(unix.Statx(unix.AT_FDCWD, e.p("f"), 0, unix.STATX_MODE, &st), "statx")
		return st.Mode & 0o7777
	}
	for _, way := range []string{"write", "append", "truncating open"} {
		e.owned("f", alice, alice, 0o6777)
		e.eq(mode(), uint16(0o6777), "mode before")
		flags := map[string]int{"append": unix.O_APPEND, "truncating open": unix.O_TRUNC}[way]
		fd := b.must("open", "f", unix.O_WRONLY|flags, 0).N[0]
		if flags != unix.O_TRUNC {
			b.must("write", fd, "x")
		}
		e.eq(mode(), uint16(0o777), "mode after %s by another user", way)
		b.must("close", fd)
		e.unlink("f")
	}
}

func usersKillTruncate(e *env) {
	b := e.agentAs(who{uid: bob, gid: bob})
	e.owned("f", alice, alice, 0o6777)
	b.must("truncate", "f", 3)
	e.eq(e.stat("f").Mode&0o7777, uint32(0o777), "mode after truncate by another user")
	e.owned("g", alice, alice, 0o6777)
	b.must("close", b.must("open", "g", unix.O_WRONLY|unix.O_TRUNC, 0).N[0])
	e.eq(e.stat("g").Mode&0o7777, uint32(0o777), "mode after O_TRUNC by another user")
	e.owned("h", alice, alice, 0o6777)
	fd := b.must("open", "h", unix.O_WRONLY, 0).N[0]
	b.must("ftruncate", fd, 100)
	e.eq(e.stat("h").Mode&0o7777, uint32(0o777), "mode after ftruncate by another user")
}

func usersKillChown(e *env) {
	a := e.agentAs(who{uid: alice, gid: alice, groups: []int{team}})
	e.owned("f", alice, alice, 0o6755)
	a.must("chown", "f", -1, team)
	e.eq(e.stat("f").Mode&0o7777, uint32(0o755), "mode after chown of the group by the owner")
	e.eq(e.stat("f").Gid, uint32(team), "group")
	// Linux clears them for root, too.
	e.owned("g", alice, alice, 0o6755)
	e.ok(unix.Chown(e.p("g"), bob, bob), "chown by root")
	e.eq(e.stat("g").Mode&0o7777, uint32(0o755), "mode after chown by root")
	e.mkdir("d")
	e.ok(unix.Chmod(e.p("d"), 0o6755), "chmod")
	e.ok(unix.Chown(e.p("d"), bob, bob), "chown")
	e.eq(e.stat("d").Mode&0o7777, uint32(0o6755), "mode of a directory after chown")
}

func usersChown(e *env) {
	a, b := e.agentAs(who{uid: alice, gid: alice, groups: []int{team}}), e.agentAs(who{uid: bob, gid: bob})
	e.owned("f", alice, alice, 0o666)
	a.fails(unix.EPERM, "chown", "f", bob, -1)
	a.fails(unix.EPERM, "chown", "f", -1, bob)
	b.fails(unix.EPERM, "chown", "f", bob, bob)
	b.fails(unix.EPERM, "chown", "f", -1, bob)
	b.fails(unix.EPERM, "chmod", "f", 0o777)
	a.must("chown", "f", -1, team)
	a.must("chown", "f", alice, alice)
	a.must("chmod", "f", 0o600)
	st := e.stat("f")
	e.eq([]uint32{st.Uid, st.Gid, st.Mode & 0o7777}, []uint32{alice, alice, 0o600}, "owner, group, mode")
}

func usersChmodSetgid(e *env) {
	a := e.agentAs(who{uid: alice, gid: alice, groups: []int{team}})
	e.owned("f", alice, bob, 0o755) // a group she is not in
	a.must("chmod", "f", 0o2755)
	e.eq(e.stat("f").Mode&0o7777, uint32(0o755), "setgid for a group the owner is not in")
	e.owned("g", alice, team, 0o755)
	a.must("chmod", "g", 0o2755)
	e.eq(e.stat("g").Mode&0o7777, uint32(0o2755), "setgid for a supplementary group")
	a.must("chmod", "g", 0o4755)
	e.eq(e.stat("g").Mode&0o7777, uint32(0o4755), "setuid by the owner")
}

func usersTimes(e *env) {
	a, b := e.agentAs(who{uid: alice, gid: alice}), e.agentAs(who{uid: bob, gid: bob})
	e.owned("f", alice, alice, 0o666)
	a.must("utimens", "f", 1, 2, 3, 4)
	e.eq(mtime(e.stat("f")), int64(3_000_000_004), "mtime")
	b.must("utimens", "f") // now: write permission is enough
	b.fails(unix.EPERM, "utimens", "f", 1, 2, 3, 4)
	e.ok(unix.Chmod(e.p("f"), 0o644), "chmod")
	b.fails(unix.EACCES, "utimens", "f")
}

func usersLinks(e *env) {
	b := e.agentAs(who{uid: bob, gid: bob})
	e.owned("f", alice, alice, 0o600)
	e.mkdir("d")
	e.ok(unix.Chmod(e.p("d"), 0o755), "chmod")
	// fs.protected_hardlinks answers EPERM before the directory is asked.
	if r := b.call("link", "f", "d/l"); r.Errno != unix.EACCES && r.Errno != unix.EPERM {
		e.Errorf("link of another user's file into a read-only directory: got %v, want EACCES or EPERM", r.err())
	}
	b.fails(unix.EACCES, "symlink", "f", "d/l")
	b.must("symlink", "f", "l")
	b.mayOpen("l", unix.O_RDONLY, false)
	e.lists("", "d", "f", "l")
}

func usersNew(e *env) {
	a := e.agentAs(who{uid: alice, gid: team})
	a.must("umask", 0)
	a.must("close", a.must("open", "f", unix.O_CREAT|unix.O_WRONLY, 0o640).N[0])
	a.must("mkdir", "d", 0o750)
	a.must("symlink", "x", "l")
	a.must("mknod", "p", unix.S_IFIFO|0o600, 0)
	for _, n := range []string{"f", "d", "l", "p"} {
		st := e.stat(n)
		e.eq([]uint32{st.Uid, st.Gid}, []uint32{alice, team}, "owner and group of %s", n)
	}
	e.eq(e.stat("f").Mode, uint32(unix.S_IFREG|0o640), "mode")
	a.fails(unix.EPERM, "mknod", "dev", unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3)))
	// creat(2) with O_TRUNC truncates nothing here: the mode asked for is the mode given.
	for i, mode := range []uint32{0o2777, 0o4755, 0o6711} {
		name := "s" + itoa(int64(i))
		a.must("close", a.must("open", name, unix.O_CREAT|unix.O_WRONLY|unix.O_TRUNC, int(mode)).N[0])
		e.eq(e.stat(name).Mode&0o7777, mode, "mode of a file made with setuid or setgid")
	}
	// Not in the group of a setgid directory: the directory's group, and no setgid on files.
	e.mkdir("g")
	e.ok(unix.Chown(e.p("g"), 0, bob), "chown")
	e.ok(unix.Chmod(e.p("g"), 0o2777), "chmod")
	a.must("close", a.must("open", "g/f", unix.O_CREAT|unix.O_WRONLY, 0o2755).N[0])
	e.eq(e.stat("g/f").Gid, uint32(bob), "group in a setgid directory")
	e.eq(e.stat("g/f").Mode&0o7777, uint32(0o755), "setgid is not given to a stranger")
}

func usersXattr(e *env) {
	b := e.agentAs(who{uid: bob, gid: bob})
	e.owned("f", alice, alice, 0o644)
	e.xattrOrSkip(unix.Setxattr(e.p("f"), "user.k", []byte("v"), 0))
	b.fails(unix.EACCES, "setxattr", "f", "user.k", "x")
	b.fails(unix.EPERM, "setxattr", "f", "trusted.k", "x")
	e.ok(unix.Setxattr(e.p("f"), "trusted.k", []byte("t"), 0), "trusted attribute by root")
	v, err := e.getx("f", "trusted.k")
	e.ok(err, "getxattr")
	e.eq(v, "t", "value")
}

func usersRoot(e *env) {
	e.owned("f", alice, alice, 0)
	e.is("f", "content")
	e.mkdir("d")
	e.write("d/x", "x")
	e.ok(unix.Chown(e.p("d"), alice, alice), "chown")
	e.ok(unix.Chmod(e.p("d"), 0), "chmod")
	e.lists("d", "x")
	e.write("d/y", "y")
	e.unlink("d/x")
	e.lists("d", "y")
}
