package fstest

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"golang.org/x/sys/unix"
)

func limitsTests() []test {
	return []test{
		{"offsets around 2^31, 2^32 and beyond", limitsOffsets},
		{"the largest file and 2^63-1", limitsLargest},
		{"a sparse file of 1 TiB", limitsSparse},
		{"a hole of 512 GiB is punched", limitsPunch},
		{"a copy of a sparse file of 1 TiB", limitsCopy},
		{"a thousand levels", limitsDeep},
		{"attribute values of 64 KiB", limitsXattrValue},
		{"attributes until no more fit", limitsXattrMany},
	}
}

func limitsOffsets(e *env) {
	fd := e.open("f", unix.O_CREAT|unix.O_RDWR, 0o644)
	places := []int64{1 << 31, 1 << 32, 1<<32 + 1<<31, 1 << 40}
	for _, at := range places {
		e.pwrite(fd, "0123456789", at-5)
		e.eq(e.fstat(fd).Size, at+5, "size after a write around %#x", at)
	}
	for _, when := range []string{"open", "closed"} {
		for _, at := range places {
			e.eq(e.pread(fd, 20, at-10)[:15], zeros(5)+"0123456789", "bytes around %#x (%s)", at, when)
			off, err := unix.Seek(fd, at-2, io.SeekStart)
			e.ok(err, "seek to %#x", at-2)
			e.eq(off, at-2, "seek (%s)", when)
			buf := make([]byte, 4)
			n, err := unix.Read(fd, buf)
			e.ok(err, "read at %#x", at-2)
			e.eq(string(buf[:n]), "3456", "bytes at the place of the descriptor (%s)", when)
		}
		e.close(fd)
		fd = e.open("f", unix.O_RDWR, 0)
	}
	// The lower 32 bits of an offset alone would hit these.
	e.eq(e.pread(fd, 10, 0), zeros(10), "the beginning")
	e.ok(unix.Ftruncate(fd, 1<<32-2), "truncate in between")
	e.ok(unix.Ftruncate(fd, 1<<32+100), "grow again")
	e.eq(e.pread(fd, 20, 1<<32-5), "012"+zeros(17), "bytes behind the cut")
}

// limitsLargest: whatever the largest file is, what is beyond is refused and what is below stays whole.
func limitsLargest(e *env) {
	data := pattern(5000, 3)
	e.write("f", data)
	fd := e.open("f", unix.O_RDWR, 0)
	for _, at := range []int64{1 << 44, 1 << 50, 1 << 62, math.MaxInt64 - 4096, math.MaxInt64 - 1, math.MaxInt64} {
		_, err := unix.Pwrite(fd, []byte("x"), at)
		switch {
		case err == nil: // tmpfs has no limit of its own
			e.eq(e.fstat(fd).Size, at+1, "size after a write at %#x", at)
			e.eq(e.pread(fd, 1, at), "x", "byte at %#x", at)
			e.ok(unix.Ftruncate(fd, int64(len(data))), "truncate")
		case at == math.MaxInt64:
			e.fails(err, unix.EINVAL, "write at %#x", at) // its end is no offset
		case !errors.Is(err, unix.EFBIG) && !errors.Is(err, unix.EINVAL):
			e.Errorf("write at %#x: got %v, want EFBIG", at, err)
		}
		if err := unix.Ftruncate(fd, at); err == nil {
			e.eq(e.fstat(fd).Size, at, "size")
			e.ok(unix.Ftruncate(fd, int64(len(data))), "truncate")
		} else if !errors.Is(err, unix.EFBIG) && !errors.Is(err, unix.EINVAL) {
			e.Errorf("truncate to %#x: got %v, want EFBIG", at, err)
		}
		e.eq(e.fstat(fd).Size, int64(len(data)), "size after %#x was refused", at)
	}
	_, err := unix.Pwrite(fd, []byte("longer than what is left"), math.MaxInt64-3)
	e.fails(err, unix.EINVAL, "write whose end is no offset")
	e.close(fd)
	e.is("f", data)
}

const tib = 1 << 40

// sparseTiB makes a file of 1 TiB with something at both ends and in the middle.
func (e *env) sparseTiB(name string) {
	e.Helper()
	fd := e.open(name, unix.O_CREAT|unix.O_RDWR, 0o644)
	e.ok(unix.Ftruncate(fd, tib), "ftruncate to 1 TiB")
	e.pwrite(fd, "begin", 0)
	e.pwrite(fd, pattern(100_000, 1), tib/2)
	e.pwrite(fd, "end", tib-3)
	e.close(fd)
}

