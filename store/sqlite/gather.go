package sqlite

import (
	"database/sql/driver"
	"encoding/binary"
	"unsafe"

	"modernc.org/libc"
	"modernc.org/libc/sys/types"
	lib "modernc.org/sqlite/lib"
)

// SQLite writes each page of a transaction to its log with two calls of pwrite(2), one for 24 bytes and one for the page. Half of the
// time of a commit goes there. gather is a file of SQLite's that takes the pages of a transaction together: what would be written one behind the other is
// kept until there is much of it, and written at the latest before the call that ends the transaction returns, which is the page whose
// header says so. Nobody looks for pages in the log before that, but the connection itself, whose other calls write what is kept first.
type gather struct {
	tls     *libc.TLS
	old     uintptr // the methods that SQLite gave the file
	methods uintptr // ours
	buf     uintptr // what is kept
	n       int     // bytes of it
	most    int     // that are kept
	off     int64   // where they belong
	left    int     // of the page that comes next; 0: a header comes
	last    bool    // that page ends the transaction
	read    int64   // offset of the last call, if that was a read; else -1
	// The methods are called by their addresses, which the collector does not see.
	write   func(*libc.TLS, uintptr, uintptr, int32, int64) int32
	reads   func(*libc.TLS, uintptr, uintptr, int32, int64) int32
	cut     func(*libc.TLS, uintptr, int64) int32
	sync    func(*libc.TLS, uintptr, int32) int32
	size    func(*libc.TLS, uintptr, uintptr) int32
	closing func(*libc.TLS, uintptr) int32
}

const (
	frameHeader = 24
	gatherBytes = 31 * (frameHeader + pageSize) // SQLite takes 17 bits of a length
)

// gatherLog has a connection that is in write-ahead mode gather; nil if it is not as this version of the driver has it, and then it is only slower. The
// result is to be kept for as long as the connection.
func gatherLog(conn any) *gather {
	c, ok := conn.(driver.Conn)
	if !ok {
		return nil
	}
	db := handle(c)
	if db == 0 {
		return nil
	}
	g := &gather{tls: libc.NewTLS(), read: -1, most: gatherBytes}
	slot := libc.Xmalloc(g.tls, 8)
	name, err := libc.CString("main")
	if err != nil || slot == 0 || lib.Xsqlite3_file_control(g.tls, db, name, lib.SQLITE_FCNTL_JOURNAL_POINTER, slot) != lib.SQLITE_OK {
		return nil
	}
	file := word(slot)
	libc.Xfree(g.tls, slot)
	libc.Xfree(g.tls, name)
	const methods = unsafe.Sizeof(lib.Tsqlite3_io_methods{})
	if file == 0 || word(file) == 0 {
		return nil
	}
	g.old = word(file)
	g.methods, g.buf = libc.Xmalloc(g.tls, types.Size_t(methods)), libc.Xmalloc(g.tls, gatherBytes)
	if g.methods == 0 || g.buf == 0 {
		return nil
	}
	copy(libc.GoBytes(g.methods, int(methods)), libc.GoBytes(g.old, int(methods)))
	var m lib.Tsqlite3_io_methods
	g.write, g.reads, g.cut, g.sync, g.size, g.closing = g.xWrite, g.xRead, g.xTruncate, g.xSync, g.xFileSize, g.xClose
	for at, fn := range map[uintptr]unsafe.Pointer{
		unsafe.Offsetof(m.FxWrite): unsafe.Pointer(&g.write), unsafe.Offsetof(m.FxRead): unsafe.Pointer(&g.reads),
		unsafe.Offsetof(m.FxTruncate): unsafe.Pointer(&g.cut), unsafe.Offsetof(m.FxSync): unsafe.Pointer(&g.sync),
		unsafe.Offsetof(m.FxFileSize): unsafe.Pointer(&g.size), unsafe.Offsetof(m.FxClose): unsafe.Pointer(&g.closing),
	} {
		setWord(g.methods+at, *(*uintptr)(fn))
	}
	setWord(file, g.methods)
	return g
}

func word(at uintptr) uintptr { return uintptr(binary.NativeEndian.Uint64(libc.GoBytes(at, 8))) }

