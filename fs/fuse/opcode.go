package fuse

import "strconv"

// Opcodes of linux/fuse.h that the transport itself looks at.
const (
	opRead            = 15
	opWrite           = 16
	opSetxattr        = 21
	opGetxattr        = 22
	opListxattr       = 23
	opInit            = 26
	opReaddir         = 28
	opSetlkw          = 33
	opForget          = 2
	opInterrupt       = 36
	opBmap            = 37
	opDestroy         = 38
	opIoctl           = 39
	opPoll            = 40
	opNotifyReply     = 41
	opBatchForget     = 42
	opReaddirplus     = 44
	opSyncfs          = 50
	opStatx           = 52
	opCopyFileRange64 = 53
)

// opName is the opcode's name in linux/fuse.h in lower case.
func opName(op uint32) string {
	names := [...]string{
		1: "lookup", 2: "forget", 3: "getattr", 4: "setattr", 5: "readlink", 6: "symlink", 8: "mknod", 9: "mkdir",
		10: "unlink", 11: "rmdir", 12: "rename", 13: "link", 14: "open", 15: "read", 16: "write", 17: "statfs",
		18: "release", 20: "fsync", 21: "setxattr", 22: "getxattr", 23: "listxattr", 24: "removexattr", 25: "flush",
		26: "init", 27: "opendir", 28: "readdir", 29: "releasedir", 30: "fsyncdir", 31: "getlk", 32: "setlk",
		33: "setlkw", 34: "access", 35: "create", 36: "interrupt", 37: "bmap", 38: "destroy", 39: "ioctl", 40: "poll",
		41: "notify_reply", 42: "batch_forget", 43: "fallocate", 44: "readdirplus", 45: "rename2", 46: "lseek",
		47: "copy_file_range", 48: "setupmapping", 49: "removemapping", 50: "syncfs", 51: "tmpfile", 52: "statx",
		53: "copy_file_range_64",
	}
	if int(op) < len(names) && names[op] != "" {
		return names[op]
	}
	return "op" + strconv.Itoa(int(op))
}
