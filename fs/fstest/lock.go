package fstest

import (
	"golang.org/x/sys/unix"
)

func lockTests() []test {
	return []test{
		{"fcntl locks exclude (s40)", lockExclude},
		{"fcntl ranges split and merge", lockRanges},
		{"GETLK names the holder (s40)", lockGet},
		{"GETLK names the first lock, neighbours are one", lockGetFirst},
		{"fcntl locks end with any close", lockAnyClose},
		{"SETLKW is granted in the end", lockWait},
		{"EINTR ends a wait (s40)", lockInterrupt},
		{"a killed holder releases (s40b)", lockKilled},
		{"a killed waiter leaves", lockKilledWaiter},
		{"open file description locks", lockOFD},
		{"OFD and process locks conflict", lockMixed},
		{"flock", lockFlock},
		{"flock is shared by duplicates and converts", lockFlockDup},
		{"flock and fcntl are apart", lockApart},
		{"waiters do not block the file system (s40b)", lockBeside},
		{"read and write access", lockAccess},
		{"many processes in turn (s40)", lockTurns},
		{"locks of a file that is renamed and unlinked", lockRenamed},
		{"deadlock is not invented (s40)", lockNoFalseDeadlock},
	}
}

const (
	rd, wr, un = unix.F_RDLCK, unix.F_WRLCK, unix.F_UNLCK
	// From the kernel's fcntl.h.
	ofdGet, ofdSet, ofdSetW = 36, 37, 38
)

// pair is two processes that have one file open.
func (e *env) pair() (a, b *agent, fa, fb int64) {
	e.Helper()
	e.write("l", "0123456789")
	a, b = e.agent(), e.agent()
	return a, b, a.must("open", "l", unix.O_RDWR, 0).N[0], b.must("open", "l", unix.O_RDWR, 0).N[0]
}

func (a *agent) lock(fd int64, typ int, start, n int) {
	a.e.Helper()
	a.must("lock", fd, unix.F_SETLK, typ, start, n)
}

// denied requires that a lock is not to be had now.
func (a *agent) denied(fd int64, typ int, start, n int) {
	a.e.Helper()
	r := a.call("lock", fd, unix.F_SETLK, typ, start, n)
	if r.Errno != unix.EAGAIN && r.Errno != unix.EACCES {
		a.e.Errorf("F_SETLK type %d at %d, %d bytes: got %v, want EAGAIN", typ, start, n, r.err())
	}
}

func lockExclude(e *env) {
	a, b, fa, fb := e.pair()
	a.lock(fa, wr, 0, 0)
	b.denied(fb, wr, 0, 0)
	b.denied(fb, rd, 5, 1)
	a.lock(fa, un, 0, 0)
	b.lock(fb, rd, 0, 0)
	a.lock(fa, rd, 0, 0)
	a.denied(fa, wr, 0, 0)
	b.lock(fb, un, 0, 0)
	a.lock(fa, wr, 0, 0)
}

func lockRanges(e *env) {
	a, b, fa, fb := e.pair()
	a.lock(fa, wr, 0, 100)
	a.lock(fa, un, 40, 20)
	b.lock(fb, wr, 40, 20)
	b.denied(fb, wr, 39, 1)
	b.denied(fb, wr, 60, 1)
	b.lock(fb, wr, 100, 0)
	a.denied(fa, wr, 1000, 1)
	a.lock(fa, rd, 10, 10)
	b.lock(fb, rd, 12, 2)
	b.denied(fb, rd, 9, 2)
	b.lock(fb, un, 0, 0)
	a.lock(fa, wr, 0, 0)
	b.denied(fb, rd, 1<<40, 1)
}

func lockGet(e *env) {
	a, b, fa, fb := e.pair()
	a.lock(fa, wr, 10, 20)
	r := b.must("lock", fb, unix.F_GETLK, rd, 0, 0)
	e.eq(r.N, []int64{wr, 10, 20, int64(a.pid)}, "type, start, length, pid of the lock in the way")
	r = b.must("lock", fb, unix.F_GETLK, wr, 0, 10)
	e.eq(r.N[0], int64(un), "type where nothing is in the way")
	r = a.must("lock", fa, unix.F_GETLK, wr, 0, 0)
	e.eq(r.N[0], int64(un), "type where only one's own lock is")
	a.lock(fa, rd, 10, 20)
	r = b.must("lock", fb, unix.F_GETLK, rd, 0, 0)
	e.eq(r.N[0], int64(un), "a read lock is not in the way of a read lock")
}

