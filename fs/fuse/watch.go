package fuse

import (
	"sync/atomic"
	"time"
)

// A handler that knows that it will wait gives the reader's role away first. One that is kept waiting where nobody
// expects it, such as by a write to a disk that stalls, cannot. So somebody looks on: a leader that is still in the same
// handler after watchEvery loses the role to a follower and goes on as one itself. While there are no requests nobody
// looks.

const (
	// watchEvery is how often the leader is looked at: a waiting handler keeps others waiting for one to two of these.
	watchEvery = 5 * time.Millisecond
	// watchQuiet looks without a new request end the watch until there is one.
	watchQuiet = 20
)

// What a worker does with the reader's role, as far as it concerns the watch.
const (
	roleFree    uint32 = iota // it has none, or has it and reads
	roleHandler               // it has it, and runs a handler
	roleTaken                 // it had it in a handler, and lost it to the watch
)

// lookout is what leaders tell of themselves.
type lookout struct {
	served atomic.Uint64 // requests that leaders began
	on     atomic.Bool   // somebody looks
	wake   chan struct{} // has room for one
	quit   chan struct{}
	taken  atomic.Uint64 // roles
}

func newLookout() *lookout { return &lookout{wake: make(chan struct{}, 1), quit: make(chan struct{})} }

// began is called by a leader before each handler. A watch that ends looks at served again after it has said so.
func (h *lookout) began() {
	h.served.Add(1)
	if !h.on.Load() {
		h.on.Store(true)
		select {
		case h.wake <- struct{}{}:
		default:
		}
	}
}

// lookOn runs until h.quit closes.
func (c *conn) lookOn() {
	h := c.watch
	tick := time.NewTicker(time.Hour)
	defer tick.Stop()
	for {
		select {
		case <-h.wake:
		case <-h.quit:
			return
		}
		tick.Reset(watchEvery)
		seen, quiet := h.served.Load(), 0
		for quiet < watchQuiet {
			select {
			case <-tick.C:
			case <-h.quit:
				return
			}
			if now := h.served.Load(); now != seen {
				seen, quiet = now, 0
				continue
			}
			c.takeRole(seen)
			c.rouse(false)
			quiet++
		}
		c.rouse(true)
		tick.Reset(time.Hour)
		h.on.Store(false)
		if h.served.Load() != seen {
			h.began()
			h.served.Add(^uint64(0)) // that was no request
		}
	}
}

// takeRole gives the role of a leader that is still in the handler it began as number served to somebody else.
func (c *conn) takeRole(served uint64) {
	c.mu.Lock()
	var w *worker
	for id := range c.next {
		if o := c.workers[id].Load(); o != nil && o.role.Load() == roleHandler {
			w = o
		}
	}
	if w == nil || c.watch.served.Load() != served || !w.role.CompareAndSwap(roleHandler, roleTaken) {
		c.mu.Unlock()
		return
	}
	c.watch.taken.Add(1)
	c.handOver(w, nil)
}

// lost makes a leader a follower if its role was taken while it was in a handler, and reports whether it was.
func (w *worker) lost() bool {
	if !w.lead || w.role.CompareAndSwap(roleHandler, roleFree) || w.role.Load() == roleFree {
		return false
	}
	w.role.Store(roleFree)
	w.follow()
	return true
}