// smallTiB requires content and a small size on disk.
func (e *env) smallTiB(fd int, middle string) {
	e.Helper()
	st := e.fstat(fd)
	e.eq(st.Size, int64(tib), "size")
	if st.Blocks*512 > 4<<20 {
		e.Errorf("a file with 100 KB of data claims %d KiB", st.Blocks/2)
	}
	e.eq(e.pread(fd, 7, 0), "begin\x00\x00", "the beginning")
	e.eq(e.pread(fd, 100_000, tib/2), middle, "the middle")
	e.eq(e.pread(fd, 10, tib-5), "\x00\x00end", "the end")
	e.eq(e.pread(fd, 1000, tib/4), zeros(1000), "a hole")
}

// dataTiB is where data is, in whole MiB: how exact SEEK_DATA is, is the file system's affair.
func (e *env) dataTiB(fd int) string {
	e.Helper()
	var list []string
	for off := int64(0); ; {
		from, err := unix.Seek(fd, off, unix.SEEK_DATA)
		if err == unix.ENXIO {
			return strings.Join(list, " ")
		}
		e.ok(err, "SEEK_DATA at %#x", off)
		if off, err = unix.Seek(fd, from, unix.SEEK_HOLE); err != nil || off <= from || len(list) > 9 {
			e.Fatalf("SEEK_HOLE at %#x: %#x %v, after %s", from, off, err, list)
		}
		list = append(list, fmt.Sprintf("%d+%d", from>>20, (off-from+1<<20-1)>>20))
	}
}

func limitsSparse(e *env) {
	middle := pattern(100_000, 1)
	e.sparseTiB("s")
	fd := e.open("s", unix.O_RDWR, 0)
	e.smallTiB(fd, middle)
	if !e.o.NoHoles {
		e.eq(e.dataTiB(fd), "0+1 524288+1 1048575+1", "data")
	}
	e.ok(unix.Ftruncate(fd, 2*tib), "grow")
	e.pwrite(fd, "far", 2*tib-3)
	e.ok(unix.Ftruncate(fd, tib), "shrink")
	e.ok(unix.Fsync(fd), "fsync")
	e.smallTiB(fd, middle)
	e.close(fd)
	e.link("s", "t")
	e.rename("t", "u")
	fd = e.open("u", unix.O_RDONLY, 0)
	e.smallTiB(fd, middle)
}

// limitsPunch: what is punched costs what its edges cost, while the file is open and when it is closed.
func limitsPunch(e *env) {
	e.sparseTiB("s")
	fd := e.open("s", unix.O_RDWR, 0)
	e.allocate(fd, punch, tib/4, tib/2)
	for _, when := range []string{"open", "synced", "closed"} {
		switch when {
		case "synced":
			e.ok(unix.Fsync(fd), "fsync")
		case "closed":
			e.close(fd)
			fd = e.open("s", unix.O_RDONLY, 0)
		}
		e.smallTiB(fd, zeros(100_000))
		if when == "closed" && !e.o.NoHoles {
			e.eq(e.dataTiB(fd), "0+1 1048575+1", "data")
		}
	}
}

// limitsCopy copies as cp does: data alone.
func limitsCopy(e *env) {
	e.sparseTiB("s")
	from, to := e.open("s", unix.O_RDONLY, 0), e.open("t", unix.O_CREAT|unix.O_RDWR, 0o644)
	e.ok(unix.Ftruncate(to, tib), "ftruncate")
	for off, n := int64(0), 0; ; n++ {
		start, err := unix.Seek(from, off, unix.SEEK_DATA)
		if err == unix.ENXIO {
			break
		}
		e.ok(err, "SEEK_DATA")
		if off, err = unix.Seek(from, start, unix.SEEK_HOLE); err != nil || off-start > 1<<20 || n > 9 {
			e.Skipf("holes are not seen here: %d %d %v", start, off, err)
		}
		for src, dst := start, start; src < off; {
			k, err := unix.CopyFileRange(from, &src, to, &dst, int(off-src), 0)
			e.ok(err, "copy_file_range at %#x", src)
			if k == 0 {
				break
			}
		}
	}
	e.close(to)
	fd := e.open("t", unix.O_RDONLY, 0)
	e.smallTiB(fd, pattern(100_000, 1))
}

