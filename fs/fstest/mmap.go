package fstest

import (
	"strings"

	"golang.org/x/sys/unix"
)

func mmapTests() []test {
	return []test{
		{"shared mapping and pread, pwrite (s38)", mmapCoherent},
		{"shared mapping is kept after close", mmapAfterClose},
		{"private mapping", mmapPrivate},
		{"two mappings of one file", mmapTwo},
		{"mapping of another process", mmapProcess},
		{"read-only mapping sees writes", mmapReadOnly},
		{"truncate under a mapping", mmapTruncate},
		{"mapping of an unlinked file", mmapUnlinked},
		{"mapping of a file that is replaced", mmapReplaced},
		{"stores move mtime", mmapTimes},
		{"large mapping", mmapLarge},
		{"write from a mapping of the same file", mmapSelf},
	}
}

// mapping maps a whole descriptor and unmaps it at the end.
func (e *env) mapping(fd, n, prot, flags int) []byte {
	e.Helper()
	m, err := unix.Mmap(fd, 0, n, prot, flags)
	e.ok(err, "mmap of %d bytes", n)
	e.Cleanup(func() { _ = unix.Munmap(m) })
	return m
}

const rw = unix.PROT_READ | unix.PROT_WRITE

func mmapCoherent(e *env) {
	fd := e.open("m", unix.O_CREAT|unix.O_RDWR, 0o644)
	e.ok(unix.Ftruncate(fd, 8192), "ftruncate")
	m := e.mapping(fd, 8192, rw, unix.MAP_SHARED)
	copy(m[10:], "abc")
	e.eq(e.pread(fd, 3, 10), "abc", "pread of what was stored")
	e.pwrite(fd, "XYZ", 4094)
	e.eq(string(m[4094:4097]), "XYZ", "mapping after pwrite")
	other := e.open("m", unix.O_RDWR, 0)
	e.eq(e.pread(other, 3, 10), "abc", "pread by another handle")
	e.pwrite(other, "other", 6000)
	e.eq(string(m[6000:6005]), "other", "mapping after a write by another handle")
	e.ok(unix.Msync(m, unix.MS_SYNC), "msync")
	want := zeros(10) + "abc" + zeros(4081) + "XYZ" + zeros(1903) + "other" + zeros(2187)
	e.is("m", want)
}

func mmapAfterClose(e *env) {
	e.write("m", strings.Repeat("o", 10_000))
	fd := e.open("m", unix.O_RDWR, 0)
	m := e.mapping(fd, 10_000, rw, unix.MAP_SHARED)
	e.close(fd)
	copy(m[5000:], "late")
	e.eq(e.read("m")[4998:5006], "oolateoo", "read while mapped")
	e.ok(unix.Msync(m, unix.MS_SYNC), "msync")
	copy(m[9996:], "last")
	e.ok(unix.Munmap(m), "munmap")
	e.is("m", strings.Repeat("o", 5000)+"late"+strings.Repeat("o", 4992)+"last")
	e.eq(e.stat("m").Size, int64(10_000), "size does not grow to a page")
}

func mmapPrivate(e *env) {
	e.write("m", strings.Repeat("p", 8192))
	fd := e.open("m", unix.O_RDONLY, 0)
	m := e.mapping(fd, 8192, rw, unix.MAP_PRIVATE)
	copy(m[100:], "mine")
	e.eq(string(m[99:105]), "pminep", "private page")
	e.is("m", strings.Repeat("p", 8192))
	_, err := unix.Mmap(fd, 0, 8192, rw, unix.MAP_SHARED)
	e.fails(err, unix.EACCES, "shared writable mapping of a read-only handle")
}

func mmapTwo(e *env) {
	fd := e.open("m", unix.O_CREAT|unix.O_RDWR, 0o644)
	e.ok(unix.Ftruncate(fd, 4096), "ftruncate")
	a := e.mapping(fd, 4096, rw, unix.MAP_SHARED)
	e.link("m", "l")
	fd2 := e.open("l", unix.O_RDWR, 0)
	b := e.mapping(fd2, 4096, rw, unix.MAP_SHARED)
	a[0], b[1] = 'a', 'b'
	e.eq(string(b[:2]), "ab", "second mapping")
	e.eq(string(a[:2]), "ab", "first mapping")
}

func mmapProcess(e *env) {
	fd := e.open("m", unix.O_CREAT|unix.O_RDWR, 0o644)
	e.ok(unix.Ftruncate(fd, 4096), "ftruncate")
	m := e.mapping(fd, 4096, rw, unix.MAP_SHARED)
	a := e.agent()
	afd := a.must("open", "m", unix.O_RDWR, 0).N[0]
	for i := range 50 {
		m[i] = byte('a' + i%26)
		e.eq(a.must("pread", afd, 1, i).S[0], string(m[i:i+1]), "store %d seen by another process", i)
		a.must("pwrite", afd, "W", 1000+i)
		e.eq(string(m[1000+i:1001+i]), "W", "write %d of another process seen", i)
	}
}

