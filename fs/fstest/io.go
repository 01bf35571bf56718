package fstest

import (
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

func ioTests() []test {
	return []test{
		{"read and write at any offset", ioOffsets},
		{"sizes around limits", ioSizes},
		{"a model of random writes", ioModel},
		{"append", ioAppend},
		{"append with pwrite and seek", ioAppendPwrite},
		{"two handles see each other", ioTwoHandles},
		{"writev and readv", ioVector},
		{"O_DIRECT", ioDirect},
		{"pages beside asynchronous direct writes", ioDirectPages},
		{"truncate up and down", ioTruncate},
		{"truncate of huge sizes fails cleanly (s35)", ioTooBig},
		{"negative offsets", ioNegative},
		{"large file", ioLarge},
		{"edit in the middle of a large file", ioEditLarge},
		{"write of nothing", ioEmpty},
		{"dirty data survives rename and link", ioDirtyRename},
		{"FIONREAD and unknown ioctls (ENOTTY)", ioIoctl},
		{"fadvise and readahead", ioAdvise},
		{"O_SYNC and O_DSYNC", ioSync},
	}
}

func ioOffsets(e *env) {
	fd := e.open("f", unix.O_CREAT|unix.O_RDWR, 0o644)
	e.fdwrite(fd, "hello ")
	e.fdwrite(fd, "world")
	e.pwrite(fd, "J", 0)
	e.eq(e.pread(fd, 100, 0), "Jello world", "content")
	e.eq(e.pread(fd, 5, 6), "world", "read at 6")
	e.eq(e.pread(fd, 5, 11), "", "read at the end")
	e.eq(e.pread(fd, 5, 1000), "", "read past the end")
	e.pwrite(fd, "!", 20)
	e.eq(e.pread(fd, 100, 0), "Jello world"+zeros(9)+"!", "content with a gap")
	off, err := unix.Seek(fd, 0, io.SeekCurrent)
	e.ok(err, "seek")
	e.eq(off, int64(11), "offset after pwrite")
	off, err = unix.Seek(fd, -1, io.SeekEnd)
	e.ok(err, "seek")
	e.eq(off, int64(20), "offset by SEEK_END")
	e.close(fd)
	e.is("f", "Jello world"+zeros(9)+"!")
}

func ioSizes(e *env) {
	for _, n := range []int{0, 1, 255, 256, 257, 4095, 4096, 4097, 16384, 65535, 65536, 65537, 131072, 131073, 262144, 1 << 20, 1<<20 + 1} {
		want := pattern(n, byte(n))
		e.write("f", want)
		e.eq(e.stat("f").Size, int64(n), "size")
		e.is("f", want)
		fd := e.open("f", unix.O_WRONLY|unix.O_APPEND, 0)
		e.fdwrite(fd, "+")
		e.close(fd)
		e.is("f", want+"+")
	}
}

// ioModel compares random writes, truncations and reopenings with a slice of bytes.
func ioModel(e *env) {
	x := uint32(1)
	rnd := func(n int) int {
		x = x*1664525 + 1013904223
		return int(x>>8) % n
	}
	var model []byte
	fd := e.open("f", unix.O_CREAT|unix.O_RDWR, 0o644)
	for step := range 600 {
		switch rnd(10) {
		case 0:
			n := rnd(200_000)
			e.ok(unix.Ftruncate(fd, int64(n)), "ftruncate")
			if n <= len(model) {
				model = model[:n:n]
			} else {
				model = append(model, make([]byte, n-len(model))...)
			}
		case 1:
			e.close(fd)
			fd = e.open("f", unix.O_RDWR, 0)
		case 2, 3:
			off, n := rnd(210_000), rnd(30_000)+1
			want := ""
			if off < len(model) {
				want = string(model[off:min(off+n, len(model))])
			}
			if got := e.pread(fd, n, int64(off)); got != want {
				e.Fatalf("step %d: read of %d bytes at %d differs from the model (%d bytes long)", step, n, off, len(model))
			}
		default:
			off, n := rnd(150_000), rnd(20_000)+1
			if rnd(3) == 0 {
				n = rnd(50) + 1
			}
			data := pattern(n, byte(step))
			e.pwrite(fd, data, int64(off))
			if off+n > len(model) {
				model = append(model, make([]byte, off+n-len(model))...)
			}
			copy(model[off:], data)
		}
	}
	e.eq(e.fstat(fd).Size, int64(len(model)), "size at the end")
	e.close(fd)
	e.is("f", string(model))
}

func ioAppend(e *env) {
	e.write("f", "start\n")
	a := e.open("f", unix.O_WRONLY|unix.O_APPEND, 0)
	b := e.open("f", unix.O_WRONLY|unix.O_APPEND, 0)
	e.fdwrite(a, "a1\n")
	e.fdwrite(b, "b1\n")
	e.fdwrite(a, "a2\n")
	e.is("f", "start\na1\nb1\na2\n")
	e.ok(unix.Ftruncate(b, 0), "ftruncate")
	e.fdwrite(a, "anew\n")
	e.is("f", "anew\n")
}

// ioAppendPwrite: on Linux pwrite on an O_APPEND handle appends, whatever the offset says (BUGS in pwrite(2)).
func ioAppendPwrite(e *env) {
	e.write("f", "0123")
	fd := e.open("f", unix.O_RDWR|unix.O_APPEND, 0)
	e.pwrite(fd, "X", 0)
	e.is("f", "0123X")
	_, err := unix.Seek(fd, 0, io.SeekStart)
	e.ok(err, "seek")
	e.fdwrite(fd, "Y")
	e.is("f", "0123XY")
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	e.ok(err, "F_GETFL")
	_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags&^unix.O_APPEND)
	e.ok(err, "F_SETFL without O_APPEND")
	e.pwrite(fd, "Z", 0)
	e.is("f", "Z123XY")
	_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags|unix.O_APPEND)
	e.ok(err, "F_SETFL with O_APPEND")
	e.pwrite(fd, "!", 0)
	e.is("f", "Z123XY!")
}

