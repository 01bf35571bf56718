package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"wsfs/blob"
	"wsfs/store"
)

// testCollect lets a world live, with tags, and workspaces dropped, and collects in between by policies of all sorts: what must
// be kept reads as it was, what is refused stays refused, nothing reads as something else. At last everything is dropped,
// and every table is as in an empty store.
func testCollect(t *testing.T, drv store.Driver, group int, seed uint64) {
	rounds, steps := 5, 70
	if slow || testing.Short() {
		rounds = 3
	}
	dir := t.TempDir()
	if err := store.Init(t.Context(), dir, drv); err != nil {
		t.Fatal(err)
	}
	w := &world{}
	o := store.Options{GroupOps: group, GroupDelay: 5 * time.Millisecond, MergeAfter: 2, Now: func() time.Time { return time.Unix(0, w.clock) }}
	o.Blob.PackSize = 64 << 10
	st, err := store.Open(t.Context(), dir, drv, o)
	if err != nil {
		t.Fatal(err)
	}
	w = newWorld(t, st, seed, group)
	w.gone = make(map[point]bool)
	c := &collected{w: w, tags: map[string]point{}, of: map[string]*tree{}}
	w.create("main")
	for round := range rounds {
		w.live(steps)
		c.marks()
		keep := c.policy()
		was := c.complete()
		c.collect(keep)
		c.compare(keep, was)
		w.compareHeads()
		Check(t, st)
		if t.Failed() {
			t.Fatalf("after round %d with %s", round, keep)
		}
	}
	w.compareBytes()
	w.settle()
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	if st, err = store.Open(t.Context(), dir, drv, o); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}()
	w.st = st
	c.everything()
}

// collected is a world in which history is collected.
type collected struct {
	w    *world
	tags map[string]point
	of   map[string]*tree // whose tag it is
	n    int
	with *store.Classes // nil: those of the store
}

// marks sets and removes tags, and drops workspaces.
func (c *collected) marks() {
	w := c.w
	w.t.Helper()
	for range 3 {
		t := w.trees[w.rnd.IntN(len(w.trees))]
		p := w.owner(w.somewhere(t))
		w.pin(p)
		name := fmt.Sprint("tag", c.n)
		c.n++
		w.send(&store.Op{Kind: store.OpWorkspace, Workspace: t.ws.ID, At: w.clock, Who: w.who(), Tags: []store.TagChange{
			{Tag: store.Tag{Workspace: t.ws.ID, Name: name, Timeline: p.timeline, Seq: p.seq}},
		}})
		c.tags[name], c.of[name] = p, t
		w.send(&store.Op{Kind: store.OpWorkspace, At: w.clock, Who: w.who(), Reviews: []store.Review{
			{Workspace: t.ws.ID, Timeline: p.timeline, Seq: p.seq, Path: name, Hunks: []string{"a1", "b2"}, Verdict: store.Rejected},
		}})
	}
	for name, p := range c.tags {
		if w.rnd.IntN(4) == 0 {
			w.send(&store.Op{Kind: store.OpWorkspace, At: w.clock, Who: w.who(), Tags: []store.TagChange{
				{Tag: store.Tag{Workspace: c.of[name].ws.ID, Name: name, Timeline: p.timeline, Seq: p.seq}, Remove: true},
			}})
			delete(c.tags, name)
		}
	}
	for len(w.trees) > 4 {
		c.drop(1 + w.rnd.IntN(len(w.trees)-1))
	}
	w.settle()
}

func (c *collected) drop(i int) {
	w := c.w
	t := w.trees[i]
	t.ws.DroppedAt = w.clock
	w.move(t, "drop", nil)
	w.trees = slices.Delete(w.trees, i, i+1)
	maps.DeleteFunc(c.of, func(name string, of *tree) bool {
		if of == t {
			delete(c.tags, name)
		}
		return of == t
	})
}

func (c *collected) policy() store.Retention {
	r := c.w.rnd
	keep := store.Retention{Dropped: time.Nanosecond}
	if r.IntN(4) == 0 {
		return keep
	}
	young := time.Duration(1+r.IntN(30)) * time.Second
	keep.Tiers = []store.Tier{{For: young}}
	if r.IntN(3) > 0 {
		keep.Tiers = append(keep.Tiers, store.Tier{Every: time.Duration(2+r.IntN(5)) * time.Second, For: 2 * young})
	}
	if r.IntN(2) == 0 {
		keep.Tiers = append(keep.Tiers, store.Tier{Every: 20 * time.Second})
	}
	return keep
}

// checkEvery is how many pauses of a collection are between two checks.
const checkEvery = 5

