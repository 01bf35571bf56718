package fuse

import (
	"fmt"
	"log/slog"
	"syscall"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"wsfs/fs"
)

// stock runs the library's own server on a descriptor that we mounted. Every request has a goroutine of its own there,
// so yield has nothing to do.
type stock struct {
	srv *gofuse.Server
	fd  int // a second descriptor, for notifications and to know the connection by
}

// newStock answers INIT, and calls bind before anything else can come.
func newStock(fd int, raw gofuse.RawFileSystem, o *Options, bind func(transport)) error {
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("fuse: duplicate /dev/fuse: %w", err)
	}
	s := &stock{fd: dup}
	bind(s)
	// The library's name for "already mounted, here is the descriptor". It answers INIT in here.
	srv, err := gofuse.NewServer(raw, fmt.Sprintf("/dev/fd/%d", fd), &gofuse.MountOptions{
		MaxWrite: o.MaxWrite, MaxBackground: maxBackground, Name: subtype, EnableLocks: true, EnableSymlinkCaching: true,
		ExtraCapabilities: capabilities, DisabledCapabilities: ^uint64(capabilities), DisableSplice: true,
		Logger: slog.NewLogLogger(o.Log.Handler(), slog.LevelWarn),
	})
	if err != nil {
		_ = unix.Close(dup)
		return fmt.Errorf("fuse: start the stock server: %w", err)
	}
	s.srv = srv
	return nil
}

func (s *stock) serve() error {
	s.srv.Serve()
	return nil
}

func (s *stock) close() error { return unix.Close(s.fd) }

func (s *stock) receipt(*gofuse.InHeader) *fs.Receipt { return nil }

func (s *stock) yield(*gofuse.InHeader) {}

func (s *stock) notify(msg []byte) error {
	for {
		_, err := unix.Write(s.fd, msg)
		if err != syscall.EINTR {
			return err
		}
	}
}

// stop cannot reach the library's readers; the mount is ended by aborting the connection.
func (s *stock) stop() {}

func (s *stock) stats(st *Stats) { st.Transport = TransportStock }
