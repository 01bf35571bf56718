package fstest

import (
	"fmt"
	"io"
	"os"
	"slices"
	"sort"
	"sync"

	"golang.org/x/sys/unix"
)

func dirTests() []test {
	return []test{
		{"dot entries and types", dirTypes},
		{"every entry once, with a small buffer", dirSmallBuffer},
		{"seek to any cookie (s20)", dirSeek},
		{"seek while names come and go (s20)", dirSeekChanges},
		{"rewind sees what is new (s22)", dirRewind},
		{"unlink while reading (s19)", dirUnlinkWhile},
		{"create while reading ends", dirCreateWhile},
		{"create beside readdir (s30)", dirCreateBeside},
		{"two descriptors are apart", dirTwo},
		{"parallel listings are complete (s22)", dirParallel},
		{"rename while reading loses nothing else", dirRenameWhile},
		{"large directory (s21)", dirLarge},
		{"many came and went", dirChurn},
		{"mkdir and rmdir: nlink, times", dirNlink},
		{"mkdir over anything", dirExists},
		{"deep tree", dirDeep},
		{"file size and blocks of a directory", dirStat},
	}
}

// dirent is one entry as getdents64 tells it.
type dirent struct {
	name string
	ino  uint64
	off  int64
	typ  byte
}

// getdents reads one buffer.
func (e *env) getdents(fd, size int) []dirent {
	e.Helper()
	buf := make([]byte, size)
	n, err := unix.Getdents(fd, buf)
	e.ok(err, "getdents")
	return parseDirents(buf[:n])
}

func parseDirents(b []byte) []dirent {
	var list []dirent
	le := func(b []byte, n int) (v uint64) {
		for i := range n {
			v |= uint64(b[i]) << (8 * i)
		}
		return v
	}
	for len(b) > 0 {
		reclen := int(le(b[16:], 2))
		name := b[19:reclen]
		for i, c := range name {
			if c == 0 {
				name = name[:i]
				break
			}
		}
		list = append(list, dirent{string(name), le(b, 8), int64(le(b[8:], 8)), b[18]})
		b = b[reclen:]
	}
	return list
}

// rest reads until the end.
func (e *env) rest(fd, size int) []dirent {
	e.Helper()
	var all []dirent
	for {
		part := e.getdents(fd, size)
		if len(part) == 0 {
			return all
		}
		all = append(all, part...)
		if len(all) > 10_000_000 {
			e.Fatalf("a listing does not end")
		}
	}
}

func names(list []dirent) []string {
	var s []string
	for _, d := range list {
		if d.name != "." && d.name != ".." {
			s = append(s, d.name)
		}
	}
	sort.Strings(s)
	return s
}

