package daemon

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

const socketName = "sock"

// maxSocketPath is what fits into a sockaddr_un on Linux.
const maxSocketPath = 107

// SocketPath is where the daemon of the store in dir answers.
func SocketPath(dir string) string { return filepath.Join(dir, socketName) }

// shortPath is a path to a socket in the store that fits into a socket address, however deep the store lies.
func shortPath(dir, name string) (path string, done func(), err error) {
	path = filepath.Join(dir, name)
	if len(path) <= maxSocketPath {
		return path, func() {}, nil
	}
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", nil, fmt.Errorf("open %s: %w", dir, err)
	}
	return "/proc/self/fd/" + strconv.Itoa(fd) + "/" + name, func() { _ = unix.Close(fd) }, nil
}

// listen makes the store's socket. The caller holds the store's lock, so a socket that is there was left by a daemon
// that is dead.
func listen(dir string, refused func(uid uint32)) (net.Listener, error) {
	if err := os.Remove(SocketPath(dir)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove the old socket: %w", err)
	}
	path, done, err := shortPath(dir, socketName)
	if err != nil {
		return nil, err
	}
	defer done()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", SocketPath(dir), err)
	}
	l.SetUnlinkOnClose(false) // Close of the daemon removes it, before the listener ends
	// The directory is 0700 as well, so there is no moment in which somebody else could connect.
	if err := os.Chmod(path, 0o600); err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("protect %s: %w", SocketPath(dir), err)
	}
	return ownOnly{l, refused}, nil
}

// dial connects to the store's daemon. errNoDaemon says that there is none.
func dial(dir string) (net.Conn, error) {
	path, done, err := shortPath(dir, socketName)
	if err != nil {
		return nil, err
	}
	defer done()
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOTDIR) {
		return nil, errNoDaemon
	}
	if err != nil {
		return nil, fmt.Errorf("connect to the daemon at %s: %w", SocketPath(dir), err)
	}
	return c, nil
}

var errNoDaemon = errors.New("no daemon serves this store")

// ownOnly accepts connections of the daemon's own user and of root, whatever the modes of socket and directory have become.
type ownOnly struct {
	*net.UnixListener
	refused func(uid uint32)
}

// Accept implements net.Listener.
func (l ownOnly) Accept() (net.Conn, error) {
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		peer, err := peerOf(c)
		if err == nil && mayAsk(peer.Uid, uint32(os.Geteuid())) {
			return c, nil
		}
		if _ = c.Close(); err == nil { // nothing was said
			l.refused(peer.Uid)
		}
	}
}

// mayAsk reports whether a daemon of user own does what user peer asks.
func mayAsk(peer, own uint32) bool { return peer == own || peer == 0 }

// peerPID is the process at the other end.
func peerPID(c net.Conn) (int, error) {
	cred, err := peerOf(c)
	if err != nil {
		return 0, err
	}
	return int(cred.Pid), nil
}

func peerOf(c net.Conn) (*unix.Ucred, error) {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return nil, errors.New("not a unix socket")
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return nil, err
	}
	var cred *unix.Ucred
	var cerr error
	if err := raw.Control(func(fd uintptr) {
		cred, cerr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return nil, err
	}
	return cred, cerr
}