func ioTwoHandles(e *env) {
	w := e.open("f", unix.O_CREAT|unix.O_RDWR, 0o644)
	r := e.open("f", unix.O_RDONLY, 0)
	for i := range 50 {
		n := 3000 * i
		e.pwrite(w, pattern(3000, byte(i)), int64(n))
		e.eq(e.pread(r, 3000, int64(n)), pattern(3000, byte(i)), "what the other handle reads of write %d", i)
		e.eq(e.stat("f").Size, int64(n+3000), "size by name")
		e.eq(e.fstat(r).Size, int64(n+3000), "size by the other handle")
	}
	e.ok(unix.Ftruncate(w, 10), "ftruncate")
	e.eq(e.fstat(r).Size, int64(10), "size by the other handle after ftruncate")
	e.eq(e.pread(r, 100, 5), pattern(3000, 0)[5:10], "read by the other handle after ftruncate")
}

func ioVector(e *env) {
	fd := e.open("f", unix.O_CREAT|unix.O_RDWR, 0o644)
	n, err := unix.Writev(fd, [][]byte{[]byte("one"), {}, []byte("two"), []byte(pattern(100_000, 3))})
	e.ok(err, "writev")
	e.eq(n, 100_006, "bytes written by writev")
	a, b := make([]byte, 4), make([]byte, 100_000)
	n, err = unix.Preadv(fd, [][]byte{a, b}, 2)
	e.ok(err, "preadv")
	e.eq(n, 100_004, "bytes read by preadv")
	e.eq(string(a)+string(b), "etwo"+pattern(100_000, 3), "bytes of preadv")
}

func ioDirect(e *env) {
	e.write("f", pattern(3*4096, 7))
	fd, err := unix.Open(e.p("f"), unix.O_RDWR|unix.O_DIRECT|unix.O_CLOEXEC, 0)
	if err == unix.EINVAL {
		e.Skipf("O_DIRECT is refused here, as open(2) allows")
	}
	e.ok(err, "open with O_DIRECT")
	e.own(fd)
	buf, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	e.ok(err, "aligned buffer")
	defer func() { _ = unix.Munmap(buf) }()
	n, err := unix.Pread(fd, buf, 4096)
	e.ok(err, "direct read")
	e.eq(string(buf[:n]), pattern(3*4096, 7)[4096:8192], "direct read")
	copy(buf, strings.Repeat("D", 4096))
	n, err = unix.Pwrite(fd, buf, 0)
	e.ok(err, "direct write")
	e.eq(n, 4096, "direct write")
	e.is("f", strings.Repeat("D", 4096)+pattern(3*4096, 7)[4096:])
}

func ioTruncate(e *env) {
	data := pattern(200_000, 9)
	e.write("f", data)
	e.ok(unix.Truncate(e.p("f"), 150_000), "truncate down")
	e.is("f", data[:150_000])
	e.ok(unix.Truncate(e.p("f"), 180_000), "truncate up")
	e.is("f", data[:150_000]+zeros(30_000))
	e.ok(unix.Truncate(e.p("f"), 10), "truncate far down")
	e.ok(unix.Truncate(e.p("f"), 5000), "truncate up")
	e.is("f", data[:10]+zeros(4990))
	fd := e.open("f", unix.O_RDWR, 0)
	e.pwrite(fd, "tail", 4996)
	e.ok(unix.Ftruncate(fd, 4998), "ftruncate of dirty data")
	e.ok(unix.Ftruncate(fd, 5000), "ftruncate up again")
	e.eq(e.pread(fd, 10, 4994), zeros(2)+"ta"+zeros(2), "no old bytes after shrinking and growing")
	e.fails(unix.Truncate(e.p("none"), 0), unix.ENOENT, "truncate of nothing")
	e.fails(unix.Truncate(e.p("f"), -1), unix.EINVAL, "truncate to -1")
}

