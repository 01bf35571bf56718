package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"wsfs/fs"
	"wsfs/internal/keep"
	"wsfs/store"
)

// Options of Open. Store and Driver are needed, the rest may be zero.
type Options struct {
	Store   string // directory, absolute and free of symbolic links
	Driver  store.Driver
	Log     *slog.Logger
	Now     func() time.Time
	Version string // of the program, for Status
	// Serve says that the API will be served on the store's socket; its path is written into the lock file.
	Serve bool
	// AutoExit ends the daemon when its last mount is gone.
	AutoExit bool
	// LockWait is how long to wait for a command that has the lock for a moment; a daemon is not waited for.
	LockWait time.Duration
	// EchoHelper is the program that tells watchers of a mount what an undo or a rollback changed (see fs/fuse); empty: they
	// are not told.
	EchoHelper []string
	// Keeper holds what outlives this daemon; nil: nothing does but the store.
	Keeper *keep.Client
	// Exit ends the process, when another program has taken its place. Set where Keeper is.
	Exit        func(code int)
	beforeReply func(op string) // for tests; see fuse.Options
	// crashPoint is called at the fault points, of what a kill might leave half done: tests end the daemon there.
	crashPoint func(point string)
	// For tests: how often the daemon looks whether there is something to collect, and for how long nothing must have changed then.
	collectEvery, collectIdle time.Duration
	// RuntimeDir holds the mounts of runs. It is made with mode 0700; "": no such mounts.
	RuntimeDir string
}

// Daemon is a store that is open for writing, with its live workspaces and mounts. Its methods may be called from any
// goroutine.
type Daemon struct {
	o       Options
	log     *slog.Logger
	st      *store.Store
	started time.Time
	handler http.Handler
	server  *http.Server
	errors  *errorLog
	names   names
	undos   undoLock
	pasts   pasts
	// How long trees of a mount beside what was mounted stay open although nobody looks at them.
	pastIdle, liveIdle time.Duration
	runs               runs
	hosts              hosts
	blames             blameTexts
	lag                lag
	leases             leases

	collecting sync.WaitGroup                   // collects by itself
	ledgers    map[store.WorkspaceID]*fs.Ledger // guarded by mu; of the daemon before, until their workspaces are opened

	stopOnce sync.Once
	stop     chan struct{} // closed when the daemon should end

	mu      sync.Mutex
	slots   map[store.WorkspaceID]*slot
	mounts  map[string]*mounted // by mountpoint
	askers  []*slot             // the last that callerAt was asked for; oldest first
	ending  bool                // no new mounts
	callers callers
	tried   bool // a mount was asked for since the start
}