func (e *env) fill(dir string, n int) []string {
	e.Helper()
	var all []string
	for i := range n {
		name := "f" + itoa(int64(i))
		fd, err := unix.Open(e.p(dir+"/"+name), unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
		e.ok(err, "create %s", name)
		e.ok(unix.Close(fd), "close")
		all = append(all, name)
	}
	return all
}

func dirTypes(e *env) {
	e.mkdir("d")
	e.mkdir("d/dir")
	e.write("d/file", "x")
	e.ok(unix.Symlink("x", e.p("d/link")), "symlink")
	e.ok(unix.Mkfifo(e.p("d/fifo"), 0o644), "mkfifo")
	fd := e.open("d", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	want := map[string]byte{".": unix.DT_DIR, "..": unix.DT_DIR, "dir": unix.DT_DIR, "file": unix.DT_REG, "link": unix.DT_LNK, "fifo": unix.DT_FIFO}
	got := map[string]byte{}
	for _, d := range e.rest(fd, 4096) {
		got[d.name] = d.typ
		if d.name != ".." {
			e.eq(d.ino, e.stat("d/"+d.name).Ino, "inode of %q in the listing", d.name)
		} else {
			e.eq(d.ino, e.stat("").Ino, "inode of .. in the listing")
		}
	}
	e.eq(got, want, "types")
}

func dirSmallBuffer(e *env) {
	e.mkdir("d")
	want := e.fill("d", 300)
	for _, size := range []int{64, 280, 1000, 4096, 65536} {
		fd := e.open("d", unix.O_RDONLY|unix.O_DIRECTORY, 0)
		e.eq(names(e.rest(fd, size)), want, "listing with a buffer of %d", size)
		e.close(fd)
	}
}

func dirSeek(e *env) {
	e.mkdir("d")
	e.fill("d", 500)
	fd := e.open("d", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	all := e.rest(fd, 512)
	for i := 0; i < len(all)-1; i += 7 {
		off, err := unix.Seek(fd, all[i].off, io.SeekStart)
		e.ok(err, "seek to cookie %d", i)
		e.eq(off, all[i].off, "result of seek")
		next := e.getdents(fd, 512)
		if len(next) == 0 || next[0] != all[i+1] {
			e.Fatalf("after seek to the cookie of entry %d (%q): got %v, want %v first", i, all[i].name, next, all[i+1])
		}
	}
	_, err := unix.Seek(fd, all[len(all)-1].off, io.SeekStart)
	e.ok(err, "seek to the last cookie")
	e.eq(len(e.getdents(fd, 512)), 0, "entries after the last cookie")
}

func dirSeekChanges(e *env) {
	e.mkdir("d")
	e.fill("d", 400)
	fd := e.open("d", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	all := e.rest(fd, 2048)
	left := map[string]bool{}
	for i, d := range all {
		if d.name == "." || d.name == ".." {
			continue
		}
		if i%3 == 0 {
			e.unlink("d/" + d.name)
		} else {
			left[d.name] = true
		}
	}
	e.write("d/new", "")
	for i := 0; i < len(all); i += 11 {
		_, err := unix.Seek(fd, all[i].off, io.SeekStart)
		e.ok(err, "seek")
		seen := map[string]int{}
		for _, d := range e.rest(fd, 2048) {
			seen[d.name]++
		}
		for _, d := range all[i+1:] {
			if left[d.name] && seen[d.name] != 1 {
				e.Fatalf("after seek to the cookie of entry %d: %q is listed %d times, want once", i, d.name, seen[d.name])
			}
		}
		for _, d := range all[:i+1] {
			if seen[d.name] > 0 {
				e.Fatalf("after seek to the cookie of entry %d: %q, which came before it, is listed", i, d.name)
			}
		}
	}
}

func dirRewind(e *env) {
	e.mkdir("d")
	e.fill("d", 50)
	fd := e.open("d", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	e.eq(len(names(e.rest(fd, 4096))), 50, "entries")
	e.write("d/new", "")
	e.unlink("d/f00000007")
	_, err := unix.Seek(fd, 0, io.SeekStart)
	e.ok(err, "rewind")
	got := names(e.rest(fd, 4096))
	e.eq(slices.Contains(got, "new"), true, "the new name is listed after a rewind")
	e.eq(slices.Contains(got, "f00000007"), false, "the removed name is listed after a rewind")
	e.eq(len(got), 50, "entries after a rewind")
}

func dirUnlinkWhile(e *env) {
	e.mkdir("d")
	e.fill("d", 5000)
	fd := e.open("d", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	for {
		part := e.getdents(fd, 1024)
		if len(part) == 0 {
			break
		}
		for _, d := range part {
			if d.name != "." && d.name != ".." {
				e.unlink("d/" + d.name)
			}
		}
	}
	e.lists("d")
	e.ok(unix.Rmdir(e.p("d")), "rmdir after unlinking while reading")
	// The same as a tree, as rm -rf does it.
	e.mkdir("t")
	for i := range 20 {
		sub := "t/" + itoa(int64(i))
		e.mkdir(sub)
		e.fill(sub, 60)
	}
	e.ok(os.RemoveAll(e.p("t")), "remove a tree")
	e.gone("t")
}

func dirCreateWhile(e *env) {
	e.mkdir("d")
	e.fill("d", 100)
	fd := e.open("d", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	seen := map[string]int{}
	for i := 0; ; i++ {
		part := e.getdents(fd, 256)
		if len(part) == 0 {
			break
		}
		if i > 5000 {
			e.Fatalf("a listing beside creations does not end")
		}
		for _, d := range part {
			seen[d.name]++
		}
		if i < 200 {
			e.write(fmt.Sprintf("d/g%d", i), "")
		}
	}
	for i := range 100 {
		if n := seen["f"+itoa(int64(i))]; n != 1 {
			e.Errorf("f%s is listed %d times, want once", itoa(int64(i)), n)
		}
	}
	for name, n := range seen {
		if n > 1 {
			e.Errorf("%s is listed %d times", name, n)
		}
	}
}

func dirCreateBeside(e *env) {
	e.mkdir("d")
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					if _, err := os.ReadDir(e.p("d")); err != nil {
						e.Errorf("readdir beside creations: %v", err)
						return
					}
				}
			}
		})
	}
	want := e.fill("d", 600)
	close(stop)
	wg.Wait()
	e.lists("d", want...)
}

func dirTwo(e *env) {
	e.mkdir("d")
	want := e.fill("d", 200)
	a := e.open("d", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	b := e.open("d", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	first := e.getdents(a, 1024)
	e.eq(names(e.rest(b, 333)), want, "second descriptor")
	e.eq(names(append(first, e.rest(a, 777)...)), want, "first descriptor")
	dup, err := unix.Dup(a)
	e.ok(err, "dup")
	e.own(dup)
	_, err = unix.Seek(dup, 0, io.SeekStart)
	e.ok(err, "seek")
	e.eq(names(e.rest(a, 1024)), want, "offset shared with a duplicate")
}

func dirParallel(e *env) {
	e.mkdir("d")
	n := min(10_000, e.o.bigDir())
	e.fill("d", n)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 3 {
				list, err := os.ReadDir(e.p("d"))
				if err != nil || len(list) != n {
					e.Errorf("parallel listing: %d entries of %d, %v", len(list), n, err)
				}
			}
		})
	}
	wg.Wait()
}

// dirRenameWhile: a listing during renames may miss or repeat what moves, never what stays.
func dirRenameWhile(e *env) {
	e.mkdir("d")
	stay := e.fill("d", 500)
	e.write("d/mover0", "")
	fd := e.open("d", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	var got []dirent
	for i := 0; ; i++ {
		part := e.getdents(fd, 512)
		if len(part) == 0 {
			break
		}
		got = append(got, part...)
		if i > 2000 {
			// "for each name: mv name name.bak" would go on for ever: names made after opendir must not come.
			e.Fatalf("a listing beside a rename for each buffer does not end")
		}
		e.rename(fmt.Sprintf("d/mover%d", i), fmt.Sprintf("d/mover%d", i+1))
	}
	count := map[string]int{}
	for _, d := range got {
		count[d.name]++
	}
	for _, n := range stay {
		if count[n] != 1 {
			e.Errorf("%s is listed %d times while another name moves", n, count[n])
		}
	}
}

func dirLarge(e *env) {
	e.mkdir("d")
	n := e.o.bigDir()
	want := e.fill("d", n)
	fd := e.open("d", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	got := names(e.rest(fd, 32768))
	if !slices.Equal(got, want) {
		e.Fatalf("listing of %d entries: %d came, or others", n, len(got))
	}
	for i := 0; i < n; i += n/100 + 1 {
		e.stat("d/f" + itoa(int64(i)))
		e.gone("d/g" + itoa(int64(i)))
	}
	list, err := os.ReadDir(e.p("d"))
	e.ok(err, "readdir")
	e.eq(len(list), n, "entries by readdir")
	e.ok(os.RemoveAll(e.p("d")), "remove the directory")
}

func dirChurn(e *env) {
	e.mkdir("d")
	keep := e.fill("d", 20)
	for i := range 2000 {
		n := fmt.Sprintf("d/tmp%d", i)
		e.write(n, "")
		e.unlink(n)
	}
	e.lists("d", keep...)
}

func dirNlink(e *env) {
	e.mkdir("d")
	e.eq(uint64(e.stat("d").Nlink), uint64(2), "nlink of an empty directory")
	before := e.stat("d")
	tick()
	e.mkdir("d/e")
	st := e.stat("d")
	e.eq(uint64(st.Nlink), uint64(3), "nlink with one subdirectory")
	if mtime(st) <= mtime(before) || ctime(st) <= ctime(before) {
		e.Errorf("mkdir did not move mtime and ctime of the parent")
	}
	tick()
	e.write("d/f", "x")
	if mtime(e.stat("d")) <= mtime(st) {
		e.Errorf("create did not move the mtime of the parent")
	}
	e.eq(uint64(e.stat("d").Nlink), uint64(3), "nlink after creating a file")
	st = e.stat("d")
	tick()
	e.write("d/f", "xy")
	e.eq(mtime(e.stat("d")), mtime(st), "mtime of the parent after writing a file")
	e.ok(unix.Rmdir(e.p("d/e")), "rmdir")
	e.eq(uint64(e.stat("d").Nlink), uint64(2), "nlink after rmdir")
	if mtime(e.stat("d")) <= mtime(st) {
		e.Errorf("rmdir did not move the mtime of the parent")
	}
	st = e.stat("d")
	tick()
	e.unlink("d/f")
	if mtime(e.stat("d")) <= mtime(st) || ctime(e.stat("d")) <= ctime(st) {
		e.Errorf("unlink did not move mtime and ctime of the parent")
	}
}

func dirExists(e *env) {
	e.mkdir("d")
	e.write("f", "x")
	e.ok(unix.Symlink("none", e.p("l")), "symlink")
	for _, n := range []string{"d", "f", "l"} {
		e.fails(unix.Mkdir(e.p(n), 0o755), unix.EEXIST, "mkdir over %s", n)
	}
	e.gone("none")
}

func dirDeep(e *env) {
	path := ""
	for range 100 {
		path += "d"
		e.mkdir(path)
		e.write(path+"/f", path)
		path += "/"
	}
	e.is(path+"f", path[:len(path)-1])
	e.ok(os.RemoveAll(e.p("d")), "remove a deep tree")
}

func dirStat(e *env) {
	e.mkdir("d")
	st := e.stat("d")
	e.eq(st.Mode, uint32(unix.S_IFDIR|0o755), "mode")
	if st.Blksize <= 0 {
		e.Errorf("block size of a directory is %d", st.Blksize)
	}
	e.eq(st.Uid, uint32(os.Geteuid()), "owner")
	e.eq(st.Gid, uint32(os.Getegid()), "group")
}