// collect collects, after counting what that will remove.
func (c *collected) collect(keep store.Retention) {
	w := c.w
	w.t.Helper()
	w.clock += 1e6
	if err := w.st.MergeSegments(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	dry, err := w.st.Collect(w.t.Context(), store.GCOptions{Keep: &keep, Classes: c.with, DryRun: true})
	if err != nil {
		w.t.Fatal(err)
	}
	refused, pauses := map[blob.Ref]bool{}, 0 // meanwhile
	got, err := w.st.Collect(w.t.Context(), store.GCOptions{Keep: &keep, Classes: c.with, Pause: func(context.Context) error {
		for ref := range w.bytes {
			refused[ref] = refused[ref] || w.st.LetsGo(ref) != ""
		}
		if pauses++; pauses%checkEvery != 0 {
			return nil
		}
		// A collection that ends here leaves a store that is whole.
		return w.st.CheckRows(w.t.Context(), func(p store.Problem) { w.t.Errorf("at pause %d: rule %d: %s", pauses, p.Rule, p.Text) })
	}})
	if err != nil {
		w.t.Fatal(err)
	}
	for ref, was := range refused {
		if gone, err := w.st.MissingBlobs(w.t.Context(), []blob.Ref{ref}); err != nil || was && len(gone) == 0 {
			w.t.Errorf("content %s was refused as if it were let go, and stays (%v)", ref, err)
		}
	}
	if dry.Timelines != got.Timelines || dry.Workspaces != got.Workspaces || dry.Changes > got.Changes || dry.Changes < got.Changes/2 || dry.Versions > got.Versions ||
		dry.Names > got.Names || dry.Blobs > got.Blobs || dry.LetGo > got.LetGo || dry.Versions < got.Versions/2 {
		w.t.Errorf("a dry run with %s counts %+v, then was removed: %+v", keep, dry, got)
	}
	again, err := w.st.Collect(w.t.Context(), store.GCOptions{Keep: &keep, Classes: c.with})
	if err != nil {
		w.t.Fatal(err)
	}
	if again.Versions+again.Names+again.Blobs+again.Timelines != 0 {
		w.t.Errorf("collecting once more finds %+v", again)
	}
	w.t.Logf("%s: %+v", keep, got)
}

// complete is from where on each timeline has every state; before that, some are kept for as long as something names them.
func (c *collected) complete() map[store.TimelineID]store.Seq {
	c.w.t.Helper()
	all, err := c.w.st.Timelines(c.w.t.Context())
	if err != nil {
		c.w.t.Fatal(err)
	}
	out := make(map[store.TimelineID]store.Seq)
	for _, t := range all {
		out[t.ID] = t.GCSeq
	}
	return out
}

// compare compares every state that there ever was with the model: it is as it was, or refused.
func (c *collected) compare(keep store.Retention, was map[store.TimelineID]store.Seq) {
	w := c.w
	w.t.Helper()
	must := map[point]string{}
	for name, p := range c.tags {
		must[p] = "tag " + name
	}
	young := int64(0)
	if len(keep.Tiers) > 0 {
		young = w.clock - int64(keep.Tiers[0].For)
	}
	for _, t := range w.trees {
		t.told = t.ws.Base // the timeline that it was told by may be gone
		must[w.owner(t.place())] = "the present of " + t.ws.Name
		for p := t.place(); ; {
			for _, op := range w.log[p.timeline] {
				if at := (point{p.timeline, op.Seq}); op.Seq <= p.seq && op.At > young && op.Seq >= was[p.timeline] && !w.gone[at] {
					must[at] = "a young state of " + t.ws.Name
				}
			}
			par, ok := w.parents[p.timeline]
			if !ok {
				break
			}
			must[par] = "where a timeline of " + t.ws.Name + " begins"
			p = par
		}
	}
	read := 0
	for p, s := range w.past {
		v, err := w.st.ViewAt(w.t.Context(), p.timeline, p.seq)
		switch {
		case errors.Is(err, store.ErrNotFound):
			if why := must[p]; why != "" {
				w.t.Errorf("%s, seq %d of timeline %d: %v", why, p.seq, p.timeline, err)
			}
			w.gone[p] = true
		case err != nil:
			w.t.Fatal(err)
		case w.gone[p]:
			w.t.Errorf("seq %d of timeline %d was collected and is back", p.seq, p.timeline)
		default:
			read++
			w.compare(fmt.Sprintf("timeline %d at seq %d", p.timeline, p.seq), v, s, w.all || w.exact[p])
		}
		if w.t.Failed() {
			return
		}
	}
	w.t.Logf("%d states of %d are there", read, len(w.past))
	c.compareTouched()
}

// everything drops every workspace and collects: nothing may be left.
func (c *collected) everything() {
	w := c.w
	w.t.Helper()
	for len(w.trees) > 0 {
		c.drop(0)
	}
	w.settle()
	w.clock += 1e9
	if _, err := w.st.Collect(w.t.Context(), store.GCOptions{Keep: &store.Retention{Dropped: 1}}); err != nil {
		w.t.Fatal(err)
	}
	stats, err := w.st.Stats(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	for table, n := range stats.Rows {
		switch table {
		case "counter", "journal", "removal":
		case "setting":
			if n > 1 { // the highest number of a version that was collected
				w.t.Errorf("%d rows are left in %s", n, table)
			}
		default:
			if n != 0 {
				w.t.Errorf("%d rows are left in %s", n, table)
			}
		}
	}
	if stats.PackBytes > 64 {
		w.t.Errorf("%d bytes are left in packs", stats.PackBytes)
	}
	Check(w.t, w.st)
}