func setWord(at, v uintptr) { binary.NativeEndian.PutUint64(libc.GoBytes(at, 8), uint64(v)) }

// method is one of those that SQLite gave the file, as a function.
func (g *gather) method(at uintptr) unsafe.Pointer {
	return unsafe.Pointer(&struct{ uintptr }{word(g.old + at)})
}

func (g *gather) pwrite(tls *libc.TLS, file, buf uintptr, n int32, off int64) int32 {
	return (*(*func(*libc.TLS, uintptr, uintptr, int32, int64) int32)(g.method(unsafe.Offsetof(lib.Tsqlite3_io_methods{}.FxWrite))))(tls, file, buf, n, off)
}

// flush writes what is kept. What cannot be written is gone: the transaction fails, and its pages are written again.
func (g *gather) flush(tls *libc.TLS, file uintptr) int32 {
	n := g.n
	g.n, g.left = 0, 0
	if n == 0 {
		return lib.SQLITE_OK
	}
	return g.pwrite(tls, file, g.buf, int32(n), g.off)
}

func (g *gather) xWrite(tls *libc.TLS, file, buf uintptr, n int32, off int64) int32 {
	read := g.read
	g.read = -1
	next := g.n > 0 && off == g.off+int64(g.n)
	switch {
	case n == frameHeader && off != read && (g.n == 0 || next && g.left == 0):
		// A header that was just read is put right, and no page follows.
		b := libc.GoBytes(buf, frameHeader)
		if g.n == 0 {
			g.off = off
		}
		g.left, g.last = pageSize, binary.BigEndian.Uint32(b[4:]) != 0
	case next && int(n) == g.left:
		g.left = 0
	default:
		if rc := g.flush(tls, file); rc != lib.SQLITE_OK {
			return rc
		}
		return g.pwrite(tls, file, buf, n, off)
	}
	copy(libc.GoBytes(g.buf+uintptr(g.n), int(n)), libc.GoBytes(buf, int(n)))
	if g.n += int(n); g.left == 0 && (g.last || g.n+frameHeader+pageSize > g.most) {
		return g.flush(tls, file)
	}
	return lib.SQLITE_OK
}

func (g *gather) xRead(tls *libc.TLS, file, buf uintptr, n int32, off int64) int32 {
	if rc := g.flush(tls, file); rc != lib.SQLITE_OK {
		return rc
	}
	g.read = off
	return (*(*func(*libc.TLS, uintptr, uintptr, int32, int64) int32)(g.method(unsafe.Offsetof(lib.Tsqlite3_io_methods{}.FxRead))))(tls, file, buf, n, off)
}

func (g *gather) xTruncate(tls *libc.TLS, file uintptr, size int64) int32 {
	if rc := g.flush(tls, file); rc != lib.SQLITE_OK {
		return rc
	}
	return (*(*func(*libc.TLS, uintptr, int64) int32)(g.method(unsafe.Offsetof(lib.Tsqlite3_io_methods{}.FxTruncate))))(tls, file, size)
}

func (g *gather) xSync(tls *libc.TLS, file uintptr, flags int32) int32 {
	if rc := g.flush(tls, file); rc != lib.SQLITE_OK {
		return rc
	}
	return (*(*func(*libc.TLS, uintptr, int32) int32)(g.method(unsafe.Offsetof(lib.Tsqlite3_io_methods{}.FxSync))))(tls, file, flags)
}

func (g *gather) xFileSize(tls *libc.TLS, file, size uintptr) int32 {
	if rc := g.flush(tls, file); rc != lib.SQLITE_OK {
		return rc
	}
	return (*(*func(*libc.TLS, uintptr, uintptr) int32)(g.method(unsafe.Offsetof(lib.Tsqlite3_io_methods{}.FxFileSize))))(tls, file, size)
}

// xClose gives the file back as it was. What is kept belongs to a transaction that did not end.
func (g *gather) xClose(tls *libc.TLS, file uintptr) int32 {
	setWord(file, g.old)
	libc.Xfree(g.tls, g.methods)
	libc.Xfree(g.tls, g.buf)
	g.tls.Close()
	return (*(*func(*libc.TLS, uintptr) int32)(g.method(unsafe.Offsetof(lib.Tsqlite3_io_methods{}.FxClose))))(tls, file)
}
