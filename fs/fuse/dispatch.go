package fuse

import (
	"context"
	"encoding/binary"
	"syscall"
	"unsafe"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"
)

// dispatch calls the method that answers q and fills in the reply's body. It does what the library's ProtocolServer
// does, without its garbage (1 KiB a request, 0.4 us), its prints, and the file name that it reserves; and it can end
// requests that wait, which that cannot.
//
// A message that is shorter than its struct is EINVAL; the kernel sends none.
func (c *conn) dispatch(q *request) gofuse.Status {
	const bad = gofuse.EINVAL
	raw, h := c.raw, q.h
	switch h.Opcode {
	case opGetattr:
		if in := input[gofuse.GetAttrIn](q); in != nil {
			return raw.GetAttr(q.cancel, in, output[gofuse.AttrOut](q))
		}
	case opSetattr:
		if in := input[gofuse.SetAttrIn](q); in != nil {
			return raw.SetAttr(q.cancel, in, output[gofuse.AttrOut](q))
		}
	case opOpen, opOpendir:
		if in := input[gofuse.OpenIn](q); in != nil {
			if h.Opcode == opOpen {
				return raw.Open(q.cancel, in, output[gofuse.OpenOut](q))
			}
			return raw.OpenDir(q.cancel, in, output[gofuse.OpenOut](q))
		}
	case opCreate, opTmpfile:
		if in := input[gofuse.CreateIn](q); in != nil {
			out := output[gofuse.CreateOut](q)
			if h.Opcode == opTmpfile { // its name is "/" and means nothing
				return raw.Tmpfile(q.cancel, in, out)
			}
			if name, ok := q.name(); ok {
				return raw.Create(q.cancel, in, name, out)
			}
		}
	case opRead:
		return c.doRead(q)
	case opReaddir, opReaddirplus:
		return c.doReaddir(q)
	case opWrite:
		if in := input[gofuse.WriteIn](q); in != nil && len(q.rest) >= int(in.Size) {
			out := output[gofuse.WriteOut](q)
			n, st := raw.Write(q.cancel, in, q.rest[:in.Size])
			out.Size = n
			return st
		}
	case opFlush:
		if in := input[gofuse.FlushIn](q); in != nil {
			return raw.Flush(q.cancel, in)
		}
	case opRelease, opReleasedir:
		if in := input[gofuse.ReleaseIn](q); in != nil {
			if h.Opcode == opRelease {
				raw.Release(q.cancel, in)
			} else {
				raw.ReleaseDir(in)
			}
			return gofuse.OK
		}
	case opFsync, opFsyncdir:
		if in := input[gofuse.FsyncIn](q); in != nil {
			if h.Opcode == opFsync {
				return raw.Fsync(q.cancel, in)
			}
			return raw.FsyncDir(q.cancel, in)
		}
	case opLookup, opSymlink, opMknod, opMkdir, opLink, opUnlink, opRmdir, opRename, opRename2, opReadlink:
		return c.dispatchName(q)
	case opSetxattr, opGetxattr, opListxattr, opRemovexattr:
		return c.dispatchXattr(q)
	case opGetlk, opSetlk, opSetlkw:
		return c.dispatchLock(q)
	case opFallocate:
		if in := input[gofuse.FallocateIn](q); in != nil {
			return raw.Fallocate(q.cancel, in)
		}
	case opLseek:
		if in := input[gofuse.LseekIn](q); in != nil {
			return raw.Lseek(q.cancel, in, output[gofuse.LseekOut](q))
		}
	case opCopyFileRange:
		if in := input[gofuse.CopyFileRangeIn](q); in != nil {
			out := output[gofuse.WriteOut](q)
			n, st := raw.CopyFileRange(q.cancel, in)
			out.Size = n
			return st
		}
	case opAccess:
		if in := input[gofuse.AccessIn](q); in != nil {
			return raw.Access(q.cancel, in)
		}
	case opStatfs:
		return raw.StatFs(q.cancel, h, output[gofuse.StatfsOut](q))
	case opInit:
		return c.doInit(q)
	case opDestroy:
		return gofuse.OK
	case opForget:
		if in := input[gofuse.ForgetIn](q); in != nil {
			raw.Forget(h.NodeId, in.Nlookup)
		}
	case opBatchForget:
		c.doBatchForget(q)
	case opInterrupt:
		if in := input[gofuse.InterruptIn](q); in != nil {
			c.interrupt(in.Unique)
		}
	case opSyncfs:
		if s, ok := raw.(syncer); ok {
			c.yield(h)
			return s.SyncFS(context.Background())
		}
		return gofuse.ENOSYS
	case opIoctl:
		// What programs probe for and do not find is "not a typewriter"; ENOSYS would look like a broken mount.
		return gofuse.Status(syscall.ENOTTY)
	default:
		// STATX, BMAP, POLL, COPY_FILE_RANGE_64 and what is to come: ENOSYS switches each off for good, and the kernel
		// goes on with GETATTR, no bmap, its default poll, COPY_FILE_RANGE.
		return gofuse.ENOSYS
	}
	return bad
}

