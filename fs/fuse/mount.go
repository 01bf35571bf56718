package fuse

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"wsfs/fs"
	"wsfs/store"
)

// Mount is a live workspace on a directory. It implements fs.Observer.
type Mount struct {
	point     string
	source    string
	minor     uint32 // of the connection, 0 if unknown
	opts      Options
	log       *slog.Logger
	transport transport
	notifier  *notifier
	onEnd     func()
	began     time.Time

	done chan struct{}
	err  error // written before done is closed
	// unmounting keeps Unmount and Shutdown from running beside each other.
	unmounting sync.Mutex
}

// shutdownWait is how long Shutdown lets the users of a mount finish before it cuts them off.
const shutdownWait = 2 * time.Second

// New mounts f on the directory point and serves it until it is unmounted by whomever. It returns when the kernel uses
// the mount. Close f only after Wait.
func New(ctx context.Context, f *fs.FS, point string, o Options) (*Mount, error) {
	o = o.withDefaults()
	if o.Name == "" {
		o.Name = f.Workspace().Name
	}
	raw := newRaw(f, &o)
	m, err := mountRaw(ctx, raw, point, o, func(m *Mount) {
		raw.transport = m.transport
		raw.origin = f.Observe(m)
		m.onEnd = func() {
			f.Unobserve(raw.origin)
			raw.OnUnmount()
		}
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// mountRaw mounts any RawFileSystem; bind is called before the first request.
func mountRaw(ctx context.Context, raw gofuse.RawFileSystem, point string, o Options, bind func(*Mount)) (*Mount, error) {
	abs, err := checkMountpoint(point, o.NonEmpty)
	if err != nil {
		return nil, err
	}
	source := "wsfs:" + o.Name
	fd, err := mountDevice(ctx, abs, &o, source)
	if err != nil {
		return nil, err
	}
	m := &Mount{point: abs, source: source, opts: o, log: o.Log.With("mount", abs), done: make(chan struct{}), began: time.Now()}
	fail := func(err error) (*Mount, error) {
		_ = unmountPath(ctx, abs, &o, true)
		return nil, err
	}
	// Before serving: afterwards the mount could be moved or gone.
	if e, ok, err := mountAt(abs); err == nil && ok && e.Source == source {
		m.minor = e.Minor
	}
	m.notifier = &notifier{write: func(msg []byte) error { return m.transport.notify(msg) }}
	bindOnce := func(t transport) {
		m.transport = t
		if bind != nil {
			bind(m)
		}
	}
	ready := make(chan struct{})
	switch o.Transport {
	case TransportOwn:
		connOpts := o
		connOpts.Log = m.log
		c, err := newConn(fd, raw, &connOpts)
		if err != nil {
			_ = unix.Close(fd)
			return fail(err)
		}
		c.onInit = func() { close(ready) }
		bindOnce(c)
	case TransportStock:
		if err := newStock(fd, raw, &o, bindOnce); err != nil {
			return fail(fmt.Errorf("mount on %s: %w", abs, err))
		}
		close(ready)
	default:
		_ = unix.Close(fd)
		return fail(fmt.Errorf("mount on %s: %w: unknown transport %q (own or stock)", abs, syscall.EINVAL, o.Transport))
	}
	go m.run()
	select {
	case <-ready:
	case <-m.done:
		return fail(fmt.Errorf("mount on %s: the kernel ended the connection: %w", abs, errors.Join(m.err, syscall.ENOTCONN)))
	case <-ctx.Done():
		m.transport.stop()
		return fail(fmt.Errorf("mount on %s: %w", abs, ctx.Err()))
	}
	m.setReadAhead()
	return m, nil
}

// run serves the mount; everything that ends with it ends here.
func (m *Mount) run() {
	err := m.transport.serve()
	if m.onEnd != nil {
		m.onEnd()
	}
	m.notifier.close()
	m.err = errors.Join(err, m.transport.close())
	if m.err != nil {
		m.log.Error("mount ended", "err", m.err)
	}
	m.clear()
	close(m.done)
}

// clear removes the dead mount that an aborted or broken connection leaves: programs would only get ENOTCONN from it.
func (m *Mount) clear() {
	if !m.attached() {
		return
	}
	if err := unmountPath(context.Background(), m.point, &m.opts, true); err != nil {
		m.log.Warn("a dead mount is left", "err", err)
	}
}

// attached reports whether the mountpoint still shows this mount, and not another one or none.
func (m *Mount) attached() bool {
	e, ok, err := mountAt(m.point)
	return err == nil && ok && m.minor != 0 && e.Minor == m.minor && e.Source == m.source
}

// setReadAhead lets the kernel read further ahead than the 128 KiB it starts with. Without the right to, nothing
// happens; it only makes long reads slower.
func (m *Mount) setReadAhead() {
	if m.minor == 0 || m.opts.ReadAhead <= 0 {
		return
	}
	path := "/sys/class/bdi/0:" + strconv.FormatUint(uint64(m.minor), 10) + "/read_ahead_kb"
	if err := os.WriteFile(path, []byte(strconv.Itoa(m.opts.ReadAhead>>10)), 0); err != nil {
		m.log.Debug("read-ahead stays at the kernel's default", "err", err)
	}
}

// Point is the absolute path of the mountpoint.
func (m *Mount) Point() string { return m.point }

// Source is what mount(8) shows in the first column: "wsfs:" and a name.
func (m *Mount) Source() string { return m.source }

// Done is closed when the mount has ended: unmounted, aborted, or broken.
func (m *Mount) Done() <-chan struct{} { return m.done }

// Wait blocks until the mount has ended; the error says why if it was not unmounted.
func (m *Mount) Wait() error {
	<-m.done
	return m.err
}

// Stats is a snapshot of the mount's counters.
func (m *Mount) Stats() Stats {
	var s Stats
	m.transport.stats(&s)
	s.Notified, s.NotifyErrors = m.notifier.sent.Load(), m.notifier.failed.Load()
	return s
}

// Unmount takes the mount away and waits for its end; EBUSY if somebody uses it. With lazy it disappears from the tree
// at once and is served on until its last user is gone, which Wait waits for.
func (m *Mount) Unmount(ctx context.Context, lazy bool) error {
	m.unmounting.Lock()
	defer m.unmounting.Unlock()
	if m.ended() {
		return nil
	}
	if err := unmountPath(ctx, m.point, &m.opts, lazy); err != nil {
		if m.ended() { // somebody else was faster
			return nil
		}
		return err
	}
	if lazy {
		return nil
	}
	select {
	case <-m.done:
		return m.err
	case <-time.After(shutdownWait):
		// Another mount namespace holds a copy; it is served until that goes away.
		return fmt.Errorf("unmount %s: %w: it is gone here, but a copy of it lives in another mount namespace", m.point, syscall.EBUSY)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Shutdown ends the mount for sure: it unmounts, gives users two seconds, and then takes it away and fails whatever
// they still do with ENOTCONN. What was acknowledged to them is safe all the same.
func (m *Mount) Shutdown(ctx context.Context) error {
	m.unmounting.Lock()
	defer m.unmounting.Unlock()
	limit := time.NewTimer(shutdownWait)
	defer limit.Stop()
	gone := false
	for !m.ended() {
		if !gone {
			err := unmountPath(ctx, m.point, &m.opts, false)
			gone = err == nil || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOENT)
		}
		select {
		case <-m.done:
			return m.err
		case <-time.After(50 * time.Millisecond):
			continue
		case <-ctx.Done():
		case <-limit.C:
		}
		break
	}
	if m.ended() {
		return m.err
	}
	m.log.Warn("mount is busy: its users are cut off")
	return m.abort()
}

// Abort ends the mount at once, whoever uses it: whatever they do there fails with ENOTCONN.
func (m *Mount) Abort() error {
	m.unmounting.Lock()
	defer m.unmounting.Unlock()
	return m.abort()
}

// abort has three ways to end the connection, since each is missing somewhere: /sys/fs/fuse/connections (fusectl not
// mounted, in most containers), umount -f (root, while the mount is in our tree), and closing the descriptor, which our
// own transport does when asked to stop.
func (m *Mount) abort() error {
	err := error(syscall.ENOENT)
	if m.minor != 0 {
		err = abortConnection(m.minor)
	}
	if err != nil && m.attached() {
		err = errors.Join(err, forceUnmount(m.point))
	}
	m.transport.stop()
	select {
	case <-m.done:
		return m.err
	case <-time.After(shutdownWait):
		return fmt.Errorf("end the mount on %s: %w: a handler does not return, or the connection could not be ended: %w",
			m.point, syscall.EBUSY, err)
	}
}

func (m *Mount) ended() bool {
	select {
	case <-m.done:
		return true
	default:
		return false
	}
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
