package fuse

import (
	"context"
	"syscall"
	"unsafe"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"
)

// intercept answers what the library's ProtocolServer does not know or would log on every call. ok is false for all
// other requests.
func (c *conn) intercept(h *gofuse.InHeader, in, out []byte) (n int, ok bool) {
	switch h.Opcode {
	case opSyncfs:
		st := gofuse.ENOSYS
		if s, ok := c.raw.(syncer); ok {
			c.yield(h)
			st = s.SyncFS(context.Background())
		}
		return refuse(h, out, syscall.Errno(st)), true
	case opStatx, opBmap, opPoll, opCopyFileRange64:
		// ENOSYS switches each off for good: the kernel then uses GETATTR, no bmap, its default poll, COPY_FILE_RANGE.
		return refuse(h, out, syscall.ENOSYS), true
	case opIoctl:
		// What programs probe for and do not find is "not a typewriter"; ENOSYS would look like a broken mount.
		return refuse(h, out, syscall.ENOTTY), true
	case opDestroy:
		return refuse(h, out, 0), true
	case opSetxattr:
		// The library would slice beyond a message that is shorter than it says.
		if len(in) < inHeaderLen+8 {
			return refuse(h, out, syscall.EINVAL), true
		}
	}
	return 0, false
}

// wantsReply is false for the messages that must not be answered.
func wantsReply(op uint32) bool {
	return op != opForget && op != opBatchForget && op != opNotifyReply
}

// refuse writes a reply without a body, an error or (0) plain success, and returns its length.
func refuse(h *gofuse.InHeader, out []byte, e syscall.Errno) int {
	o := (*gofuse.OutHeader)(unsafe.Pointer(&out[0]))
	*o = gofuse.OutHeader{Length: uint32(outHeaderLen), Status: -int32(e), Unique: h.Unique}
	return outHeaderLen
}
