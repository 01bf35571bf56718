package fstest

import (
	"net"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

func specialTests() []test {
	return []test{
		{"FIFO between processes (s60)", specialFifo},
		{"FIFO attributes", specialFifoAttr},
		{"socket (s60)", specialSocket},
		{"mknod of a regular file", specialRegular},
		{"device nodes", specialDevice},
		{"rename, link, unlink of a FIFO", specialNames},
	}
}

func specialFifo(e *env) {
	e.ok(unix.Mkfifo(e.p("p"), 0o644), "mkfifo")
	a := e.agent()
	opened := a.start("open", "p", unix.O_WRONLY, 0) // waits for a reader
	fd := e.open("p", unix.O_RDONLY, 0)
	w := <-opened
	e.ok(w.err(), "open of the writing end")
	a.must("write", w.N[0], "through the pipe")
	buf := make([]byte, 100)
	n, err := unix.Read(fd, buf)
	e.ok(err, "read")
	e.eq(string(buf[:n]), "through the pipe", "what came through")
	a.must("close", w.N[0])
	n, err = unix.Read(fd, buf)
	e.ok(err, "read")
	e.eq(n, 0, "bytes after the writer closed")
	_, err = unix.Open(e.p("p2"), unix.O_WRONLY|unix.O_NONBLOCK, 0)
	e.fails(err, unix.ENOENT, "open of a missing FIFO")
	e.close(fd)
	_, err = unix.Open(e.p("p"), unix.O_WRONLY|unix.O_NONBLOCK, 0)
	e.fails(err, unix.ENXIO, "open for writing without a reader")
}

func specialFifoAttr(e *env) {
	e.ok(unix.Mkfifo(e.p("p"), 0o600), "mkfifo")
	e.eq(e.stat("p").Mode, uint32(unix.S_IFIFO|0o600), "mode")
	e.ok(unix.Chmod(e.p("p"), 0o640), "chmod")
	e.ok(unix.UtimesNano(e.p("p"), []unix.Timespec{{Sec: 1}, {Sec: 2}}), "utimens")
	st := e.stat("p")
	e.eq(st.Mode, uint32(unix.S_IFIFO|0o640), "mode")
	e.eq(st.Mtim.Sec, int64(2), "mtime")
	e.fails(unix.Mkfifo(e.p("p"), 0o600), unix.EEXIST, "mkfifo over a FIFO")
	e.eq(st.Size, int64(0), "size")
}

func specialSocket(e *env) {
	// The path of a socket is at most 107 bytes: go there.
	old, err := os.Getwd()
	e.ok(err, "getwd")
	e.ok(os.Chdir(e.dir), "chdir")
	defer func() { _ = os.Chdir(old) }()
	l, err := net.Listen("unix", "s")
	e.ok(err, "listen")
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	e.eq(e.stat("s").Mode&unix.S_IFMT, uint32(unix.S_IFSOCK), "type")
	e.rename("s", "t")
	done := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, err = c.Write([]byte("hello"))
			_ = c.Close()
		}
		done <- err
	}()
	c, err := net.Dial("unix", "t")
	e.ok(err, "connect to a socket that was renamed")
	buf := make([]byte, 10)
	n, err := c.Read(buf)
	e.ok(err, "read")
	e.eq(string(buf[:n]), "hello", "bytes through the socket")
	e.ok(<-done, "server")
	e.ok(c.Close(), "close")
	e.ok(l.Close(), "close")
	_, err = net.Dial("unix", "t")
	e.fails(err, unix.ECONNREFUSED, "connect to a socket that nobody listens on")
	_, err = unix.Open(e.p("t"), unix.O_RDONLY, 0)
	e.fails(err, unix.ENXIO, "open of a socket")
}

func specialRegular(e *env) {
	e.ok(unix.Mknod(e.p("f"), unix.S_IFREG|0o640, 0), "mknod of a regular file")
	e.eq(e.stat("f").Mode, uint32(unix.S_IFREG|0o640), "mode")
	e.ok(unix.Mknod(e.p("g"), 0o600, 0), "mknod without a type")
	e.eq(e.stat("g").Mode, uint32(unix.S_IFREG|0o600), "mode")
	e.write("f", "x")
	e.is("f", "x")
	e.fails(unix.Mknod(e.p("f"), unix.S_IFREG|0o640, 0), unix.EEXIST, "mknod over a file")
	e.ok(unix.Mknod(e.p("s"), unix.S_IFSOCK|0o600, 0), "mknod of a socket")
	e.eq(e.stat("s").Mode, uint32(unix.S_IFSOCK|0o600), "mode")
}

func specialDevice(e *env) {
	err := unix.Mknod(e.p("null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3)))
	if os.Geteuid() != 0 {
		e.fails(err, unix.EPERM, "mknod of a device node")
		e.gone("null")
		return
	}
	e.ok(err, "mknod of a device node")
	e.eq(e.stat("null").Rdev, unix.Mkdev(1, 3), "rdev")
}

func specialNames(e *env) {
	e.ok(unix.Mkfifo(e.p("p"), 0o644), "mkfifo")
	e.link("p", "q")
	e.eq(uint64(e.stat("p").Nlink), uint64(2), "nlink")
	e.mkdir("d")
	e.rename("p", "d/p")
	e.eq(e.stat("d/p").Ino, e.stat("q").Ino, "inode")
	e.write("f", "x")
	e.rename("f", "q")
	e.is("q", "x")
	e.unlink("d/p")
	e.lists("d")
	if got := strings.Join(e.names(""), " "); got != "d q" {
		e.Errorf("names: %s", got)
	}
}
