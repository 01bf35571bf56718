package store

import (
	"context"
	"fmt"
	"sync"
	"time"

	"wsfs/blob"
)

// GCOptions say what Collect does. The zero value collects what the store's policy does not keep.
type GCOptions struct {
	// Keep is the policy for this time; nil: that of the store.
	Keep *Retention
	// Classes are the rules for this time; nil: those of the store.
	Classes *Classes
	// DryRun only counts. It looks at one moment; what others do meanwhile may change the numbers.
	DryRun bool
	// Thorough rewrites every pack that has anything to give back, and the database likewise.
	Thorough bool
	// Roots are the contents that open files need though no row may name them any more. It is asked after rows were removed.
	Roots func() []blob.Content
	// Pause is called between steps, with no lock held. It may wait; an error ends the collection, which goes on next time.
	Pause func(ctx context.Context) error
	// Replaced are those of some pins of the kind PinApplied that nothing needs any more but as history: they go with the states that
	// the policy does not keep. nil: none.
	Replaced func([]Pin) []Pin
	// Measure has Measured say at the end what the bytes are, unless it knows that from less than so long ago. 0: it is not asked for.
	Measure time.Duration
	// Who is noted with what was removed, Kind, "gc" if empty, and Rule, the policy if empty.
	Who, Kind, Rule string
}

// GCResult is what was removed, or would be.
type GCResult struct {
	Workspaces int64 `json:"workspaces"` // dropped, and their time to be brought back over
	Timelines  int64 `json:"timelines"`
	States     int64 `json:"states"` // changes whose state cannot be read any more
	Versions   int64 `json:"versions"`
	Names      int64 `json:"names"`
	Changes    int64 `json:"changes"`
	Who        int64 `json:"who"`                 // sessions, commands and processes
	Conflicts  int64 `json:"conflicts,omitempty"` // that were resolved
	Blobs      int64 `json:"blobs"`
	BlobBytes  int64 `json:"blob_bytes"` // stored bytes of those
	LetGo      int64 `json:"let_go"`     // contents of past versions that stay without their bytes, because of their class
	Packs      int64 `json:"packs"`      // removed or rewritten
	Moved      int64 `json:"moved"`      // bytes that were written once more
	Before     int64 `json:"before"`     // bytes of the store's files
	After      int64 `json:"after"`
}

// UseHistory keeps what can be read from being collected until release is called: whoever works out a change from a past
// state, or names one, holds it from the first look to the op's place in the order of changes. Holding it twice is fine.
func (s *Store) UseHistory() (release func()) {
	s.history.RLock()
	return s.history.RUnlock
}

// collector is one run of Collect.
type collector struct {
	s    *Store
	o    GCOptions
	keep Retention
	now  int64
	res  GCResult
	dry  *dryRun // nil: for real
}

// Collect removes what the policy does not keep and nothing else needs: states, versions, names, contents, packs, and room in
// the database. It works in short steps between those of everybody else. When it is interrupted, by ctx, an error or
// the end of the process, what is done is done and the next run goes on. One runs at a time.
//
// Order: pointers, then what nothing points to; first a state is declared gone, then its rows go, then the contents that no
// row names, then packs. So nobody ever reads half a state: it is refused (ErrCollected) before the first row goes.
func (s *Store) Collect(ctx context.Context, o GCOptions) (GCResult, error) {
	if s.w == nil {
		return GCResult{}, errReadOnly("collect")
	}
	if !s.gc.TryLock() {
		return GCResult{}, fmt.Errorf("collect: %w", blob.ErrCollecting)
	}
	defer s.gc.Unlock()
	g := &collector{s: s, o: o, now: s.o.Now().UnixNano()}
	err := g.run(ctx)
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return g.res, s.dbError("collect", err)
}

func (g *collector) run(ctx context.Context) (err error) {
	if g.keep, err = g.s.Retention(ctx); err != nil {
		return err
	}
	if g.o.Keep != nil {
		g.keep = *g.o.Keep
	}
	if err := g.s.Apply(ctx, g.s.Last()); err != nil {
		return err
	}
	if g.res.Before, err = g.s.bytes(); err != nil {
		return err
	}
	if g.o.DryRun {
		return g.try(ctx)
	}
	if err := g.phases(ctx); err != nil {
		return err
	}
	if err := g.fit(ctx); err != nil {
		return err
	}
	if err := g.note(ctx); err != nil {
		return err
	}
	if err := g.measure(ctx); err != nil {
		return err
	}
	g.res.After, err = g.s.bytes()
	return err
}

