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

	gofuse "github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"wsfs/fs"
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
	fs        *fs.FS  // of view 0; nil in tests of the transport alone, and in a mount of all workspaces
	echoes    *echoFS // nil in tests of the transport alone
	views     *views  // nil if only one tree can be seen
	spare     spare
	onEnd     func()

	done chan struct{}
	err  error // written before done is closed
	// unmounting keeps Unmount and Shutdown from running beside each other.
	unmounting sync.Mutex
}

// New mounts f on the directory point and serves it until it is unmounted by whomever. It returns when the kernel uses
// the mount. Close f only after Wait.
func New(ctx context.Context, f *fs.FS, point string, o Options) (*Mount, error) {
	o = o.withDefaults()
	if o.Name == "" {
		o.Name = f.Workspace().Name
	}
	raw := newRaw(f, &o)
	top := gofuse.RawFileSystem(raw)
	var v *views
	if o.Control != nil {
		v = newViews(raw, &o)
		v.ctl = newRawControl(v, nil, o.Control, viewSize)
		raw.control, top = v.ctl, v
	}
	echoes := newEchoFS(top)
	return mountRaw(ctx, echoes, point, o, func(m *Mount) {
		m.fs, m.echoes = f, echoes
		raw.transport = m.transport
		if v != nil {
			v.bind(m)
		}
		raw.origin = f.Observe(m)
		if c, ok := m.transport.(*conn); ok && o.Kept != nil {
			raw.mount, c.redo = o.Kept.Mount, raw.redo
			raw.again(o.Kept)
			raw.reopen()
			if v != nil {
				c.redo = v.redo
				v.takeLeft(o.Kept)
				v.ctl.again(o.Kept)
				v.resume(o.Back)
			}
		}
		m.onEnd = func() {
			f.Unobserve(raw.origin)
			top.OnUnmount()
		}
	})
}

// NewAll mounts a generated directory, whose names lead into workspaces, on the directory point.
func NewAll(ctx context.Context, top fs.Control, point string, o Options) (*Mount, error) {
	o = o.withDefaults()
	v := newViews(nil, &o)
	home := newRawControl(v, nil, top, 0)
	v.home = home
	echoes := newEchoFS(v)
	echoes.referred = v.referred
	return mountRaw(ctx, echoes, point, o, func(m *Mount) {
		m.echoes = echoes
		v.bind(m, home)
		if c, ok := m.transport.(*conn); ok && o.Kept != nil {
			c.redo = v.redo
			v.takeLeft(o.Kept)
			home.again(o.Kept)
			v.resume(o.Back)
		}
		m.onEnd = v.OnUnmount
	})
}

// mountRaw mounts any RawFileSystem; bind is called before the first request.
func mountRaw(ctx context.Context, raw gofuse.RawFileSystem, point string, o Options, bind func(*Mount)) (*Mount, error) {
	source := "wsfs:" + o.Name
	abs, fd, resumed := point, -1, o.Kept != nil && o.Kept.Init != nil
	if resumed {
		fd = o.Kept.FD
	} else {
		var err error
		if abs, err = checkMountpoint(point, o.NonEmpty); err != nil {
			return nil, err
		}
		if fd, err = mountDevice(ctx, abs, &o, source); err != nil {
			return nil, err
		}
	}
	m := &Mount{point: abs, source: source, opts: o, log: o.Log.With("mount", abs), done: make(chan struct{})}
	fail := func(err error) (*Mount, error) {
		if !resumed {
			_ = unmountPath(ctx, abs, &o, true)
		}
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
	case TransportOwn, TransportUring:
		connOpts := o
		connOpts.Log = m.log
		c, err := newConn(fd, raw, &connOpts)
		if err != nil {
			_ = unix.Close(fd)
			return fail(err)
		}
		if o.Transport == TransportUring {
			if err := c.useRings(&o); err != nil {
				m.log.Debug("no FUSE over io_uring: requests come over /dev/fuse", "err", err)
			}
		}
		c.onInit = func() { close(ready) }
		bindOnce(c)
		if resumed {
			if err := c.resume(o.Kept.Init); err != nil {
				return fail(errors.Join(err, c.close()))
			}
			c.onInit()
			c.onInit = nil
		}
	case TransportStock:
		if err := newStock(fd, raw, &o, bindOnce); err != nil {
			return fail(fmt.Errorf("mount on %s: %w", abs, err))
		}
		close(ready)
	default:
		_ = unix.Close(fd)
		return fail(fmt.Errorf("mount on %s: %w: unknown transport %q (own, uring or stock)", abs, syscall.EINVAL, o.Transport))
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
	if resumed {
		m.AllNamesChanged() // this process has not counted what the kernel knows; it hears of it as names are used
	} else {
		m.setReadAhead()
	}
	return m, nil
}

// run serves the mount; everything that ends with it ends here.
func (m *Mount) run() {
	err := m.transport.serve()
	if m.onEnd != nil {
		m.onEnd()
	}
	m.notifier.close()
	if k := m.opts.Kept; k != nil && k.Release != nil {
		k.Release()
	}
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

func (m *Mount) ended() bool {
	select {
	case <-m.done:
		return true
	default:
		return false
	}
}
