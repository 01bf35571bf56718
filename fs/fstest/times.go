package fstest

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

func timesTests() []test {
	return []test{
		{"nanoseconds", timesNano},
		{"UTIME_NOW and UTIME_OMIT", timesNowOmit},
		{"before 1970 and far away", timesRange},
		{"set after write, before close (s31)", timesBeforeClose},
		{"set, then write", timesThenWrite},
		{"truncate moves, read does not (s31)", timesTruncate},
		{"write moves mtime and ctime", timesWrite},
		{"new files carry the present", timesNew},
		{"chmod and chown move ctime alone", timesChmod},
		{"by descriptor and of directories", timesFd},
		{"mtime stays over close", timesClose},
	}
}

func (e *env) utimes(name string, atime, mtime unix.Timespec) {
	e.Helper()
	e.ok(unix.UtimesNanoAt(unix.AT_FDCWD, e.p(name), []unix.Timespec{atime, mtime}, unix.AT_SYMLINK_NOFOLLOW), "utimensat %q", name)
}

func timesNano(e *env) {
	e.write("f", "x")
	e.utimes("f", unix.Timespec{Sec: 1_000_000_001, Nsec: 123_456_789}, unix.Timespec{Sec: 1_500_000_000, Nsec: 999_999_999})
	st := e.stat("f")
	e.eq(mtime(st), int64(1_500_000_000_999_999_999), "mtime")
	e.eq(st.Atim.Nano(), int64(1_000_000_001_123_456_789), "atime")
	fd := e.open("f", unix.O_RDONLY, 0)
	e.eq(mtime(e.fstat(fd)), int64(1_500_000_000_999_999_999), "mtime by descriptor")
	e.eq(e.pread(fd, 1, 0), "x", "read")
	e.close(fd)
	e.eq(mtime(e.stat("f")), int64(1_500_000_000_999_999_999), "mtime after open, read and close")
}

func timesNowOmit(e *env) {
	e.write("f", "x")
	e.utimes("f", unix.Timespec{Sec: 11}, unix.Timespec{Sec: 22})
	e.utimes("f", unix.Timespec{Nsec: unix.UTIME_OMIT}, unix.Timespec{Sec: 33})
	st := e.stat("f")
	e.eq(st.Atim.Sec, int64(11), "atime with OMIT")
	e.eq(st.Mtim.Sec, int64(33), "mtime")
	e.utimes("f", unix.Timespec{Sec: 44}, unix.Timespec{Nsec: unix.UTIME_OMIT})
	st = e.stat("f")
	e.eq(st.Atim.Sec, int64(44), "atime")
	e.eq(st.Mtim.Sec, int64(33), "mtime with OMIT")
	start := time.Now().Unix()
	e.utimes("f", unix.Timespec{Nsec: unix.UTIME_OMIT}, unix.Timespec{Nsec: unix.UTIME_NOW})
	st = e.stat("f")
	e.eq(st.Atim.Sec, int64(44), "atime with OMIT")
	if st.Mtim.Sec < start-2 || st.Mtim.Sec > time.Now().Unix()+2 {
		e.Errorf("mtime with NOW is %d, the clock says %d", st.Mtim.Sec, start)
	}
	before := ctime(e.stat("f"))
	tick()
	e.utimes("f", unix.Timespec{Nsec: unix.UTIME_OMIT}, unix.Timespec{Nsec: unix.UTIME_OMIT})
	e.eq(ctime(e.stat("f")), before, "ctime with OMIT twice")
	e.ok(unix.UtimesNanoAt(unix.AT_FDCWD, e.p("f"), nil, 0), "utimensat with NULL")
	if st = e.stat("f"); st.Atim.Sec < start-2 {
		e.Errorf("atime with NULL is %d", st.Atim.Sec)
	}
}

func timesRange(e *env) {
	e.write("f", "x")
	for _, sec := range []int64{0, -1, -1_000_000_000, 1<<31 - 1, 1 << 31, 1 << 32, 1 << 33} {
		e.utimes("f", unix.Timespec{Sec: sec, Nsec: 5}, unix.Timespec{Sec: sec, Nsec: 7})
		st := e.stat("f")
		e.eq([]int64{st.Mtim.Sec, st.Mtim.Nsec}, []int64{sec, 7}, "mtime %d", sec)
		e.eq([]int64{st.Atim.Sec, st.Atim.Nsec}, []int64{sec, 5}, "atime %d", sec)
	}
}

// timesBeforeClose is what tar, cp -p and rsync do.
func timesBeforeClose(e *env) {
	fd := e.open("f", unix.O_CREAT|unix.O_WRONLY, 0o644)
	e.fdwrite(fd, "data")
	e.utimes("f", unix.Timespec{Sec: 1}, unix.Timespec{Sec: 1, Nsec: 234_567_891})
	e.eq(mtime(e.fstat(fd)), int64(1_234_567_891), "mtime before close")
	e.close(fd)
	e.eq(mtime(e.stat("f")), int64(1_234_567_891), "mtime after close")
	e.is("f", "data")
	e.eq(mtime(e.stat("f")), int64(1_234_567_891), "mtime after reading")
}

