package fuse

import (
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"

	"wsfs/store"
)

// notifier tells the kernel what changed behind it. Its methods wait for as long as the kernel does (an entry's
// invalidation takes the directory's lock, which a request under way may hold), so they are called from goroutines
// that nobody waits for inside a request, with no lock held: package fs calls them from a worker of its own.
type notifier struct {
	write func(msg []byte) error

	// closing is taken for reading while a message is written and for writing before the descriptor is closed. An
	// aborted connection releases whatever a message waits for, so this ends.
	closing sync.RWMutex
	closed  bool // guarded by closing

	sent, failed atomic.Uint64
}

// send writes one notification: header, body, name. Not knowing the inode is the kernel's way of saying that there was
// nothing to forget.
func (n *notifier) send(code int32, body []byte, name string) error {
	n.closing.RLock()
	defer n.closing.RUnlock()
	if n.closed {
		return nil
	}
	size := outHeaderLen + len(body)
	if name != "" {
		size += len(name) + 1
	}
	msg := make([]byte, size)
	// In a notification the code stands where a reply has its error, and 0 where a reply has the request's id.
	*(*gofuse.OutHeader)(unsafe.Pointer(&msg[0])) = gofuse.OutHeader{Length: uint32(size), Status: code}
	copy(msg[outHeaderLen:], body)
	copy(msg[outHeaderLen+len(body):], name)
	err := n.write(msg)
	n.sent.Add(1)
	if err == nil || errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ENODEV) ||
		errors.Is(err, syscall.ENOTCONN) || errors.Is(err, syscall.ECONNABORTED) {
		return nil
	}
	n.failed.Add(1)
	return err
}

// close makes later messages do nothing.
func (n *notifier) close() {
	n.closing.Lock()
	n.closed = true
	n.closing.Unlock()
}

func bytesOf[T any](v *T) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v)) }

// inode drops attributes and all cached pages of an inode.
func (n *notifier) inode(ino store.Ino) error {
	m := gofuse.NotifyInvalInodeOut{Ino: nodeID(ino)}
	return n.send(-gofuse.NOTIFY_INVAL_INODE, bytesOf(&m), "")
}

// attributes drops the attributes of an inode and keeps its pages.
func (n *notifier) attributes(ino store.Ino) error {
	m := gofuse.NotifyInvalInodeOut{Ino: nodeID(ino), Off: -1}
	return n.send(-gofuse.NOTIFY_INVAL_INODE, bytesOf(&m), "")
}

// entry drops one name of a directory, present or absent.
func (n *notifier) entry(parent store.Ino, name string) error {
	m := gofuse.NotifyInvalEntryOut{Parent: nodeID(parent), NameLen: uint32(len(name))}
	return n.send(-gofuse.NOTIFY_INVAL_ENTRY, bytesOf(&m), name)
}

// deleted drops a name whose inode is gone, so that watchers of the inode hear of it.
func (n *notifier) deleted(parent, child store.Ino, name string) error {
	m := gofuse.NotifyInvalDeleteOut{Parent: nodeID(parent), Child: nodeID(child), NameLen: uint32(len(name))}
	return n.send(-gofuse.NOTIFY_DELETE, bytesOf(&m), name)
}

// epoch makes every name that the kernel knows be looked up afresh, in one message (Linux 6.16; older: EINVAL).
func (n *notifier) epoch() error {
	return n.send(-gofuse.NOTIFY_INC_EPOCH, nil, "")
}

// EntryChanged tells the kernel to look name up again. See notifier for who may call it.
func (m *Mount) EntryChanged(parent store.Ino, name string) {
	m.notified("entry", m.notifier.entry(parent, name))
}

// InodeChanged tells the kernel to ask for attributes and content again.
func (m *Mount) InodeChanged(ino store.Ino) { m.notified("inode", m.notifier.inode(ino)) }

// EntryDeleted tells the kernel that name is gone for good, so that watchers of the inode are woken.
func (m *Mount) EntryDeleted(parent, child store.Ino, name string) {
	m.notified("delete", m.notifier.deleted(parent, child, name))
}

// AllNamesChanged makes the kernel look every name up again, as after a rollback. It reports whether the kernel can
// (Linux 6.16); otherwise the caller tells name by name. Attributes and content are told per inode in any case.
func (m *Mount) AllNamesChanged() bool {
	err := m.notifier.epoch()
	if errors.Is(err, syscall.EINVAL) {
		return false
	}
	m.notified("epoch", err)
	return err == nil
}

func (m *Mount) notified(what string, err error) {
	if err != nil {
		m.log.Warn("the kernel refused a notification", "what", what, "err", err)
	}
}
