package blob

import (
	"context"
	"sync"
	"time"
)

// guard keeps collection and staging apart. Staging leaves out blobs that the index has, and nobody can tell from what is
// staged which those were. So:
//
//   - Whatever is staged counts in one of two turns until it is applied or given up. A collection begins the other turn and
//     waits for what was staged before: then the database names all of that.
//   - While a collection runs, every ref that staging asks for is noted, and is not condemned after.
//   - A ref that is condemned is not known to staging any more: its bytes are stored again. It is alive then, and keeps the row
//     that it has, if that is still there.
//
// The zero value is ready. Its lock is a leaf.
type guard struct {
	mu     sync.Mutex
	turn   int              // guarded by mu; 0 or 1
	staged [2]int           // guarded by mu; calls that stage, and what they staged, by turn
	on     bool             // guarded by mu; a collection runs
	cutoff uint32           // guarded by mu; of packs below, nothing is used again by its place alone
	used   map[Ref]struct{} // guarded by mu; asked for since the collection began
	gone   map[Ref]bool     // guarded by mu; condemned; true: stored again since
}

// enter is called before anything is looked up for what will be staged. It returns the turn.
func (g *guard) enter() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.staged[g.turn]++
	return g.turn
}

// count adds n to what is staged in a turn.
func (g *guard) count(turn, n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.staged[turn&1] += n
}

// ask notes refs that staging is about to look up.
func (g *guard) ask(refs []Ref) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.on {
		return
	}
	for _, ref := range refs {
		if back, condemned := g.gone[ref]; !condemned {
			g.used[ref] = struct{}{}
		} else if !back {
			g.gone[ref] = true
		}
	}
}

// has reports whether staging may rely on a blob that the index has.
func (g *guard) has(ref Ref) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, condemned := g.gone[ref]
	return !condemned
}

// fresh reports whether staging may rely on what is at a place that is not applied yet.
func (g *guard) fresh(loc Location) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return loc.Pack == 0 || loc.Pack >= g.cutoff
}

// begin starts a collection and returns the turn that has to end first.
func (g *guard) begin(cutoff uint32) (before int, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.on {
		return 0, false
	}
	before = g.turn
	g.turn ^= 1
	g.on, g.cutoff, g.used, g.gone = true, cutoff, make(map[Ref]struct{}), make(map[Ref]bool)
	return before, true
}

func (g *guard) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.on, g.cutoff, g.used, g.gone = false, 0, nil, nil
}

// drained waits until nothing of a turn is left. It looks now and then: what it waits for takes from milliseconds to as long
// as somebody writes one large file.
func (g *guard) drained(ctx context.Context, turn int) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		g.mu.Lock()
		n := g.staged[turn]
		g.mu.Unlock()
		if n == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// condemn returns those of refs that nobody asked for. From then on staging does not find them.
func (g *guard) condemn(refs []Ref) []Ref {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := make([]Ref, 0, len(refs))
	for _, ref := range refs {
		if _, used := g.used[ref]; !used {
			g.gone[ref] = false
			out = append(out, ref)
		}
	}
	return out
}

// doomed returns those of refs that were not stored again since they were condemned.
func (g *guard) doomed(refs []Ref) []Ref {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := make([]Ref, 0, len(refs))
	for _, ref := range refs {
		if back, condemned := g.gone[ref]; condemned && !back {
			out = append(out, ref)
		}
	}
	return out
}