func lockGetFirst(e *env) {
	a, b, fa, fb := e.pair()
	first := func(want ...int64) {
		e.Helper()
		e.eq(b.must("lock", fb, unix.F_GETLK, wr, 0, 0).N[:3], want, "type, start, length of the first lock")
	}
	a.lock(fa, wr, 10, 5)
	a.lock(fa, rd, 1, 5)
	first(rd, 1, 5)
	a.lock(fa, wr, 5, 5) // takes a byte of the one, and joins the other
	first(rd, 1, 4)
	a.lock(fa, un, 0, 5)
	first(wr, 5, 10)
	a.lock(fa, wr, 20, 0)
	a.lock(fa, wr, 15, 5)
	first(wr, 5, 0)
	a.lock(fa, un, 7, 2)
	first(wr, 5, 2)
	a.lock(fa, un, 5, 2)
	first(wr, 9, 0)
	a.lock(fa, rd, 0, 9)
	first(rd, 0, 9)
}

func lockAnyClose(e *env) {
	a, b, fa, fb := e.pair()
	other := a.must("open", "l", unix.O_RDONLY, 0).N[0]
	a.lock(fa, wr, 0, 0)
	b.denied(fb, wr, 0, 0)
	a.must("close", other)
	b.lock(fb, wr, 0, 0)
}

func lockWait(e *env) {
	a, b, fa, fb := e.pair()
	a.lock(fa, wr, 0, 0)
	got := b.start("lock", fb, unix.F_SETLKW, wr, 0, 0)
	b.blocked(unix.SYS_FCNTL)
	a.lock(fa, un, 0, 0)
	e.ok((<-got).err(), "F_SETLKW")
	a.denied(fa, wr, 0, 0)
}

func lockInterrupt(e *env) {
	a, b, fa, fb := e.pair()
	a.lock(fa, wr, 0, 0)
	b.must("norestart", int(unix.SIGUSR1))
	got := b.start("lock", fb, unix.F_SETLKW, wr, 0, 0)
	b.blocked(unix.SYS_FCNTL)
	b.signal(unix.SIGUSR1)
	e.fails((<-got).err(), unix.EINTR, "F_SETLKW that was interrupted")
	a.lock(fa, un, 0, 0)
	a.lock(fa, wr, 0, 0) // would fail if the interrupted request had been granted
	a.must("flock", fa, unix.LOCK_EX)
	got = b.start("flock", fb, unix.LOCK_EX)
	b.blocked(unix.SYS_FLOCK)
	b.signal(unix.SIGUSR1)
	e.fails((<-got).err(), unix.EINTR, "flock that was interrupted")
	a.must("flock", fa, unix.LOCK_UN)
	a.must("flock", fa, unix.LOCK_EX|unix.LOCK_NB)
}

func lockKilled(e *env) {
	a, b, fa, fb := e.pair()
	a.lock(fa, wr, 0, 0)
	a.must("flock", fa, unix.LOCK_EX)
	b.denied(fb, wr, 0, 0)
	b.fails(unix.EAGAIN, "flock", fb, unix.LOCK_EX|unix.LOCK_NB)
	got := b.start("lock", fb, unix.F_SETLKW, wr, 0, 0)
	b.blocked(unix.SYS_FCNTL)
	a.kill()
	e.ok((<-got).err(), "F_SETLKW after the holder was killed")
	b.must("flock", fb, unix.LOCK_EX) // RELEASE comes later than the exit: it may have to wait a little
}

func lockKilledWaiter(e *env) {
	a, b, fa, fb := e.pair()
	a.lock(fa, wr, 0, 0)
	b.start("lock", fb, unix.F_SETLKW, wr, 0, 0)
	b.blocked(unix.SYS_FCNTL)
	b.kill()
	a.lock(fa, un, 0, 0)
	c := e.agent()
	fc := c.must("open", "l", unix.O_RDWR, 0).N[0]
	c.lock(fc, wr, 0, 0) // a dead waiter does not get the lock
}

func (e *env) ofd(fd, cmd, typ int, start, n int64) (unix.Flock_t, error) {
	lk := unix.Flock_t{Type: int16(typ), Start: start, Len: n}
	err := unix.FcntlFlock(uintptr(fd), cmd, &lk)
	return lk, err
}