func (c *conn) dispatchName(q *request) gofuse.Status {
	const bad = gofuse.EINVAL
	raw, h := c.raw, q.h
	q.rest = q.behind(inHeaderLen)
	switch h.Opcode {
	case opReadlink:
		target, st := raw.Readlink(q.cancel, h)
		if st == gofuse.OK && len(target) > syscall.PathMax {
			return gofuse.Status(syscall.ENAMETOOLONG)
		}
		q.take(copy(q.room(len(target)), target))
		return st
	case opLookup:
		if name, ok := q.name(); ok {
			return raw.Lookup(q.cancel, h, name, output[gofuse.EntryOut](q))
		}
	case opUnlink, opRmdir:
		if name, ok := q.name(); ok {
			if h.Opcode == opUnlink {
				return raw.Unlink(q.cancel, h, name)
			}
			return raw.Rmdir(q.cancel, h, name)
		}
	case opSymlink:
		name, ok1 := q.name()
		target, ok2 := q.name()
		if ok1 && ok2 {
			return raw.Symlink(q.cancel, h, target, name, output[gofuse.EntryOut](q))
		}
	case opMknod:
		if in := input[gofuse.MknodIn](q); in != nil {
			if name, ok := q.name(); ok {
				return raw.Mknod(q.cancel, in, name, output[gofuse.EntryOut](q))
			}
		}
	case opMkdir:
		if in := input[gofuse.MkdirIn](q); in != nil {
			if name, ok := q.name(); ok {
				return raw.Mkdir(q.cancel, in, name, output[gofuse.EntryOut](q))
			}
		}
	case opLink:
		if in := input[gofuse.LinkIn](q); in != nil {
			if name, ok := q.name(); ok {
				return raw.Link(q.cancel, in, name, output[gofuse.EntryOut](q))
			}
		}
	case opRename, opRename2:
		in := input[gofuse.RenameIn](q)
		if h.Opcode == opRename { // without flags
			in = short[gofuse.RenameIn](q, inHeaderLen+8)
		}
		if in != nil {
			from, ok1 := q.name()
			to, ok2 := q.name()
			if ok1 && ok2 {
				return raw.Rename(q.cancel, in, from, to)
			}
		}
	}
	return bad
}

func (c *conn) dispatchXattr(q *request) gofuse.Status {
	raw, h := c.raw, q.h
	switch h.Opcode {
	case opSetxattr:
		if in := short[gofuse.SetXAttrIn](q, inHeaderLen+8); in != nil { // CAP_SETXATTR_EXT is for ACLs
			if name, ok := q.name(); ok && len(q.rest) >= int(in.Size) {
				return raw.SetXAttr(q.cancel, in, name, q.rest[:in.Size])
			}
		}
	case opRemovexattr:
		q.rest = q.behind(inHeaderLen)
		if name, ok := q.name(); ok {
			return raw.RemoveXAttr(q.cancel, h, name)
		}
	case opGetxattr, opListxattr:
		in := input[gofuse.GetXAttrIn](q)
		if in == nil {
			break
		}
		size := int(in.Size)
		var out *gofuse.GetXAttrOut
		var dest []byte
		if size == 0 { // only the length is asked for
			out = output[gofuse.GetXAttrOut](q)
		} else if dest = q.room(size); dest == nil {
			return gofuse.EIO
		}
		var n uint32
		var st gofuse.Status
		if h.Opcode == opListxattr {
			n, st = raw.ListXAttr(q.cancel, h, dest)
		} else if name, ok := q.name(); ok {
			n, st = raw.GetXAttr(q.cancel, h, name, dest)
		} else {
			break
		}
		if out != nil {
			out.Size = n
			if st == gofuse.ERANGE {
				st = gofuse.OK
			}
		} else if st == gofuse.OK {
			q.take(int(n))
		}
		return st
	}
	return gofuse.EINVAL
}

func (c *conn) dispatchLock(q *request) gofuse.Status {
	in := input[gofuse.LkIn](q)
	switch {
	case in == nil:
		return gofuse.EINVAL
	case q.h.Opcode == opGetlk:
		return c.raw.GetLk(q.cancel, in, output[gofuse.LkOut](q))
	case q.h.Opcode == opSetlk:
		return c.raw.SetLk(q.cancel, in)
	case c.n.Load() > maxWorkers-maxBusy, c.rings != nil && c.rings.full():
		// One more waiter could leave nobody to read the request that ends the wait.
		return gofuse.Status(syscall.ENOLCK)
	}
	return c.raw.SetLkw(q.cancel, in)
}

func (c *conn) doRead(q *request) gofuse.Status {
	in := input[gofuse.ReadIn](q)
	if in == nil {
		return gofuse.EINVAL
	}
	room := q.room(int(in.Size))
	if room == nil {
		return gofuse.EIO
	}
	res, st := c.raw.Read(q.cancel, in, room)
	if st != gofuse.OK || res == nil {
		return st
	}
	data, st := res.Bytes(room)
	if len(data) > len(room) {
		data = data[:len(room)]
	}
	if len(data) > 0 && unsafe.SliceData(data) != unsafe.SliceData(room) {
		copy(room, data)
	}
	q.take(len(data))
	res.Done()
	return st
}

func (c *conn) doReaddir(q *request) gofuse.Status {
	in := input[gofuse.ReadIn](q)
	if in == nil {
		return gofuse.EINVAL
	}
	room := q.room(int(in.Size))
	if room == nil {
		return gofuse.EIO
	}
	list := gofuse.NewDirEntryList(room, in.Offset)
	var st gofuse.Status
	if q.h.Opcode == opReaddir {
		st = c.raw.ReadDir(q.cancel, in, list)
	} else {
		st = c.raw.ReadDirPlus(q.cancel, in, list)
	}
	q.take(len(list.Bytes()))
	return st
}

// doBatchForget reads pairs of node id and count behind a header, a count and padding.
func (c *conn) doBatchForget(q *request) {
	const head, pair = inHeaderLen + 8, 16
	if len(q.in) < head {
		return
	}
	n, list := int(binary.NativeEndian.Uint32(q.in[inHeaderLen:])), q.in[head:]
	for ; n > 0 && len(list) >= pair; n, list = n-1, list[pair:] {
		c.raw.Forget(binary.NativeEndian.Uint64(list), binary.NativeEndian.Uint64(list[8:]))
	}
}
