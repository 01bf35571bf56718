package fuse

import (
	"context"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"
)

// Transport names a way to carry requests between the kernel and a file system.
type Transport string

const (
	// TransportOwn reads /dev/fuse with one hot reader that hands its role on before it would wait. The default.
	TransportOwn Transport = "own"
	// TransportStock is the server of the go-fuse library, for comparison.
	TransportStock Transport = "stock"
)

// transport carries requests from /dev/fuse to a gofuse.RawFileSystem and replies back. It owns the descriptor.
type transport interface {
	// serve answers requests until the connection ends: nil after an unmount or stop, else why reading failed. No
	// handler runs any more when it returns.
	serve() error
	// close closes the descriptor after serve, when nobody notifies any more. If the kernel did not end the connection,
	// that aborts it.
	close() error
	// yield gives the reader's role away if the request with this header holds it. Called on its goroutine.
	yield(h *gofuse.InHeader)
	// notify writes one message to the kernel. It waits for as long as the kernel does, so the caller holds nothing.
	notify(msg []byte) error
	// stop makes serve return although the kernel did not end the connection.
	stop()
	// stats adds what the transport counted to s.
	stats(s *Stats)
}

// syncer is what a RawFileSystem implements to be told of SYNCFS, which the library has no method for.
type syncer interface {
	SyncFS(ctx context.Context) gofuse.Status
}

// capabilities is what we ask the kernel for. What is left out, and why:
//   - AUTO_INVAL_DATA would drop pages that were just written, because their mtime is new. EXPLICIT_INVAL_DATA would keep
//     pages even when the size that we report is not the kernel's, and so show zeros behind the old end until our
//     notification arrives. With neither, a foreign size drops them, and everything else is notified.
//   - WRITEBACK_CACHE costs a SETATTR per written file and hides when bytes were written.
//   - NO_OPEN_SUPPORT and NO_OPENDIR_SUPPORT let the kernel leave out OPEN; PASSTHROUGH bypasses us; POSIX_ACL would need
//     access control lists.
const capabilities uint64 = gofuse.CAP_ASYNC_READ | gofuse.CAP_BIG_WRITES | gofuse.CAP_FILE_OPS | gofuse.CAP_MAX_PAGES |
	gofuse.CAP_PARALLEL_DIROPS | gofuse.CAP_READDIRPLUS | gofuse.CAP_READDIRPLUS_AUTO | gofuse.CAP_CACHE_SYMLINKS |
	gofuse.CAP_POSIX_LOCKS | gofuse.CAP_FLOCK_LOCKS | gofuse.CAP_ASYNC_DIO | gofuse.CAP_ABORT_ERROR |
	gofuse.CAP_ATOMIC_O_TRUNC | // else a truncating open costs one more SETATTR
	gofuse.CAP_HANDLE_KILLPRIV_V2 // else every write costs a GETXATTR

// maxBackground is how many asynchronous requests (read-ahead, RELEASE) the kernel sends before it holds others back.
const maxBackground = 64
