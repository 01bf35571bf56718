package fuse

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// Buckets is the length of a latency histogram: bucket i counts handlers that took less than 1<<i microseconds (and at
// least half of that), the last one everything longer.
const Buckets = 24

// OpStats counts the requests of one opcode.
type OpStats struct {
	Name    string // as in linux/fuse.h, without FUSE_
	Count   uint64
	Errors  uint64        // replies with an errno
	Time    time.Duration // sum of the handlers' times
	Latency [Buckets]uint64
}

// Stats is a snapshot of what a mount counted since it began.
type Stats struct {
	Transport Transport // that is used: own if the kernel refused uring
	Ops       []OpStats // only opcodes that came, by opcode
	// PollHits are requests that the reader found while polling, PollMisses polls that ended in blocking, Blocked the
	// times it blocked.
	PollHits, PollMisses, Blocked uint64
	// Near are replies written from the processor of the one client, Roused the leaders that had to be freed there because
	// somebody else's request waited.
	Near, Roused uint64
	// Yields are roles handed on by a handler that was going to wait, Taken those that were taken from one that did not
	// know that it would, Workers the goroutines that exist now.
	Yields, Taken, Workers uint64
	// Panics of handlers, each logged with its stack; Refused are requests answered with an error by the transport.
	Panics, Refused uint64
	// Notified are notifications written, NotifyErrors those the kernel refused other than for not knowing the inode.
	Notified, NotifyErrors uint64
}

const maxOpcode = 64

// opCounters is written by several goroutines at once; one atomic add each is all it costs.
type opCounters struct {
	ops [maxOpcode]struct {
		count, errors, nanos atomic.Uint64
		buckets              [Buckets]atomic.Uint64
	}
}

// add counts one request. Opcodes beyond the table share its last place.
func (c *opCounters) add(op uint32, failed bool, d time.Duration) {
	s := &c.ops[min(op, maxOpcode-1)]
	s.count.Add(1)
	if failed {
		s.errors.Add(1)
	}
	s.nanos.Add(uint64(d))
	s.buckets[min(bits.Len64(uint64(d/time.Microsecond)), Buckets-1)].Add(1)
}

func (c *opCounters) snapshot() []OpStats {
	var out []OpStats
	for op := range c.ops {
		s := &c.ops[op]
		n := s.count.Load()
		if n == 0 {
			continue
		}
		o := OpStats{Name: opName(uint32(op)), Count: n, Errors: s.errors.Load(), Time: time.Duration(s.nanos.Load())}
		for i := range o.Latency {
			o.Latency[i] = s.buckets[i].Load()
		}
		out = append(out, o)
	}
	return out
}