func ioTooBig(e *env) {
	data := pattern(100_000, 4)
	e.write("f", data)
	fd := e.open("f", unix.O_RDWR, 0)
	if err := unix.Ftruncate(fd, 1<<63-1); err == nil {
		e.ok(unix.Ftruncate(fd, int64(len(data))), "shrink again")
	} else if err != unix.EFBIG && err != unix.EINVAL {
		e.Errorf("ftruncate to 2^63-1: got %v, want EFBIG", err)
	}
	if err := unix.Fallocate(fd, 0, 0, 1<<62); err == nil {
		e.Errorf("fallocate of 4 EiB worked")
	}
	e.close(fd)
	e.is("f", data)
}

func ioNegative(e *env) {
	fd := e.open("f", unix.O_CREAT|unix.O_RDWR, 0o644)
	_, err := unix.Pread(fd, make([]byte, 1), -1)
	e.fails(err, unix.EINVAL, "pread at -1")
	_, err = unix.Pwrite(fd, []byte("x"), -1)
	e.fails(err, unix.EINVAL, "pwrite at -1")
	_, err = unix.Seek(fd, -1, io.SeekStart)
	e.fails(err, unix.EINVAL, "seek to -1")
}

func ioLarge(e *env) {
	const n = 48 << 20
	block := pattern(1<<20, 5)
	fd := e.open("f", unix.O_CREAT|unix.O_RDWR, 0o644)
	for off := int64(0); off < n; off += 1 << 20 {
		e.pwrite(fd, block[:4]+itoa(off)+block[12:], off)
	}
	e.close(fd)
	fd = e.open("f", unix.O_RDONLY, 0)
	for off := int64(0); off < n; off += 1 << 20 {
		if e.pread(fd, 1<<20, off) != block[:4]+itoa(off)+block[12:] {
			e.Fatalf("the MiB at %d differs", off)
		}
	}
}

func ioEditLarge(e *env) {
	data := []byte(pattern(8<<20, 6))
	e.write("f", string(data))
	for i, off := range []int{0, 1, 4095, 65_535, 1 << 20, 5_000_001, 8<<20 - 3} {
		fd := e.open("f", unix.O_RDWR, 0)
		edit := strings.Repeat("E", i+1)
		e.pwrite(fd, edit, int64(off))
		e.close(fd)
		if off+len(edit) > len(data) {
			data = append(data, make([]byte, off+len(edit)-len(data))...)
		}
		copy(data[off:], edit)
		e.is("f", string(data))
	}
}

func ioEmpty(e *env) {
	e.write("f", "abc")
	before := e.stat("f")
	fd := e.open("f", unix.O_RDWR, 0)
	e.fdwrite(fd, "")
	e.pwrite(fd, "", 100)
	e.eq(e.fstat(fd).Size, int64(3), "size after writing nothing")
	e.eq(mtime(e.fstat(fd)), mtime(before), "mtime after writing nothing")
}

func ioDirtyRename(e *env) {
	fd := e.open("f", unix.O_CREAT|unix.O_RDWR, 0o644)
	e.fdwrite(fd, "dirty")
	e.rename("f", "g")
	e.is("g", "dirty")
	e.link("g", "h")
	e.fdwrite(fd, " more")
	e.is("h", "dirty more")
	e.mkdir("d")
	e.rename("g", "d/g")
	e.fdwrite(fd, " again")
	e.close(fd)
	e.is("d/g", "dirty more again")
	e.is("h", "dirty more again")
}

func ioIoctl(e *env) {
	e.write("f", "abc")
	fd := e.open("f", unix.O_RDONLY, 0)
	n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	e.ok(err, "FIONREAD")
	e.eq(n, 3, "FIONREAD")
	_, err = unix.IoctlGetInt(fd, unix.TIOCGWINSZ)
	e.fails(err, unix.ENOTTY, "TIOCGWINSZ")
}

func ioAdvise(e *env) {
	e.write("f", pattern(100_000, 2))
	fd := e.open("f", unix.O_RDONLY, 0)
	e.ok(unix.Fadvise(fd, 0, 0, unix.FADV_SEQUENTIAL), "fadvise SEQUENTIAL")
	e.ok(unix.Fadvise(fd, 0, 0, unix.FADV_WILLNEED), "fadvise WILLNEED")
	e.ok(unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED), "fadvise DONTNEED")
	e.eq(e.pread(fd, 100_000, 0), pattern(100_000, 2), "read after DONTNEED")
}

func ioSync(e *env) {
	for _, flag := range []int{unix.O_SYNC, unix.O_DSYNC} {
		fd := e.open("f", unix.O_CREAT|unix.O_WRONLY|unix.O_TRUNC|flag, 0o644)
		e.fdwrite(fd, "synced")
		e.close(fd)
		e.is("f", "synced")
	}
	f, err := os.OpenFile(e.p("f"), os.O_RDWR|os.O_SYNC, 0)
	e.ok(err, "open")
	defer f.Close()
	_, err = f.WriteString("S")
	e.ok(err, "write")
	e.is("f", "Synced")
}
