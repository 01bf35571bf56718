package fuse

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"sync"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"

	"wsfs/fs"
	"wsfs/store"
)

// caller is the fs.Call of one request. It is reused, so that a request makes no garbage: package fs must not keep it.
type caller struct {
	fs.Call
	raw    *rawFS
	header *gofuse.InHeader
	pid    uint32 // survives a change of Call.PID
	groups []uint32
	asked  bool // groups is filled

	// Bound once; putting a method into a field allocates.
	yieldFn  func()
	whoFn    func() store.Attribution
	groupsFn func(uint32) bool
}

func newCallerPool(r *rawFS) *sync.Pool {
	return &sync.Pool{New: func() any {
		c := &caller{raw: r}
		c.yieldFn, c.groupsFn = c.yield, c.inGroup
		if r.opts.Resolver != nil {
			c.whoFn = c.who
		}
		return c
	}}
}

// call describes the request with header h. It must be given back with done after the last use.
func (r *rawFS) call(cancel <-chan struct{}, h *gofuse.InHeader) *caller {
	c := r.callers.Get().(*caller)
	c.header, c.pid, c.asked = h, h.Pid, false
	c.Call = fs.Call{
		UID: h.Uid, GID: h.Gid, PID: h.Pid, Groups: c.groupsFn, Who: c.whoFn, Yield: c.yieldFn,
		Origin: r.origin, Cancel: cancel, Durable: r.opts.DurableClose,
		Rules: r.opts.Rules,
	}
	if r.mount != 0 {
		c.Receipt = r.transport.receipt(h)
	}
	return c
}

func (r *rawFS) done(c *caller) {
	c.header, c.Cancel, c.Receipt = nil, nil, nil
	r.callers.Put(c)
}

func (c *caller) yield() { c.raw.transport.yield(c.header) }

// who does not pass Cancel on: any signal interrupts a request (the Go runtime sends one to its threads all the time),
// and it must not cost the change its author. Resolve takes a bounded time.
func (c *caller) who() store.Attribution {
	return c.raw.opts.Resolver.Resolve(c.pid, c.yieldFn, nil)
}

// inGroup asks /proc, since the protocol carries one group only. Reading status may drop the last reference to an
// address space that has our files mapped, and so wait for us: never with the reader's role.
func (c *caller) inGroup(gid uint32) bool {
	if !c.asked {
		c.groups, c.asked = c.groups[:0], true
		if c.pid != 0 {
			c.yield()
			status, err := os.ReadFile("/proc/" + strconv.FormatUint(uint64(c.pid), 10) + "/status")
			if err == nil {
				c.groups = parseGroups(status, c.groups)
			}
		}
	}
	return slices.Contains(c.groups, gid)
}

// parseGroups appends the numbers of the Groups line of /proc/PID/status.
func parseGroups(status []byte, to []uint32) []uint32 {
	_, rest, ok := bytes.Cut(status, []byte("\nGroups:"))
	if !ok {
		return to
	}
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	for _, f := range bytes.Fields(line) {
		if v, err := strconv.ParseUint(string(f), 10, 32); err == nil {
			to = append(to, uint32(v))
		}
	}
	return to
}
