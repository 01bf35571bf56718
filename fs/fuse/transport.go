package fuse

import (
	"context"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"

	"wsfs/fs"
)

// Transport names a way to carry requests between the kernel and a file system.
type Transport string

const (
	// TransportOwn reads /dev/fuse with one hot reader that hands its role on before it would wait. The default.
	TransportOwn Transport = "own"
	// TransportUring takes requests over io_uring (Linux 6.14, with the fuse module's enable_uring), one queue for each
	// processor. It is TransportOwn where the kernel refuses.
	TransportUring Transport = "uring"
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
	// receipt is that of the request with this header, nil if nobody wants to know.
	receipt(h *gofuse.InHeader) *fs.Receipt
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
