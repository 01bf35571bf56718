package fstest

import (
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

type agentOp func(q request) ([]int64, []string, error)

// agentOps lists what an agent can do. N and S are the request's numbers and strings, in the order of the system call.
func agentOps() map[string]agentOp {
	none := func(err error) ([]int64, []string, error) { return nil, nil, err }
	num := func(n int, err error) ([]int64, []string, error) { return []int64{int64(n)}, nil, err }
	return map[string]agentOp{
		"whoami": func(request) ([]int64, []string, error) { return []int64{int64(unix.Gettid())}, nil, nil },
		"become": func(q request) ([]int64, []string, error) { return none(become(q.N)) },
		"open": func(q request) ([]int64, []string, error) {
			return num(unix.Open(q.S[0], int(q.N[0]), uint32(q.N[1])))
		},
		"close": func(q request) ([]int64, []string, error) { return none(unix.Close(int(q.N[0]))) },
		"dup":   func(q request) ([]int64, []string, error) { return num(unix.Dup(int(q.N[0]))) },
		"write": func(q request) ([]int64, []string, error) { return num(unix.Write(int(q.N[0]), []byte(q.S[0]))) },
		"pwrite": func(q request) ([]int64, []string, error) {
			return num(unix.Pwrite(int(q.N[0]), []byte(q.S[0]), q.N[1]))
		},
		"pread":      agentPread,
		"pwritepage": agentPwritePage,
		"fallocate": func(q request) ([]int64, []string, error) {
			return none(unix.Fallocate(int(q.N[0]), uint32(q.N[1]), q.N[2], q.N[3]))
		},
		"copyrange": func(q request) ([]int64, []string, error) {
			return num(unix.CopyFileRange(int(q.N[0]), nil, int(q.N[1]), nil, int(q.N[2]), 0))
		},
		"ftruncate": func(q request) ([]int64, []string, error) { return none(unix.Ftruncate(int(q.N[0]), q.N[1])) },
		"truncate":  func(q request) ([]int64, []string, error) { return none(unix.Truncate(q.S[0], q.N[0])) },
		"mkdir":     func(q request) ([]int64, []string, error) { return none(unix.Mkdir(q.S[0], uint32(q.N[0]))) },
		"mknod": func(q request) ([]int64, []string, error) {
			return none(unix.Mknod(q.S[0], uint32(q.N[0]), int(q.N[1])))
		},
		"rmdir":   func(q request) ([]int64, []string, error) { return none(unix.Rmdir(q.S[0])) },
		"unlink":  func(q request) ([]int64, []string, error) { return none(unix.Unlink(q.S[0])) },
		"rename":  func(q request) ([]int64, []string, error) { return none(unix.Rename(q.S[0], q.S[1])) },
		"link":    func(q request) ([]int64, []string, error) { return none(unix.Link(q.S[0], q.S[1])) },
		"symlink": func(q request) ([]int64, []string, error) { return none(unix.Symlink(q.S[0], q.S[1])) },
		"chmod":   func(q request) ([]int64, []string, error) { return none(unix.Chmod(q.S[0], uint32(q.N[0]))) },
		"chown":   func(q request) ([]int64, []string, error) { return none(unix.Lchown(q.S[0], int(q.N[0]), int(q.N[1]))) },
		"access":  func(q request) ([]int64, []string, error) { return none(unix.Access(q.S[0], uint32(q.N[0]))) },
		"chdir":   func(q request) ([]int64, []string, error) { return none(unix.Chdir(q.S[0])) },
		"umask":   func(q request) ([]int64, []string, error) { return num(unix.Umask(int(q.N[0])), nil) },
		"utimens": agentUtimens,
		"setxattr": func(q request) ([]int64, []string, error) {
			return none(unix.Lsetxattr(q.S[0], q.S[1], []byte(q.S[2]), 0))
		},
		"getxattr": func(q request) ([]int64, []string, error) {
			return num(unix.Lgetxattr(q.S[0], q.S[1], make([]byte, 100)))
		},
		"listxattr": func(q request) ([]int64, []string, error) {
			return num(unix.Llistxattr(q.S[0], make([]byte, 1000)))
		},
		"removexattr": func(q request) ([]int64, []string, error) { return none(unix.Lremovexattr(q.S[0], q.S[1])) },
		"readlink":    func(q request) ([]int64, []string, error) { return num(unix.Readlink(q.S[0], make([]byte, 100))) },
		"renameat2": func(q request) ([]int64, []string, error) {
			return none(unix.Renameat2(unix.AT_FDCWD, q.S[0], unix.AT_FDCWD, q.S[1], uint(q.N[0])))
		},
		"fchmod": func(q request) ([]int64, []string, error) { return none(unix.Fchmod(int(q.N[0]), uint32(q.N[1]))) },
		"watch":  agentWatch,
		"exec":   agentExec,
		"getcwd": func(request) ([]int64, []string, error) {
			buf := make([]byte, unix.PathMax)
			n, err := unix.Getcwd(buf)
			if err != nil {
				return nil, nil, err
			}
			return nil, []string{string(buf[:n-1])}, nil
		},
		"list":  agentList,
		"stat":  agentStat,
		"flock": func(q request) ([]int64, []string, error) { return none(unix.Flock(int(q.N[0]), int(q.N[1]))) },
		"lock":  agentLock,
		// norestart makes a signal interrupt a blocking call for good instead of restarting it.
		"norestart": func(q request) ([]int64, []string, error) { return none(noRestart(unix.Signal(q.N[0]))) },
		// spin appends its second string to a file opened with O_APPEND, N[0] times.
		"spin": agentAppendMany,
	}
}

func become(n []int64) error {
	groups := make([]int, 0, len(n))
	for _, g := range n[2:] {
		groups = append(groups, int(g))
	}
	if err := syscall.Setgroups(groups); err != nil {
		return err
	}
	if err := syscall.Setresgid(int(n[1]), int(n[1]), int(n[1])); err != nil {
		return err
	}
	return syscall.Setresuid(int(n[0]), int(n[0]), int(n[0]))
}

func agentPread(q request) ([]int64, []string, error) {
	buf := make([]byte, q.N[1])
	n, err := unix.Pread(int(q.N[0]), buf, q.N[2])
	if err != nil {
		return nil, nil, err
	}
	return []int64{int64(n)}, []string{string(buf[:n])}, nil
}

// agentPwritePage writes 4096 bytes from a place in memory that O_DIRECT takes.
func agentPwritePage(q request) ([]int64, []string, error) {
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = unix.Munmap(page) }()
	n, err := unix.Pwrite(int(q.N[0]), page, q.N[1])
	return []int64{int64(n)}, nil, err
}

