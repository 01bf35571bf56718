package fstest

import (
	"encoding/binary"
	"strings"

	"golang.org/x/sys/unix"
)

func inotifyTests() []test {
	return []test{
		{"changes of this mount are seen (s43)", inotifyLocal},
		{"watch of a file", inotifyFile},
	}
}

// watch starts to collect events; the function returns what came so far as "MASK name" words.
func (e *env) watch(path string, mask uint32) func() map[string]bool {
	e.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	e.ok(err, "inotify_init")
	e.own(fd)
	_, err = unix.InotifyAddWatch(fd, path, mask)
	e.ok(err, "inotify_add_watch")
	names := map[uint32]string{
		unix.IN_CREATE: "CREATE", unix.IN_MODIFY: "MODIFY", unix.IN_MOVED_FROM: "MOVED_FROM", unix.IN_MOVED_TO: "MOVED_TO",
		unix.IN_DELETE: "DELETE", unix.IN_CLOSE_WRITE: "CLOSE_WRITE", unix.IN_ATTRIB: "ATTRIB", unix.IN_DELETE_SELF: "DELETE_SELF",
		unix.IN_MOVE_SELF: "MOVE_SELF", unix.IN_OPEN: "OPEN", unix.IN_ACCESS: "ACCESS",
	}
	seen := map[string]bool{}
	return func() map[string]bool {
		buf := make([]byte, 64<<10)
		for {
			n, err := unix.Read(fd, buf)
			if err != nil || n <= 0 {
				return seen
			}
			for b := buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
				mask := binary.NativeEndian.Uint32(b[4:])
				size := int(binary.NativeEndian.Uint32(b[12:]))
				name := strings.TrimRight(string(b[16:16+size]), "\x00")
				for bit, word := range names {
					if mask&bit != 0 {
						seen[strings.TrimSpace(word+" "+name)] = true
					}
				}
				b = b[16+size:]
			}
		}
	}
}

func inotifyLocal(e *env) {
	events := e.watch(e.dir, unix.IN_ALL_EVENTS)
	e.write("a", "x")
	e.rename("a", "b")
	e.ok(unix.Chmod(e.p("b"), 0o600), "chmod")
	e.unlink("b")
	e.mkdir("d")
	e.ok(unix.Rmdir(e.p("d")), "rmdir")
	for _, want := range []string{"CREATE a", "MODIFY a", "CLOSE_WRITE a", "MOVED_FROM a", "MOVED_TO b", "ATTRIB b", "DELETE b", "CREATE d", "DELETE d"} {
		e.eventually("event "+want, func() bool { return events()[want] })
	}
}

func inotifyFile(e *env) {
	e.write("f", "x")
	events := e.watch(e.p("f"), unix.IN_ALL_EVENTS)
	e.write("f", "y")
	e.read("f")
	e.rename("f", "g")
	e.unlink("g")
	for _, want := range []string{"OPEN", "MODIFY", "CLOSE_WRITE", "ACCESS", "MOVE_SELF", "DELETE_SELF"} {
		e.eventually("event "+want, func() bool { return events()[want] })
	}
}
