package fuse

import "strconv"

// Opcodes of linux/fuse.h.
const (
	opLookup          = 1
	opForget          = 2 // no reply
	opGetattr         = 3
	opSetattr         = 4
	opReadlink        = 5
	opSymlink         = 6
	opMknod           = 8
	opMkdir           = 9
	opUnlink          = 10
	opRmdir           = 11
	opRename          = 12
	opLink            = 13
	opOpen            = 14
	opRead            = 15
	opWrite           = 16
	opStatfs          = 17
	opRelease         = 18
	opFsync           = 20
	opSetxattr        = 21
	opGetxattr        = 22
	opListxattr       = 23
	opRemovexattr     = 24
	opFlush           = 25
	opInit            = 26
	opOpendir         = 27
	opReaddir         = 28
	opReleasedir      = 29
	opFsyncdir        = 30
	opGetlk           = 31
	opSetlk           = 32
	opSetlkw          = 33
	opAccess          = 34
	opCreate          = 35
	opInterrupt       = 36 // no reply
	opBmap            = 37
	opDestroy         = 38
	opIoctl           = 39
	opPoll            = 40
	opNotifyReply     = 41 // no reply
	opBatchForget     = 42 // no reply
	opFallocate       = 43
	opReaddirplus     = 44
	opRename2         = 45
	opLseek           = 46
	opCopyFileRange   = 47
	opSyncfs          = 50
	opTmpfile         = 51
	opStatx           = 52
	opCopyFileRange64 = 53
)

// opName is the opcode's name in linux/fuse.h in lower case.
func opName(op uint32) string {
	names := [...]string{
		opLookup: "lookup", opForget: "forget", opGetattr: "getattr", opSetattr: "setattr", opReadlink: "readlink",
		opSymlink: "symlink", opMknod: "mknod", opMkdir: "mkdir", opUnlink: "unlink", opRmdir: "rmdir",
		opRename: "rename", opLink: "link", opOpen: "open", opRead: "read", opWrite: "write", opStatfs: "statfs",
		opRelease: "release", opFsync: "fsync", opSetxattr: "setxattr", opGetxattr: "getxattr",
		opListxattr: "listxattr", opRemovexattr: "removexattr", opFlush: "flush", opInit: "init",
		opOpendir: "opendir", opReaddir: "readdir", opReleasedir: "releasedir", opFsyncdir: "fsyncdir",
		opGetlk: "getlk", opSetlk: "setlk", opSetlkw: "setlkw", opAccess: "access", opCreate: "create",
		opInterrupt: "interrupt", opBmap: "bmap", opDestroy: "destroy", opIoctl: "ioctl", opPoll: "poll",
		opNotifyReply: "notify_reply", opBatchForget: "batch_forget", opFallocate: "fallocate",
		opReaddirplus: "readdirplus", opRename2: "rename2", opLseek: "lseek", opCopyFileRange: "copy_file_range",
		opSyncfs: "syncfs", opTmpfile: "tmpfile", opStatx: "statx", opCopyFileRange64: "copy_file_range_64",
	}
	if int(op) < len(names) && names[op] != "" {
		return names[op]
	}
	return "op" + strconv.FormatUint(uint64(op), 10)
}

// wantsReply is false for the messages that must not be answered. INTERRUPT may be, but nobody looks.
func wantsReply(op uint32) bool {
	switch op {
	case opForget, opBatchForget, opNotifyReply, opInterrupt:
		return false
	}
	return true
}