func limitsDeep(e *env) {
	const levels, part = 1000, "directory"
	a := e.agent()
	for range levels {
		a.must("mkdir", part, 0o755)
		a.must("chdir", part)
	}
	fd := a.must("open", "f", unix.O_CREAT|unix.O_RDWR, 0o644).N[0]
	a.must("write", fd, "deep")
	a.must("link", "f", "g")
	a.must("symlink", "f", "l")
	a.must("rename", "g", "h")
	a.must("chmod", "f", 0o600)
	e.eq(a.must("pread", fd, 10, 0).S[0], "deep", "content")
	a.must("close", fd)
	// Its path has 10,000 bytes: there is none, and nothing is cut off.
	a.fails(unix.ENAMETOOLONG, "getcwd")
	e.eq(len(a.must("list", ".").S), 3, "names at the end")
	// The whole of it moves, and moves back; a directory does not go below itself.
	e.mkdir("other")
	e.rename(part, "other/"+part)
	e.eq(a.must("stat", "f").N[3], int64(4), "size, after the tree has moved")
	e.rename("other/"+part, part)
	e.fails(unix.Rename(e.p(part), e.p(part+"/"+part+"/"+part+"/x")), unix.EINVAL, "rename below itself")
	for _, n := range []string{"f", "h", "l"} {
		a.must("unlink", n)
	}
	for range levels {
		a.must("chdir", "..")
		a.must("rmdir", part)
	}
	e.lists("", "other")
}

// noRoom are the answers to an attribute that does not fit.
func noRoom(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.E2BIG) || errors.Is(err, unix.EDQUOT)
}

func limitsXattrValue(e *env) {
	e.write("f", "x")
	e.xattrOrSkip(unix.Setxattr(e.p("f"), "user.small", []byte("kept"), 0))
	kept := 0
	for i := range 3 {
		name, value := fmt.Sprintf("user.big%d", i), pattern(65536, byte(i))
		err := unix.Setxattr(e.p("f"), name, []byte(value), 0)
		if err != nil {
			if !noRoom(err) { // ext4 has room for what a block holds
				e.Errorf("value of 64 KiB: got %v, want ENOSPC", err)
			}
			continue
		}
		kept++
		v, err := e.getx("f", name)
		e.ok(err, "getxattr of 64 KiB")
		e.eq(v, value, "value of 64 KiB")
		_, err = unix.Getxattr(e.p("f"), name, make([]byte, 65535))
		e.fails(err, unix.ERANGE, "get of 64 KiB into a byte less")
	}
	e.fails(unix.Setxattr(e.p("f"), "user.more", make([]byte, 65537), 0), unix.E2BIG, "value of 64 KiB + 1")
	e.eq(len(e.user("f")), 1+kept, "attributes")
	v, err := e.getx("f", "user.small")
	e.ok(err, "getxattr")
	e.eq(v, "kept", "the small value")
}

// limitsXattrMany: a set is refused before the list can no longer be had, and what was set stays.
func limitsXattrMany(e *env) {
	var st unix.Statfs_t
	if e.ok(unix.Statfs(e.dir, &st), "statfs"); st.Type == unix.TMPFS_MAGIC {
		e.Skip("tmpfs takes names of which it gives no list")
	}
	e.write("f", "x")
	name := func(i int) string { return fmt.Sprintf("user.%0200d", i) }
	set := 0
	for ; ; set++ {
		err := unix.Setxattr(e.p("f"), name(set), []byte{byte(set)}, 0)
		if set == 0 {
			e.xattrOrSkip(err)
		}
		if err != nil {
			if !noRoom(err) {
				e.Errorf("attribute %d: got %v, want ENOSPC", set, err)
			}
			break
		}
		if set > 400 {
			e.Fatalf("%d names of 205 bytes: no list can be had of them", set)
		}
	}
	e.eq(len(e.user("f")), set, "names in the list")
	for i := range set {
		v, err := e.getx("f", name(i))
		e.ok(err, "getxattr of %d", i)
		e.eq(v, string([]byte{byte(i)}), "value of %d", i)
	}
	e.ok(unix.Removexattr(e.p("f"), name(0)), "remove")
	e.ok(unix.Setxattr(e.p("f"), name(set), []byte("room"), 0), "set, with room again")
	e.ok(unix.Setxattr(e.p("f"), name(set), []byte("less"), unix.XATTR_REPLACE), "replace, where there is no more room")
	e.eq(len(e.user("f")), set, "names in the list")
	e.is("f", "x")
}