func mmapReadOnly(e *env) {
	e.write("m", strings.Repeat("r", 5000))
	fd := e.open("m", unix.O_RDONLY, 0)
	m := e.mapping(fd, 5000, unix.PROT_READ, unix.MAP_SHARED)
	e.eq(string(m[:3]), "rrr", "mapping")
	w := e.open("m", unix.O_WRONLY, 0)
	for i := range 20 {
		e.pwrite(w, itoa(int64(i)), 4990)
		e.eq(string(m[4990:4998]), itoa(int64(i)), "mapping after write %d", i)
	}
	// O_TRUNC and new bytes of the same length, as a compiler does to a mapped library.
	e.write("m", strings.Repeat("s", 5000))
	e.eq(string(m[:3]), "sss", "mapping after the file was written anew")
}

func mmapTruncate(e *env) {
	e.write("m", strings.Repeat("t", 3*4096))
	fd := e.open("m", unix.O_RDWR, 0)
	m := e.mapping(fd, 3*4096, rw, unix.MAP_SHARED)
	m[0] = 'T'
	e.ok(unix.Ftruncate(fd, 100), "ftruncate")
	e.eq(string(m[:2]), "Tt", "first page")
	e.eq(string(m[99:102]), "t\x00\x00", "page past the new end is zero")
	e.ok(unix.Ftruncate(fd, 3*4096), "ftruncate up")
	e.eq(string(m[2*4096:2*4096+3]), zeros(3), "page that came back is zero")
	m[2*4096] = 'N'
	e.eq(e.pread(fd, 1, 2*4096), "N", "store into a page that came back")
	e.is("m", "T"+strings.Repeat("t", 99)+zeros(2*4096-100)+"N"+zeros(4095))
}

func mmapUnlinked(e *env) {
	fd := e.open("m", unix.O_CREAT|unix.O_RDWR, 0o644)
	e.ok(unix.Ftruncate(fd, 8192), "ftruncate")
	m := e.mapping(fd, 8192, rw, unix.MAP_SHARED)
	e.unlink("m")
	copy(m[4090:], "unlinked")
	e.eq(e.pread(fd, 8, 4090), "unlinked", "pread")
	e.ok(unix.Msync(m, unix.MS_SYNC), "msync")
	e.eq(uint64(e.fstat(fd).Nlink), uint64(0), "nlink")
	e.write("m", "new file")
	e.is("m", "new file")
	e.eq(string(m[4090:4098]), "unlinked", "mapping beside a new file of the same name")
}

func mmapReplaced(e *env) {
	e.write("m", strings.Repeat("1", 4096))
	fd := e.open("m", unix.O_RDWR, 0)
	m := e.mapping(fd, 4096, rw, unix.MAP_SHARED)
	e.write("tmp", strings.Repeat("2", 4096))
	e.rename("tmp", "m")
	e.eq(string(m[:3]), "111", "mapping keeps the old file")
	m[0] = 'x'
	e.is("m", strings.Repeat("2", 4096))
	e.eq(e.pread(fd, 2, 0), "x1", "old handle")
}

func mmapTimes(e *env) {
	e.write("m", strings.Repeat("t", 4096))
	fd := e.open("m", unix.O_RDWR, 0)
	m := e.mapping(fd, 4096, rw, unix.MAP_SHARED)
	before := e.fstat(fd)
	tick()
	m[5] = 'X'
	e.ok(unix.Msync(m, unix.MS_SYNC), "msync")
	if after := e.stat("m"); mtime(after) <= mtime(before) {
		e.Errorf("mtime stayed at %d after a store and msync", mtime(after))
	}
}

func mmapLarge(e *env) {
	const n = 16 << 20
	fd := e.open("m", unix.O_CREAT|unix.O_RDWR, 0o644)
	e.ok(unix.Ftruncate(fd, n), "ftruncate")
	m := e.mapping(fd, n, rw, unix.MAP_SHARED)
	data := pattern(n, 4)
	copy(m, data)
	e.ok(unix.Munmap(m), "munmap")
	e.close(fd)
	e.is("m", data)
}

// mmapSelf writes into a file from a mapping of the same file: the kernel faults inside its copy.
func mmapSelf(e *env) {
	data := pattern(64<<10, 4)
	e.write("m", data)
	fd := e.open("m", unix.O_RDWR, 0)
	m := e.mapping(fd, 64<<10, rw, unix.MAP_SHARED)
	n, err := unix.Pwrite(fd, m[:32<<10], 64<<10)
	e.ok(err, "pwrite from the mapping")
	e.eq(n, 32<<10, "pwrite from the mapping")
	n, err = unix.Pread(fd, m[:16<<10], 32<<10)
	e.ok(err, "pread into the mapping")
	e.eq(n, 16<<10, "pread into the mapping")
	e.is("m", data[32<<10:48<<10]+data[16<<10:]+data[:32<<10])
}
