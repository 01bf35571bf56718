package fstest

import (
	"os"

	"golang.org/x/sys/unix"
)

func copyTests() []test {
	return []test{
		{"copy_file_range (s58)", copyRange},
		{"copy_file_range into the middle, mtime (s34)", copyRangeMiddle},
		{"copy_file_range of dirty data", copyRangeDirty},
		{"copy_file_range within one file", copyRangeSelf},
		{"copy_file_range past the end", copyRangeEnd},
		{"copy_file_range errors", copyRangeErrors},
		{"sendfile and splice", copySendfile},
		{"reflink says no in words", copyReflink},
	}
}

// copyAll loops as programs do.
func (e *env) copyAll(src int, srcOff int64, dst int, dstOff int64, n int) int {
	e.Helper()
	done := 0
	for done < n {
		k, err := unix.CopyFileRange(src, &srcOff, dst, &dstOff, n-done, 0)
		e.ok(err, "copy_file_range")
		if k == 0 {
			break
		}
		done += k
	}
	return done
}

func copyRange(e *env) {
	data := pattern(1<<20+12345, 3)
	e.write("s", data)
	src := e.open("s", unix.O_RDONLY, 0)
	dst := e.open("t", unix.O_CREAT|unix.O_RDWR, 0o644)
	e.eq(e.copyAll(src, 0, dst, 0, 2<<20), len(data), "bytes copied")
	e.eq(e.fstat(dst).Size, int64(len(data)), "size")
	e.is("t", data)
	e.close(dst)
	e.is("t", data)
	// With the descriptors' own offsets.
	dst = e.open("u", unix.O_CREAT|unix.O_RDWR, 0o644)
	_, err := unix.Seek(src, 10, 0)
	e.ok(err, "seek")
	n, err := unix.CopyFileRange(src, nil, dst, nil, 5, 0)
	e.ok(err, "copy_file_range with own offsets")
	e.eq(n, 5, "bytes copied")
	off, err := unix.Seek(src, 0, 1)
	e.ok(err, "seek")
	e.eq(off, int64(15), "offset after copying")
	e.is("u", data[10:15])
}

func copyRangeMiddle(e *env) {
	data := pattern(300_000, 5)
	e.write("s", data)
	e.write("t", data)
	src, dst := e.open("s", unix.O_RDONLY, 0), e.open("t", unix.O_RDWR, 0)
	before := e.fstat(dst)
	tick()
	e.eq(e.copyAll(src, 100, dst, 200_001, 50_000), 50_000, "bytes copied")
	if after := e.fstat(dst); mtime(after) <= mtime(before) || ctime(after) <= ctime(before) {
		e.Errorf("copy_file_range did not move the times of the open target")
	}
	want := data[:200_001] + data[100:50_100] + data[250_001:]
	e.is("t", want)
	e.close(dst)
	e.is("t", want)
}

func copyRangeDirty(e *env) {
	src := e.open("s", unix.O_CREAT|unix.O_RDWR, 0o644)
	dst := e.open("t", unix.O_CREAT|unix.O_RDWR, 0o644)
	e.fdwrite(src, "dirty source")
	e.fdwrite(dst, "dirty target, longer")
	e.eq(e.copyAll(src, 0, dst, 6, 5), 5, "bytes copied")
	e.eq(e.pread(dst, 100, 0), "dirty dirtyt, longer", "target")
	m := e.mapping(src, 4096, rw, unix.MAP_SHARED)
	copy(m, "DIRTY")
	e.eq(e.copyAll(src, 0, dst, 0, 5), 5, "bytes copied after a store")
	e.eq(e.pread(dst, 100, 0), "DIRTY dirtyt, longer", "target after a store into a mapping of the source")
}

func copyRangeSelf(e *env) {
	data := pattern(200_000, 5)
	e.write("s", data)
	fd := e.open("s", unix.O_RDWR, 0)
	e.eq(e.copyAll(fd, 0, fd, 150_000, 100_000), 100_000, "bytes copied")
	e.is("s", data[:150_000]+data[:100_000])
	zero := int64(0)
	ten := int64(10)
	_, err := unix.CopyFileRange(fd, &zero, fd, &ten, 100, 0)
	e.fails(err, unix.EINVAL, "overlapping copy")
}

func copyRangeEnd(e *env) {
	e.write("s", "0123456789")
	src := e.open("s", unix.O_RDONLY, 0)
	dst := e.open("t", unix.O_CREAT|unix.O_RDWR, 0o644)
	e.eq(e.copyAll(src, 8, dst, 100, 50), 2, "bytes copied at the end")
	e.eq(e.copyAll(src, 10, dst, 0, 50), 0, "bytes copied past the end")
	e.is("t", zeros(100)+"89")
}

func copyRangeErrors(e *env) {
	e.write("s", "0123456789")
	e.write("t", "t")
	src := e.open("s", unix.O_RDONLY, 0)
	zero, one := int64(0), int64(0)
	_, err := unix.CopyFileRange(src, &zero, src, &one, 1, 0)
	if err != unix.EBADF && err != unix.EINVAL {
		e.Errorf("copy into a read-only handle: got %v, want EBADF", err)
	}
	app := e.open("t", unix.O_WRONLY|unix.O_APPEND, 0)
	_, err = unix.CopyFileRange(src, &zero, app, &one, 1, 0)
	e.fails(err, unix.EBADF, "copy into an O_APPEND handle")
	e.mkdir("d")
	dir := e.open("d", unix.O_RDONLY, 0)
	dst := e.open("t", unix.O_RDWR, 0)
	_, err = unix.CopyFileRange(dir, &zero, dst, &one, 1, 0)
	e.fails(err, unix.EISDIR, "copy of a directory")
	e.is("t", "t")
}

func copySendfile(e *env) {
	data := pattern(500_000, 9)
	e.write("s", data)
	src := e.open("s", unix.O_RDONLY, 0)
	dst := e.open("t", unix.O_CREAT|unix.O_RDWR, 0o644)
	for done := 0; done < len(data); {
		n, err := unix.Sendfile(dst, src, nil, len(data)-done)
		e.ok(err, "sendfile")
		if n == 0 {
			e.Fatalf("sendfile stopped after %d bytes", done)
		}
		done += n
	}
	e.is("t", data)
	// By a pipe, as cat and coreutils may.
	r, w, err := os.Pipe()
	e.ok(err, "pipe")
	defer r.Close()
	defer w.Close()
	off := int64(1000)
	n, err := unix.Splice(src, &off, int(w.Fd()), nil, 4096, 0)
	e.ok(err, "splice from a file")
	out := e.open("u", unix.O_CREAT|unix.O_RDWR, 0o644)
	m, err := unix.Splice(int(r.Fd()), nil, out, nil, int(n), 0)
	e.ok(err, "splice into a file")
	e.is("u", data[1000:1000+m])
}

func copyReflink(e *env) {
	e.write("s", "source")
	src := e.open("s", unix.O_RDONLY, 0)
	dst := e.open("t", unix.O_CREAT|unix.O_RDWR, 0o644)
	switch err := unix.IoctlFileClone(dst, src); err {
	case nil:
		e.is("t", "source")
	case unix.EOPNOTSUPP, unix.ENOTTY, unix.EINVAL, unix.EXDEV: // cp --reflink=auto goes on
		e.is("t", "")
	default:
		e.Errorf("FICLONE: got %v", err)
	}
}