func lockOFD(e *env) {
	e.write("l", "0123456789")
	a, b := e.open("l", unix.O_RDWR, 0), e.open("l", unix.O_RDWR, 0)
	_, err := e.ofd(a, ofdSet, wr, 0, 5)
	e.ok(err, "F_OFD_SETLK")
	_, err = e.ofd(b, ofdSet, wr, 4, 1)
	e.fails(err, unix.EAGAIN, "F_OFD_SETLK by another description of the same process")
	lk, err := e.ofd(b, ofdGet, wr, 0, 0)
	e.ok(err, "F_OFD_GETLK")
	e.eq([]int64{int64(lk.Type), lk.Start, lk.Len}, []int64{wr, 0, 5}, "the lock in the way")
	_, err = e.ofd(b, ofdSet, wr, 5, 5)
	e.ok(err, "F_OFD_SETLK beside")
	dup, err := unix.Dup(a)
	e.ok(err, "dup")
	e.close(a)
	_, err = e.ofd(b, ofdSet, wr, 0, 1)
	e.fails(err, unix.EAGAIN, "F_OFD_SETLK while a duplicate is open")
	e.ok(unix.Close(dup), "close")
	e.eventually("the lock ends with the last close", func() bool {
		_, err := e.ofd(b, ofdSet, wr, 0, 1)
		return err == nil
	})
	c := e.agent()
	fc := c.must("open", "l", unix.O_RDWR, 0).N[0]
	got := c.start("lock", fc, ofdSetW, wr, 0, 0)
	c.blocked(unix.SYS_FCNTL)
	_, err = e.ofd(b, ofdSet, un, 0, 0)
	e.ok(err, "unlock")
	e.ok((<-got).err(), "F_OFD_SETLKW")
}

func lockMixed(e *env) {
	a, b, fa, fb := e.pair()
	a.must("lock", fa, ofdSet, wr, 0, 0)
	b.denied(fb, wr, 0, 0)
	a.must("lock", fa, ofdSet, un, 0, 0)
	b.lock(fb, wr, 0, 0)
	a.fails(unix.EAGAIN, "lock", fa, ofdSet, wr, 0, 0)
}

func lockFlock(e *env) {
	a, b, fa, fb := e.pair()
	a.must("flock", fa, unix.LOCK_EX)
	b.fails(unix.EAGAIN, "flock", fb, unix.LOCK_EX|unix.LOCK_NB)
	b.fails(unix.EAGAIN, "flock", fb, unix.LOCK_SH|unix.LOCK_NB)
	got := b.start("flock", fb, unix.LOCK_SH)
	b.blocked(unix.SYS_FLOCK)
	a.must("flock", fa, unix.LOCK_UN)
	e.ok((<-got).err(), "flock")
	a.must("flock", fa, unix.LOCK_SH|unix.LOCK_NB)
	a.fails(unix.EAGAIN, "flock", fa, unix.LOCK_EX|unix.LOCK_NB)
	b.must("close", fb)
	e.eventually("close releases the lock", func() bool {
		return a.call("flock", fa, unix.LOCK_EX|unix.LOCK_NB).Errno == 0
	})
}

func lockFlockDup(e *env) {
	a, b, fa, fb := e.pair()
	a.must("flock", fa, unix.LOCK_EX)
	dup := a.must("dup", fa).N[0]
	a.must("flock", dup, unix.LOCK_EX|unix.LOCK_NB)
	a.must("close", fa)
	b.fails(unix.EAGAIN, "flock", fb, unix.LOCK_SH|unix.LOCK_NB)
	a.must("flock", dup, unix.LOCK_SH)
	b.must("flock", fb, unix.LOCK_SH|unix.LOCK_NB)
	second := a.must("open", "l", unix.O_RDWR, 0).N[0]
	a.fails(unix.EAGAIN, "flock", second, unix.LOCK_EX|unix.LOCK_NB)
}

func lockApart(e *env) {
	a, b, fa, fb := e.pair()
	a.must("flock", fa, unix.LOCK_EX)
	b.lock(fb, wr, 0, 0)
	a.denied(fa, wr, 0, 0)
	b.fails(unix.EAGAIN, "flock", fb, unix.LOCK_EX|unix.LOCK_NB)
}

