package fuse

import (
	"syscall"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"
)

// capabilities is what we ask the kernel for. What is left out, and why:
//   - AUTO_INVAL_DATA would drop pages that were just written, because their mtime is new. EXPLICIT_INVAL_DATA would keep
//     pages even when the size that we report is not the kernel's, and so show zeros behind the old end until our
//     notification arrives. With neither, a foreign size drops them, and everything else is notified.
//   - ASYNC_DIO lets an asynchronous direct write end without the pages being dropped that somebody read meanwhile: they
//     show the old bytes until the next change (xfstests generic/451).
//   - WRITEBACK_CACHE costs a SETATTR per written file and hides when bytes were written.
//   - NO_OPEN_SUPPORT and NO_OPENDIR_SUPPORT let the kernel leave out OPEN; PASSTHROUGH bypasses us; POSIX_ACL would need
//     access control lists.
const capabilities uint64 = gofuse.CAP_ASYNC_READ | gofuse.CAP_BIG_WRITES | gofuse.CAP_FILE_OPS | gofuse.CAP_MAX_PAGES |
	gofuse.CAP_PARALLEL_DIROPS | gofuse.CAP_READDIRPLUS | gofuse.CAP_READDIRPLUS_AUTO | gofuse.CAP_CACHE_SYMLINKS |
	gofuse.CAP_POSIX_LOCKS | gofuse.CAP_FLOCK_LOCKS | gofuse.CAP_ABORT_ERROR |
	gofuse.CAP_EXPORT_SUPPORT | // file handles outlive the kernel's memory of a file: LOOKUP of "." and ".."
	gofuse.CAP_ATOMIC_O_TRUNC | // else a truncating open costs one more SETATTR
	gofuse.CAP_HANDLE_KILLPRIV_V2 | // else every write costs a GETXATTR
	gofuse.CAP_DIRECT_IO_ALLOW_MMAP // else files that are written past the pages could not be mapped (fs.Handle.Caching)

// maxBackground is how many asynchronous requests (read-ahead, RELEASE) the kernel sends before it holds others back.
const maxBackground = 64

// protocol version that these structs are of. 7.36 brought the second word of flags.
const (
	protoMajor = 7
	protoMinor = 42
	minMinor   = 23 // RENAME2, and every struct in its present size
)

// doInit agrees with the kernel on what each side does.
func (c *conn) doInit(q *request) gofuse.Status {
	const oldInit = inHeaderLen + 16
	in := input[gofuse.InitIn](q)
	if in == nil { // before 7.36
		in = short[gofuse.InitIn](q, oldInit)
	}
	if in == nil || in.Major != protoMajor || in.Minor < minMinor {
		c.log.Error("this kernel speaks another version of the FUSE protocol; 7.23 (Linux 3.15) or newer is needed")
		return gofuse.Status(syscall.EPROTO)
	}
	flags := in.Flags64() & c.want
	if c.rings != nil {
		c.rings.agreed = flags&capOverIOURing != 0
	}
	c.granted.Store(flags)
	out := output[gofuse.InitOut](q)
	*out = gofuse.InitOut{
		Major: protoMajor, Minor: min(protoMinor, in.Minor), MaxReadAhead: max(in.MaxReadAhead, uint32(c.maxIO)),
		Flags: uint32(flags) | uint32(in.Flags&gofuse.CAP_INIT_EXT), Flags2: uint32(flags >> 32),
		MaxBackground: maxBackground, CongestionThreshold: maxBackground * 3 / 4,
		MaxWrite: uint32(c.maxIO), MaxPages: uint16((c.maxIO-1)/syscall.Getpagesize() + 1), TimeGran: 1,
	}
	c.log.Debug("FUSE connection begins", "minor", in.Minor, "flags", flags)
	return gofuse.OK
}
