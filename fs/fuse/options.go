package fuse

import (
	"log/slog"
	"sync/atomic"
	"time"

	"wsfs/fs"
	"wsfs/store"
)

// Options say how a workspace is mounted. The zero value mounts it for the calling user, writable.
type Options struct {
	// AllowOther lets users other than the one that mounted use the mount. A user who is not root needs
	// user_allow_other in /etc/fuse.conf for it.
	AllowOther bool
	ReadOnly   bool
	// Suid, Dev and Exec: a mount honours setuid bits and device nodes only if asked to, and runs programs unless NoExec.
	Suid, Dev, NoExec bool
	// NonEmpty allows a mountpoint that has files in it; they are hidden while the mount lasts.
	NonEmpty bool
	// Name follows "wsfs:" in the first column of mount(8); "" uses the workspace's name.
	Name string

	// Transport is TransportOwn if empty.
	Transport Transport
	// Poll is how long the reader looks for the next request before it blocks, while that pays; 0 means DefaultPoll,
	// negative never.
	Poll time.Duration
	// MaxWrite is the largest READ and WRITE in bytes; 0 means 1 MiB.
	MaxWrite int
	// ReadAhead is how far the kernel reads ahead, in bytes; 0 means MaxWrite. It takes effect only where we may write
	// /sys/class/bdi (root); elsewhere the kernel's own limit of 128 KiB holds.
	ReadAhead int

	// EntryTimeout, AttrTimeout and NegativeTimeout are how long the kernel believes a name, attributes, and the absence
	// of a name; 0 means DefaultTimeout. They can be long, because what changes behind the kernel is told to it.
	EntryTimeout, AttrTimeout, NegativeTimeout time.Duration

	// Control is what .wsfs shows at the root of the workspace; nil: there is no such name.
	Control fs.Control

	// DurableClose: every close and every other change waits until it would survive a power loss.
	DurableClose bool

	// Rules say what becomes of writes over what the writer has not seen; nil: texts are merged.
	Rules *fs.Rules `json:"-"`

	// Resolver attributes a caller to a session, a command and a process; nil leaves that unknown.
	Resolver Resolver
	// EchoHelper is the program, with its arguments, that calls RunEchoHelper on its standard input and output: by it
	// watchers (inotify) hear of what an undo or a rollback changed. Without one they hear nothing.
	EchoHelper []string
	// NoEcho tells the kernel only.
	NoEcho bool
	// Kept makes the mount outlive its process, if somebody else takes what Mount.Kept returns. Close it after the mount.
	Kept *Kept `json:"-"`
	// Again leads to a tree by what its Entrance said for it. A mount that goes on in this process needs it.
	Again func(what string) (*fs.Entrance, error) `json:"-"`
	// Back are views of a mount that goes on in which something is open: they are opened at once.
	Back []uint64 `json:"-"`
	// BeforeReply is called with the name of the opcode when a request was done and before it is answered: tests end the
	// process there. Nil: nobody is.
	BeforeReply func(op string) `json:"-"`
	Log         *slog.Logger
	// DevFuse and Fusermount are paths for tests and unusual systems; "" means /dev/fuse and a search of the usual places.
	DevFuse, Fusermount string

	sweepEvery  time.Duration  // for tests; 0 means the constant
	refuseRings bool           // for tests: the kernel is asked for what it refuses
	granted     *atomic.Uint64 // capabilities that the kernel agreed to; our own transport sets it
}

// can reports whether the kernel agreed to a capability.
func (o *Options) can(capability uint64) bool {
	return o.granted != nil && o.granted.Load()&capability != 0
}

const (
	// DefaultPoll is where the reader's time is lost and won: waking a halted processor costs about as much
	// (docs/benchmarks.md has the figures of 0, 20, 50 and 100 us).
	DefaultPoll = 50 * time.Microsecond
	// DefaultTimeout of kernel caches.
	DefaultTimeout = time.Hour
	defaultMaxIO   = 1 << 20
	subtype        = "wsfs"
)

// Resolver finds out who a process is. Implementations must not touch the target's memory map (cmdline, environ)
// before they called yield: the target may hold its lock while it waits for our reply.
type Resolver interface {
	// Resolve attributes the thread pid. It calls yield before anything that can wait, and returns what it has when
	// cancel is closed. pid 0 is the kernel itself.
	Resolve(pid uint32, yield func(), cancel <-chan struct{}) store.Attribution
}

// withDefaults returns o with every zero value replaced by what it stands for.
func (o Options) withDefaults() Options {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&o.Poll, DefaultPoll)
	def(&o.sweepEvery, sweepEvery)
	def(&o.EntryTimeout, DefaultTimeout)
	def(&o.AttrTimeout, DefaultTimeout)
	def(&o.NegativeTimeout, DefaultTimeout)
	if o.Transport == "" {
		o.Transport = TransportOwn
	}
	if o.MaxWrite <= 0 {
		o.MaxWrite = defaultMaxIO
	}
	if o.ReadAhead == 0 {
		o.ReadAhead = o.MaxWrite
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.granted == nil {
		o.granted = new(atomic.Uint64)
	}
	if o.DevFuse == "" {
		o.DevFuse = "/dev/fuse"
	}
	return o
}
