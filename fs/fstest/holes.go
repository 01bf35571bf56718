package fstest

import (
	"strings"

	"golang.org/x/sys/unix"
)

func holeTests() []test {
	return []test{
		{"sparse file (s37)", holesSparse},
		{"SEEK_DATA and SEEK_HOLE", holesSeek},
		{"SEEK_HOLE past the end", holesSeekEnd},
		{"SEEK_DATA after a write through a mapping", holesSeekMapped},
		{"fallocate grows", holesFallocate},
		{"fallocate KEEP_SIZE", holesKeepSize},
		{"punch hole", holesPunch},
		{"punch hole in dirty data and across the end", holesPunchDirty},
		{"zero range", holesZeroRange},
		{"collapse and insert range", holesCollapse},
		{"fallocate errors", holesErrors},
	}
}

func holesSparse(e *env) {
	fd := e.open("s", unix.O_CREAT|unix.O_RDWR, 0o644)
	e.ok(unix.Ftruncate(fd, 1<<36), "ftruncate to 64 GiB")
	e.pwrite(fd, "x", 1<<35)
	st := e.fstat(fd)
	e.eq(st.Size, int64(1<<36), "size")
	if st.Blocks*512 > 1<<26 {
		e.Errorf("a sparse file of one byte claims %d blocks of 512 bytes", st.Blocks)
	}
	e.eq(e.pread(fd, 3, 1<<35-1), "\x00x\x00", "bytes around the only one")
	e.eq(e.pread(fd, 10, 1<<36-5), zeros(5), "end of the file")
	e.close(fd)
	fd = e.open("s", unix.O_RDONLY, 0)
	e.eq(e.fstat(fd).Size, int64(1<<36), "size after close")
	e.eq(e.pread(fd, 3, 1<<35-1), "\x00x\x00", "bytes after close")
}

func holesSeek(e *env) {
	const mib = 1 << 20
	fd := e.open("f", unix.O_CREAT|unix.O_RDWR, 0o644)
	e.pwrite(fd, pattern(mib, 1), 4*mib)
	e.ok(unix.Ftruncate(fd, 9*mib), "ftruncate")
	for _, when := range []string{"dirty", "synced", "closed"} {
		switch when {
		case "synced":
			e.ok(unix.Fsync(fd), "fsync")
		case "closed":
			e.close(fd)
			fd = e.open("f", unix.O_RDONLY, 0)
		}
		data, err := unix.Seek(fd, 0, unix.SEEK_DATA)
		e.ok(err, "SEEK_DATA (%s)", when)
		hole, err := unix.Seek(fd, 4*mib, unix.SEEK_HOLE)
		e.ok(err, "SEEK_HOLE (%s)", when)
		if data > 4*mib || hole < 5*mib || hole > 9*mib {
			e.Errorf("%s: data from %d, hole from %d; the data are at %d to %d", when, data, hole, 4*mib, 5*mib)
		}
		if e.o.NoHoles {
			continue
		}
		if data < 4*mib-mib || hole > 6*mib {
			e.Errorf("%s: data from %d, hole from %d: the holes of 4 MiB are not seen", when, data, hole)
		}
		hole, err = unix.Seek(fd, 0, unix.SEEK_HOLE)
		e.ok(err, "SEEK_HOLE at 0 (%s)", when)
		e.eq(hole, int64(0), "first hole (%s)", when)
		if _, err = unix.Seek(fd, 8*mib, unix.SEEK_DATA); err != unix.ENXIO {
			e.Errorf("%s: SEEK_DATA in the last hole: got %v, want ENXIO", when, err)
		}
	}
}

func holesSeekEnd(e *env) {
	e.write("f", "0123456789")
	fd := e.open("f", unix.O_RDONLY, 0)
	off, err := unix.Seek(fd, 3, unix.SEEK_DATA)
	e.ok(err, "SEEK_DATA at 3")
	e.eq(off, int64(3), "SEEK_DATA at 3")
	off, err = unix.Seek(fd, 3, unix.SEEK_HOLE)
	e.ok(err, "SEEK_HOLE at 3")
	e.eq(off, int64(10), "the hole at the end")
	for _, whence := range []int{unix.SEEK_DATA, unix.SEEK_HOLE} {
		_, err = unix.Seek(fd, 10, whence)
		e.fails(err, unix.ENXIO, "seek at the end, whence %d", whence)
		_, err = unix.Seek(fd, 1000, whence)
		e.fails(err, unix.ENXIO, "seek past the end, whence %d", whence)
		_, err = unix.Seek(fd, -1, whence)
		if err != unix.ENXIO && err != unix.EINVAL {
			e.Errorf("seek to -1, whence %d: got %v", whence, err)
		}
	}
}

func holesSeekMapped(e *env) {
	const size = 4 << 20
	fd := e.open("f", unix.O_CREAT|unix.O_RDWR, 0o644)
	e.ok(unix.Ftruncate(fd, size), "ftruncate")
	m, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	e.ok(err, "mmap")
	m[2<<20] = 'x'
	e.ok(unix.Msync(m, unix.MS_SYNC), "msync")
	off, err := unix.Seek(fd, 0, unix.SEEK_DATA)
	e.ok(err, "SEEK_DATA")
	if off > 2<<20 {
		e.Errorf("SEEK_DATA skipped the byte that was stored through the mapping: %d", off)
	}
	e.ok(unix.Munmap(m), "munmap")
}

