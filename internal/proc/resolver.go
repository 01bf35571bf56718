package proc

import (
	"log/slog"
	"os"
	"sync"
	"time"

	"wsfs/store"
)

// Options say what a resolver works for. IDs must be set unless Sessions is; the zero value of the rest works.
type Options struct {
	IDs          IDs
	Workspace    store.WorkspaceID
	MountSession string           // the mount's session, "" none
	Sessions     *Sessions        // shared by the mounts of a workspace; nil: its own
	Registry     *Registry        // shared by all mounts; nil: nothing is registered
	Host         string           // completes names of automatic sessions; "": os.Hostname
	Root         string           // "": /proc
	Now          func() time.Time // for rows; nil: time.Now
	Log          *slog.Logger     // nil: none
	Deadline     time.Duration    // how long Resolve waits at most; 0: 2 s, since what is late on a busy machine is worth more than what never comes
	MaxFiles     int              // descriptors kept open; 0: 512
	MaxReaders   int              // goroutines that may be stuck in /proc at once; 0: 64
}

const (
	maxHops      = 256  // ancestors looked at
	maxForgotten = 4096 // images whose rows are remembered without a descriptor
	maxLeaders   = 1024
)

// Resolver answers who is calling. Safe for concurrent use; Close it when the mount is gone.
type Resolver struct {
	o        Options
	sessions *Sessions
	readers  chan struct{} // one token per running reader
	buffers  sync.Pool     // of *buffer

	// mu is held for memory only, never while anything is read. Order: mu, Sessions.mu.
	mu      sync.Mutex
	tasks   lru[int, *task] // by thread id; a process's entry is that of its first thread
	files   int             // descriptors owned by tasks and their images
	past    lru[processKey, *node]
	leaders lru[int, login] // the last leader seen per session id
	closed  bool
}

// New makes a resolver. It opens nothing yet.
func New(o Options) *Resolver {
	if o.Root == "" {
		o.Root = "/proc"
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Deadline == 0 {
		o.Deadline = 2 * time.Second
	}
	if o.MaxFiles == 0 {
		o.MaxFiles = 512
	}
	if o.MaxReaders == 0 {
		o.MaxReaders = 64
	}
	if o.Host == "" {
		o.Host, _ = os.Hostname() // without one, automatic sessions end in "@"
	}
	if o.Sessions == nil {
		o.Sessions = NewSessions(o.IDs, o.Workspace, o.Host, o.Now)
	}
	if o.IDs == nil {
		o.IDs = o.Sessions.ids
	}
	return &Resolver{o: o, sessions: o.Sessions, readers: make(chan struct{}, o.MaxReaders)}
}

func (r *Resolver) borrow() *buffer {
	if b, ok := r.buffers.Get().(*buffer); ok {
		return b
	}
	return new(buffer)
}

// giveBack wants no environment in b: findVariable clears what it used.
func (r *Resolver) giveBack(b *buffer) { r.buffers.Put(b) }

// Resolve says who thread tid is. For an image seen before it costs about 1 us and waits for nothing. Else it calls yield
// (if not nil, once) before it reads, and returns within Options.Deadline or when cancel closes, with what is known until
// then; see the package comment. The rows it returns are immutable and the same pointers for the same image.
func (r *Resolver) Resolve(tid uint32, yield func(), cancel <-chan struct{}) store.Attribution {
	if tid == 0 || tid > 1<<30 {
		return store.Attribution{Session: r.mountSession()}
	}
	limit := time.Time{}
	t := r.current(int(tid))
	if t == nil {
		if yield != nil {
			yield()
			yield = nil
		}
		limit = time.Now().Add(r.o.Deadline)
		if t = r.enter(int(tid)); t == nil {
			return store.Attribution{Session: r.mountSession()}
		}
	}
	if who, ok := r.settled(t.img); ok {
		return who
	}
	if limit.IsZero() {
		limit = time.Now().Add(r.o.Deadline)
	}
	r.await(t.img, limit, yield, cancel)
	return r.attribution(t.img)
}

// await waits for an image and those above it to be read.
func (r *Resolver) await(img *image, limit time.Time, yield func(), cancel <-chan struct{}) {
	for hops := 0; img != nil && hops < maxHops; img, hops = r.parentOf(img), hops+1 {
		select {
		case <-img.done:
			continue
		default:
		}
		left := min(time.Until(limit), time.Until(img.since.Add(r.o.Deadline)))
		if img.late.Load() || left <= 0 {
			return
		}
		if yield != nil {
			yield()
			yield = nil
		}
		timer := time.NewTimer(left)
		select {
		case <-img.done:
			timer.Stop()
		case <-timer.C:
			img.late.Store(true)
			r.o.Log.Warn("caller not known in time: its command line or environment could not be read yet",
				"pid", img.pid, "deadline", r.o.Deadline)
			return
		case <-cancel:
			timer.Stop()
			return
		}
	}
}

// Close closes every descriptor. Resolve goes on working, remembering nothing.
func (r *Resolver) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.evict(0)
	return nil
}