func timesThenWrite(e *env) {
	fd := e.open("f", unix.O_CREAT|unix.O_WRONLY, 0o644)
	e.utimes("f", unix.Timespec{Sec: 1}, unix.Timespec{Sec: 1})
	e.fdwrite(fd, "data")
	if st := e.fstat(fd); st.Mtim.Sec < 1000 {
		e.Errorf("mtime is %d after a write that followed utimens", st.Mtim.Sec)
	}
	e.close(fd)
	if st := e.stat("f"); st.Mtim.Sec < 1000 {
		e.Errorf("mtime is %d after close", st.Mtim.Sec)
	}
}

func timesTruncate(e *env) {
	e.write("f", "abc")
	old := unix.Timespec{Sec: 1}
	e.utimes("f", old, old)
	before := e.stat("f")
	tick()
	e.ok(unix.Truncate(e.p("f"), 1), "truncate")
	if st := e.stat("f"); st.Mtim.Sec < 2 || ctime(st) <= ctime(before) {
		e.Errorf("truncate moved mtime to %d, ctime by %d ns", st.Mtim.Sec, ctime(st)-ctime(before))
	}
	e.utimes("f", old, old)
	fd := e.open("f", unix.O_RDWR, 0)
	e.ok(unix.Ftruncate(fd, 100), "ftruncate up")
	if st := e.fstat(fd); st.Mtim.Sec < 2 {
		e.Errorf("ftruncate left mtime at %d", st.Mtim.Sec)
	}
	e.utimes("f", old, old)
	before = e.stat("f")
	tick()
	e.read("f")
	e.eq(mtime(e.stat("f")), mtime(before), "mtime after a read")
	e.eq(ctime(e.stat("f")), ctime(before), "ctime after a read")
}

func timesWrite(e *env) {
	e.write("f", "x")
	fd := e.open("f", unix.O_RDWR, 0)
	for i := range 3 {
		before := e.fstat(fd)
		tick()
		e.pwrite(fd, "y", int64(i))
		after := e.fstat(fd)
		if mtime(after) <= mtime(before) || ctime(after) <= ctime(before) {
			e.Errorf("write %d moved mtime by %d, ctime by %d ns", i, mtime(after)-mtime(before), ctime(after)-ctime(before))
		}
	}
}

func timesNew(e *env) {
	start := time.Now().Add(-2 * time.Second)
	e.write("f", "x")
	e.mkdir("d")
	e.ok(unix.Symlink("x", e.p("l")), "symlink")
	for _, n := range []string{"f", "d", "l"} {
		st := e.stat(n)
		for what, ts := range map[string]unix.Timespec{"atime": st.Atim, "mtime": st.Mtim, "ctime": st.Ctim} {
			got := time.Unix(ts.Unix())
			if got.Before(start) || got.After(time.Now().Add(2*time.Second)) {
				e.Errorf("%s of new %s is %v, now is %v", what, n, got, time.Now())
			}
		}
	}
}

func timesChmod(e *env) {
	e.write("f", "x")
	before := e.stat("f")
	tick()
	e.ok(unix.Chmod(e.p("f"), 0o600), "chmod")
	after := e.stat("f")
	e.eq(mtime(after), mtime(before), "mtime after chmod")
	if ctime(after) <= ctime(before) {
		e.Errorf("chmod did not move ctime")
	}
	tick()
	e.ok(unix.Chown(e.p("f"), os.Geteuid(), os.Getegid()), "chown to the same owner")
	if ctime(e.stat("f")) <= ctime(after) {
		e.Errorf("chown did not move ctime")
	}
	e.eq(mtime(e.stat("f")), mtime(before), "mtime after chown")
}

func timesFd(e *env) {
	e.mkdir("d")
	fd := e.open("d", unix.O_RDONLY, 0)
	e.ok(unix.Futimes(fd, []unix.Timeval{{Sec: 5, Usec: 6}, {Sec: 7, Usec: 8}}), "futimes of a directory")
	e.eq(mtime(e.stat("d")), int64(7_000_008_000), "mtime of a directory")
	e.write("f", "x")
	r := e.open("f", unix.O_RDONLY, 0)
	e.ok(unix.Futimes(r, []unix.Timeval{{Sec: 5}, {Sec: 9}}), "futimes by a read-only descriptor")
	e.eq(e.stat("f").Mtim.Sec, int64(9), "mtime")
}

func timesClose(e *env) {
	fd := e.open("f", unix.O_CREAT|unix.O_WRONLY, 0o644)
	e.fdwrite(fd, "data")
	written := e.fstat(fd)
	tick()
	e.close(fd)
	if d := mtime(e.stat("f")) - mtime(written); d < 0 {
		e.Errorf("close moved mtime back by %d ns", -d)
	}
	st := e.stat("f")
	tick()
	e.eq(mtime(e.stat("f")), mtime(st), "mtime while nothing happens")
}