func (g *collector) phases(ctx context.Context) error {
	for _, phase := range []func(context.Context) error{g.pointers, g.dead, g.thin, g.who, g.contents, g.shrink} {
		if err := phase(ctx); err != nil {
			return err
		}
	}
	return nil
}

// leastKept is how much of the history stays however large the store is.
const leastKept = time.Minute

// fit makes the store no larger than the policy says: it keeps less and less of the history, halving its age each time, until
// the store is small enough or nearly nothing is left.
func (g *collector) fit(ctx context.Context) error {
	if g.keep.Cap == 0 {
		return nil
	}
	var oldest int64
	if _, err := scanAll(ctx, g.s.r, 1, `SELECT min(at) FROM change WHERE at > 0`, nil, func(c *cells) error {
		oldest = c.int(0)
		return nil
	}); err != nil {
		return err
	}
	tiers := g.keep.Tiers
	defer func() { g.keep.Tiers = tiers }()
	for age := time.Duration(g.now-oldest) / 2; ; age /= 2 {
		if size, err := g.s.bytes(); err != nil || size <= g.keep.Cap {
			return err
		}
		if age < leastKept {
			g.s.o.Log.WarnContext(ctx, "the store is larger than it should be, and no history is left to collect", "store", g.s.dir)
			return nil
		}
		g.keep.Tiers = younger(tiers, age)
		if err := g.phases(ctx); err != nil {
			return err
		}
	}
}

// younger is a policy without what is older than age.
func younger(tiers []Tier, age time.Duration) []Tier {
	var out []Tier
	for _, t := range tiers {
		if t.For == 0 || t.For >= age {
			t.For = age
			return append(out, t)
		}
		out = append(out, t)
	}
	if len(tiers) == 0 {
		out = []Tier{{For: age}}
	}
	return out
}

// Steps are short: about gcChunk rows each.
const gcChunk = 2000

// step is one transaction between those of the applier.
func (g *collector) step(ctx context.Context, fn func(ctx context.Context) error) error {
	if err := g.pause(ctx); err != nil {
		return err
	}
	g.s.at("gc step")
	defer g.s.at("gc stepped")
	return g.s.w.tx(ctx, fn)
}

// alone is a step while nobody works out anything from the past, after everything acknowledged is in the database.
func (g *collector) alone(ctx context.Context, fn func(ctx context.Context) error) error {
	return g.aloneWith(ctx, &sync.Mutex{}, fn)
}

// aloneWith is alone with another lock held. The applier may want that one, so it is taken when the applier has done what it had.
// Neither is waited for: who comes now must not wait because somebody before is slow.
func (g *collector) aloneWith(ctx context.Context, other *sync.Mutex, fn func(ctx context.Context) error) error {
	for {
		done, err := g.tryAlone(ctx, other, fn)
		if done || err != nil {
			return err
		}
		select {
		case <-time.After(2 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (g *collector) tryAlone(ctx context.Context, other *sync.Mutex, fn func(ctx context.Context) error) (done bool, err error) {
	if !g.s.history.TryLock() {
		return false, nil
	}
	defer g.s.history.Unlock()
	if err := g.s.Apply(ctx, g.s.Last()); err != nil {
		return false, err
	}
	if !other.TryLock() {
		return false, nil
	}
	defer other.Unlock()
	g.s.at("gc step")
	defer g.s.at("gc stepped")
	return true, g.s.w.tx(ctx, fn)
}

func (g *collector) pause(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if g.o.Pause != nil {
		return g.o.Pause(ctx)
	}
	return nil
}

// keptRemovals is how many lines are kept of what was collected. What was purged is never forgotten.
const keptRemovals = 1000

// note keeps a line of what was removed, if anything was.
func (g *collector) note(ctx context.Context) error {
	r := g.res
	if r.Workspaces+r.Timelines+r.States+r.Versions+r.Names+r.Changes+r.Who+r.Conflicts+r.Blobs+r.Packs == 0 {
		return nil
	}
	kind := g.o.Kind
	if kind == "" {
		kind = RemovalGC
	}
	rule := g.o.Rule
	if rule == "" {
		rule = g.keep.String()
	}
	return g.step(ctx, func(ctx context.Context) error {
		if err := addRemoval(ctx, g.s.w, &Removal{At: g.now, Kind: kind, Rule: rule, Who: g.o.Who, Detail: r.json()}); err != nil {
			return err
		}
		_, err := g.s.w.exec(ctx, `DELETE FROM removal WHERE kind = ? AND id <= (SELECT max(id) FROM removal) - ?`, RemovalGC, int64(keptRemovals))
		return err
	})
}