// allocate skips where the file system has no fallocate at all; ENOSYS is never right.
func (e *env) allocate(fd int, mode uint32, off, n int64) {
	e.Helper()
	err := unix.Fallocate(fd, mode, off, n)
	if err == unix.EOPNOTSUPP {
		e.Skipf("fallocate mode %#x is not supported here (EOPNOTSUPP)", mode)
	}
	e.ok(err, "fallocate mode %#x at %d, %d bytes", mode, off, n)
}

func holesFallocate(e *env) {
	fd := e.open("f", unix.O_CREAT|unix.O_RDWR, 0o644)
	e.fdwrite(fd, "abc")
	e.allocate(fd, 0, 0, 100_000)
	e.eq(e.fstat(fd).Size, int64(100_000), "size")
	e.eq(e.pread(fd, 6, 0), "abc"+zeros(3), "content")
	e.allocate(fd, 0, 10, 10)
	e.eq(e.fstat(fd).Size, int64(100_000), "size after an allocation inside")
	e.close(fd)
	e.is("f", "abc"+zeros(99_997))
}

func holesKeepSize(e *env) {
	e.write("f", "abc")
	fd := e.open("f", unix.O_RDWR, 0)
	e.allocate(fd, unix.FALLOC_FL_KEEP_SIZE, 0, 1<<20)
	e.eq(e.fstat(fd).Size, int64(3), "size")
	e.is("f", "abc")
}

const punch = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE

func holesPunch(e *env) {
	q := strings.Repeat("q", 65536)
	e.write("p", q)
	fd := e.open("p", unix.O_RDWR, 0)
	before := e.fstat(fd)
	tick()
	e.allocate(fd, punch, 4096, 8192)
	want := q[:4096] + zeros(8192) + q[:53248]
	e.eq(e.pread(fd, 65536, 0), want, "content by the handle")
	e.eq(e.fstat(fd).Size, int64(65536), "size")
	if mtime(e.fstat(fd)) <= mtime(before) {
		e.Errorf("punching a hole did not move mtime")
	}
	e.close(fd)
	e.is("p", want)
	// Not aligned, inside a large file.
	big := pattern(3<<20, 8)
	e.write("b", big)
	fd = e.open("b", unix.O_RDWR, 0)
	e.allocate(fd, punch, 1_000_001, 1_000_000)
	e.close(fd)
	e.is("b", big[:1_000_001]+zeros(1_000_000)+big[2_000_001:])
}

func holesPunchDirty(e *env) {
	fd := e.open("f", unix.O_CREAT|unix.O_RDWR, 0o644)
	data := pattern(10_000, 3)
	e.fdwrite(fd, data)
	e.allocate(fd, punch, 5000, 1<<20)
	e.eq(e.fstat(fd).Size, int64(10_000), "size after a hole across the end")
	e.eq(e.pread(fd, 10_000, 0), data[:5000]+zeros(5000), "content")
	e.allocate(fd, punch, 1<<20, 4096)
	e.eq(e.fstat(fd).Size, int64(10_000), "size after a hole past the end")
	e.pwrite(fd, "again", 6000)
	e.close(fd)
	e.is("f", data[:5000]+zeros(1000)+"again"+zeros(3995))
}

func holesZeroRange(e *env) {
	data := pattern(20_000, 3)
	e.write("f", data)
	fd := e.open("f", unix.O_RDWR, 0)
	e.allocate(fd, unix.FALLOC_FL_ZERO_RANGE, 100, 5000)
	e.is("f", data[:100]+zeros(5000)+data[5100:])
	e.allocate(fd, unix.FALLOC_FL_ZERO_RANGE|unix.FALLOC_FL_KEEP_SIZE, 19_000, 5000)
	e.eq(e.fstat(fd).Size, int64(20_000), "size with KEEP_SIZE")
	e.allocate(fd, unix.FALLOC_FL_ZERO_RANGE, 19_000, 5000)
	e.eq(e.fstat(fd).Size, int64(24_000), "size")
	e.is("f", data[:100]+zeros(5000)+data[5100:19_000]+zeros(5000))
}

// holesCollapse: what is not supported must say so and change nothing.
func holesCollapse(e *env) {
	data := pattern(65536, 3)
	for _, mode := range []uint32{unix.FALLOC_FL_COLLAPSE_RANGE, unix.FALLOC_FL_INSERT_RANGE} {
		e.write("f", data)
		fd := e.open("f", unix.O_RDWR, 0)
		err := unix.Fallocate(fd, mode, 4096, 4096)
		e.close(fd)
		switch {
		case err == unix.EOPNOTSUPP || err == unix.EINVAL:
			e.is("f", data)
		case err != nil:
			e.Errorf("fallocate mode %#x: %v", mode, err)
		case mode == unix.FALLOC_FL_COLLAPSE_RANGE:
			e.is("f", data[:4096]+data[8192:])
		default:
			e.is("f", data[:4096]+zeros(4096)+data[4096:])
		}
	}
}

func holesErrors(e *env) {
	e.write("f", "abc")
	fd := e.open("f", unix.O_RDWR, 0)
	e.fails(unix.Fallocate(fd, 0, -1, 10), unix.EINVAL, "negative offset")
	e.fails(unix.Fallocate(fd, 0, 0, 0), unix.EINVAL, "length 0")
	e.fails(unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE, 0, 10), unix.EOPNOTSUPP, "punch without KEEP_SIZE")
	r := e.open("f", unix.O_RDONLY, 0)
	e.fails(unix.Fallocate(r, 0, 0, 10), unix.EBADF, "read-only handle")
	e.is("f", "abc")
}