// Open takes the store's lock, opens the store and replays its journal. A *store.LockedError says who has it.
func Open(ctx context.Context, o Options) (*Daemon, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	d := &Daemon{
		o: o, started: o.Now(), stop: make(chan struct{}),
		pastIdle: pastIdle, liveIdle: liveIdle, slots: map[store.WorkspaceID]*slot{}, mounts: map[string]*mounted{}, errors: newErrorLog(o.Log.Handler()),
	}
	d.log = slog.New(d.errors)
	so := store.Options{Log: d.log, Now: o.Now}
	if o.Serve {
		so.Socket = SocketPath(o.Store)
	}
	var err error
	for deadline := time.Now().Add(o.LockWait); ; {
		d.st, err = store.Open(ctx, o.Store, o.Driver, so)
		var locked *store.LockedError
		if !errors.As(err, &locked) || locked.Socket != "" || time.Now().After(deadline) {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err != nil {
		return nil, err
	}
	d.handler = d.routes()
	return d, nil
}

// at is a fault point.
func (d *Daemon) at(point string) {
	if d.o.crashPoint != nil {
		d.o.crashPoint(point)
	}
}

// Store is the open store.
func (d *Daemon) Store() *store.Store { return d.st }

// Handler serves the API.
func (d *Daemon) Handler() http.Handler { return d.handler }

// Listen clears what a killed daemon left behind, makes the socket, and serves the API in the background until Close.
func (d *Daemon) Listen(ctx context.Context) error {
	d.takeOver(ctx)
	if err := d.clearStale(ctx); err != nil {
		return err
	}
	if err := d.clearMarks(ctx); err != nil {
		return err
	}
	l, err := listen(d.o.Store, func(uid uint32) { d.log.Warn("another user was refused at the socket", "uid", uid) })
	if err != nil {
		return err
	}
	d.server = &http.Server{
		Handler:           d.handler,
		ConnContext:       withPeer,
		ConnState:         d.callers.state,
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          slog.NewLogLogger(d.log.Handler(), slog.LevelWarn),
	}
	d.collecting.Go(d.keepCollecting)
	go func() {
		if err := d.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			d.log.Error("serve the API", "error", err)
			d.Stop()
		}
	}()
	return nil
}

// Stop asks the daemon to end; Done tells whoever runs it.
func (d *Daemon) Stop() { d.stopOnce.Do(func() { close(d.stop) }) }

// Done is closed when the daemon should end: after Stop, or when its last mount is gone and AutoExit is set.
func (d *Daemon) Done() <-chan struct{} { return d.stop }

// Close unmounts everything, makes versions of what is dirty, applies what is queued, and gives up the lock. A mount
// that is still used after two seconds is cut off: its users get ENOTCONN.
func (d *Daemon) Close() error {
	d.mu.Lock()
	d.ending = true
	d.mu.Unlock()
	if d.o.Keeper != nil {
		d.tellKeeper(d.o.Keeper.Bye())
	}
	first := d.unmountAll(unmountPatience)
	if d.server != nil {
		if err := d.lastCalls(); err != nil {
			d.log.Warn("close the socket", "error", err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		if d.server.Shutdown(ctx) != nil {
			_ = d.server.Close() // somebody holds a request open; the store goes away under it
		}
		cancel()
	}
	d.Stop()
	d.collecting.Wait()
	d.closeSlots()
	if err := d.st.Close(); err != nil && first == nil {
		first = err
	}
	return first
}

// caller attributes a change that came over the API to whoever sent it.
func (d *Daemon) caller(ctx context.Context, s *slot) store.Attribution {
	pid, ok := ctx.Value(peerKey{}).(int)
	if !ok {
		pid = os.Getpid()
	}
	if pid <= 0 {
		return store.Attribution{}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	session, _ := ctx.Value(sessionKey{}).(string)
	return s.resolver(session).Resolve(uint32(pid), nil, ctx.Done())
}

// peerKey and sessionKey are the pid of whoever asks, and the session that it has if it names none.
type (
	peerKey    struct{}
	sessionKey struct{}
)

// withPeer puts the pid of the process at the other end of a socket into the context of its requests.
func withPeer(ctx context.Context, c net.Conn) context.Context {
	pid, err := peerPID(c)
	if err != nil {
		return ctx
	}
	return context.WithValue(ctx, peerKey{}, pid)
}

// errorLog passes records on and remembers the last error, for Status.
type errorLog struct {
	slog.Handler
	last *lastError
}

type lastError struct {
	mu    sync.Mutex
	text  string
	count int64
}

func newErrorLog(h slog.Handler) *errorLog { return &errorLog{h, &lastError{}} }

// Handle implements slog.Handler.
func (l *errorLog) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelError {
		text := r.Message
		r.Attrs(func(a slog.Attr) bool {
			text += fmt.Sprintf(" %s=%v", a.Key, a.Value)
			return true
		})
		l.last.mu.Lock()
		l.last.text = r.Time.UTC().Format(time.RFC3339) + " " + text
		l.last.count++
		l.last.mu.Unlock()
	}
	return l.Handler.Handle(ctx, r)
}

// Enabled implements slog.Handler: errors are counted even where nobody logs.
func (l *errorLog) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelError || l.Handler.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (l *errorLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &errorLog{l.Handler.WithAttrs(attrs), l.last}
}

// WithGroup implements slog.Handler.
func (l *errorLog) WithGroup(name string) slog.Handler {
	return &errorLog{l.Handler.WithGroup(name), l.last}
}

func (l *errorLog) get() (string, int64) {
	l.last.mu.Lock()
	defer l.last.mu.Unlock()
	return l.last.text, l.last.count
}