// lockBeside: eight processes wait for a lock; everything else goes on.
func lockBeside(e *env) {
	e.write("l", "x")
	fd := e.open("l", unix.O_RDWR, 0)
	e.ok(unix.Flock(fd, unix.LOCK_EX), "flock")
	_, err := e.ofd(fd, ofdSet, wr, 0, 0)
	e.ok(err, "F_OFD_SETLK")
	var waits []<-chan reply
	for i := range 8 {
		a := e.agent()
		f := a.must("open", "l", unix.O_RDWR, 0).N[0]
		if i%2 == 0 {
			waits = append(waits, a.start("flock", f, unix.LOCK_SH))
			a.blocked(unix.SYS_FLOCK)
		} else {
			waits = append(waits, a.start("lock", f, unix.F_SETLKW, rd, 0, 0))
			a.blocked(unix.SYS_FCNTL)
		}
	}
	for i := range 50 {
		n := "f" + itoa(int64(i))
		e.write(n, n)
		e.is(n, n)
		e.rename(n, n+"x")
	}
	e.ok(unix.Flock(fd, unix.LOCK_UN), "unlock")
	_, err = e.ofd(fd, ofdSet, un, 0, 0)
	e.ok(err, "unlock")
	for _, w := range waits {
		e.ok((<-w).err(), "a waiter")
	}
}

func lockAccess(e *env) {
	e.write("l", "x")
	a := e.agent()
	r := a.must("open", "l", unix.O_RDONLY, 0).N[0]
	w := a.must("open", "l", unix.O_WRONLY, 0).N[0]
	a.fails(unix.EBADF, "lock", r, unix.F_SETLK, wr, 0, 0)
	a.fails(unix.EBADF, "lock", w, unix.F_SETLK, rd, 0, 0)
	a.lock(r, rd, 0, 0)
	a.lock(w, wr, 0, 0)
	a.must("flock", r, unix.LOCK_EX)
	a.fails(unix.EINVAL, "lock", w, unix.F_SETLK, wr, -5, 1)
}

func lockTurns(e *env) {
	e.write("n", itoa(0))
	const procs, rounds = 6, 20
	done := make(chan error, procs)
	for range procs {
		a := e.agent()
		fd := a.must("open", "n", unix.O_RDWR, 0).N[0]
		go func() {
			for range rounds {
				if r := a.call("lock", fd, unix.F_SETLKW, wr, 0, 0); r.Errno != 0 {
					done <- r.err()
					return
				}
				r := a.call("pread", fd, 8, 0)
				if r.Errno != 0 {
					done <- r.err()
					return
				}
				n := int64(0)
				for _, c := range r.S[0] {
					n = n*10 + int64(c-'0')
				}
				a.call("pwrite", fd, itoa(n+1), 0)
				if r := a.call("lock", fd, unix.F_SETLK, un, 0, 0); r.Errno != 0 {
					done <- r.err()
					return
				}
			}
			done <- nil
		}()
	}
	for range procs {
		e.ok(<-done, "a process in turn")
	}
	e.is("n", itoa(procs*rounds))
}

func lockRenamed(e *env) {
	a, b, fa, fb := e.pair()
	a.lock(fa, wr, 0, 0)
	e.rename("l", "m")
	b.denied(fb, wr, 0, 0)
	e.write("l", "new")
	c := e.agent()
	c.lock(c.must("open", "l", unix.O_RDWR, 0).N[0], wr, 0, 0)
	e.unlink("m")
	b.denied(fb, wr, 0, 0)
	a.lock(fa, un, 0, 0)
	b.lock(fb, wr, 0, 0)
}

// lockNoFalseDeadlock: two processes wait for each other's neighbour, not for each other.
func lockNoFalseDeadlock(e *env) {
	a, b, fa, fb := e.pair()
	c := e.agent()
	fc := c.must("open", "l", unix.O_RDWR, 0).N[0]
	a.lock(fa, wr, 0, 1)
	b.lock(fb, wr, 1, 1)
	gotB := b.start("lock", fb, unix.F_SETLKW, wr, 0, 1)
	b.blocked(unix.SYS_FCNTL)
	gotC := c.start("lock", fc, unix.F_SETLKW, wr, 1, 1)
	c.blocked(unix.SYS_FCNTL)
	a.lock(fa, un, 0, 1)
	e.ok((<-gotB).err(), "first waiter")
	b.lock(fb, un, 1, 1)
	e.ok((<-gotC).err(), "second waiter")
}