func agentUtimens(q request) ([]int64, []string, error) {
	if len(q.N) == 0 {
		return nil, nil, unix.UtimesNanoAt(unix.AT_FDCWD, q.S[0], nil, 0)
	}
	return nil, nil, unix.UtimesNanoAt(unix.AT_FDCWD, q.S[0], []unix.Timespec{
		{Sec: q.N[0], Nsec: q.N[1]}, {Sec: q.N[2], Nsec: q.N[3]},
	}, 0)
}

func agentList(q request) ([]int64, []string, error) {
	f, err := os.Open(q.S[0])
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	return nil, names, err
}

func agentStat(q request) ([]int64, []string, error) {
	var st unix.Stat_t
	err := unix.Lstat(q.S[0], &st)
	return []int64{int64(st.Mode), int64(st.Uid), int64(st.Gid), st.Size, int64(st.Nlink), int64(st.Ino)}, nil, err
}

// agentLock is fcntl(fd, cmd, {type, SEEK_SET, start, len}); the reply is the structure afterwards: type, start, len, pid.
func agentLock(q request) ([]int64, []string, error) {
	lk := unix.Flock_t{Type: int16(q.N[2]), Whence: unix.SEEK_SET, Start: q.N[3], Len: q.N[4]}
	// unix.FcntlFlock takes care of nothing but the number of the call.
	err := unix.FcntlFlock(uintptr(q.N[0]), int(q.N[1]), &lk)
	return []int64{int64(lk.Type), lk.Start, lk.Len, int64(lk.Pid)}, nil, err
}

func agentAppendMany(q request) ([]int64, []string, error) {
	fd, err := unix.Open(q.S[0], unix.O_WRONLY|unix.O_APPEND|unix.O_CREAT|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, nil, err
	}
	defer unix.Close(fd)
	for i := int64(0); i < q.N[0]; i++ {
		line := []byte(q.S[1] + itoa(i) + "\n")
		n, err := unix.Write(fd, line)
		if err != nil {
			return nil, nil, err
		}
		if n != len(line) {
			return nil, nil, unix.EIO
		}
	}
	return nil, nil, nil
}

func itoa(i int64) string {
	digits := []byte("00000000")
	for k := len(digits) - 1; i > 0 && k >= 0; k-- {
		digits[k] = byte('0' + i%10)
		i /= 10
	}
	return string(digits)
}

// noRestart takes SA_RESTART away from the Go runtime's handler of a signal.
func noRestart(sig unix.Signal) error {
	var act struct {
		handler, flags, restorer, mask uintptr
	}
	const size = 8 // of the kernel's signal set
	if _, _, e := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), 0, uintptr(unsafe.Pointer(&act)), size, 0, 0); e != 0 {
		return e
	}
	const saRestart = 0x10000000
	act.flags &^= saRestart
	if _, _, e := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&act)), 0, size, 0, 0); e != 0 {
		return e
	}
	return nil
}

// agentWatch asks for events of a path, which takes permission to read it.
func agentWatch(q request) ([]int64, []string, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		return nil, nil, err
	}
	defer unix.Close(fd)
	_, err = unix.InotifyAddWatch(fd, q.S[0], unix.IN_MODIFY)
	return nil, nil, err
}

// agentExec starts a program; what becomes of it is not asked.
func agentExec(q request) ([]int64, []string, error) {
	p, err := os.StartProcess(q.S[0], q.S, &os.ProcAttr{})
	if err != nil {
		return nil, nil, err
	}
	_, err = p.Wait()
	return nil, nil, err
}
