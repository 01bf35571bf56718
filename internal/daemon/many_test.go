package daemon

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"wsfs/store"
)

// Any number of forks of one parent costs one row each and its reflog's line; nothing of the tree is copied.
func TestManyForks(t *testing.T) {
	n := int64(2000)
	if testing.Short() {
		n = 200
	}
	ctx := context.Background()
	c := withMain(t)
	before := rows(t, c)
	for i := range n {
		mustFork(t, c, "main", fmt.Sprint("f", i))
	}
	after := rows(t, c)
	for table := range after {
		grown := after[table] - before[table]
		switch table {
		case "workspace", "workspace_ref":
			if grown != n {
				t.Errorf("%d forks made %d rows of table %s", n, grown, table)
			}
		case "session", "process", "process_unread", "command":
			if grown > 20 { // who forked, once; on a busy machine also that it could not be read in time
				t.Errorf("%d forks made %d rows of table %s", n, grown, table)
			}
		default:
			if grown != 0 {
				t.Errorf("%d forks made %d rows of table %s", n, grown, table)
			}
		}
	}
	write(t, c, "f7", func(p *pen) { p.file("g", "seven") })
	write(t, c, "main", func(p *pen) { p.file("f", "three") })
	same(t, "f7", listing(t, c, "f7"), "f=two g=seven")
	same(t, "f8", listing(t, c, "f8"), "f=two")
	if res, err := c.Drop(ctx, DropRequest{Workspace: "f8"}); err != nil || res.OnlyHere != 0 {
		t.Errorf("drop: %+v, %v", res, err)
	}
	if got := rows(t, c); got["timeline"] != before["timeline"]+1 || got["workspace"] != after["workspace"] {
		t.Errorf("one fork that was written made %d timelines", got["timeline"]-before["timeline"])
	}
}

// A chain of forks, each with a change of its own, reads through to its beginning and can be dropped from the middle.
func TestDeepForks(t *testing.T) {
	depth := 200
	if testing.Short() {
		depth = 40
	}
	ctx := context.Background()
	c := withMain(t)
	before := len(timelines(t, c))
	last := "main"
	for i := range depth {
		next := fmt.Sprint("f", i)
		mustFork(t, c, last, next)
		write(t, c, next, func(p *pen) { p.file(fmt.Sprintf("at%03d", i%10), next) })
		last = next
	}
	if got := len(timelines(t, c)) - before; got != depth {
		t.Errorf("%d forks with a change each made %d timelines", depth, got)
	}
	ws, err := c.Local().Workspace(ctx, last)
	if err != nil {
		t.Fatal(err)
	}
	v, err := c.Local().ViewOf(ctx, ws)
	if err != nil {
		t.Fatal(err)
	}
	if from, err := c.Local().Lineage(ctx, v); err != nil || len(from) != depth+1 {
		t.Errorf("the last fork comes from %d timelines, %v", len(from), err)
	}
	if err := c.Local().MergeSegments(ctx); err != nil {
		t.Fatal(err)
	}
	if v, err = c.Local().ViewOf(ctx, ws); err != nil || len(v.Path()) > 17 {
		t.Errorf("read path of %d segments, %v", len(v.Path()), err)
	}
	want := ""
	for i := range 10 {
		want += fmt.Sprintf("at%03d=f%d ", i, depth-10+i)
	}
	same(t, last, listing(t, c, last), want+"f=two")
	same(t, "half way", listing(t, c, fmt.Sprint("f", depth/2-1, "@0s"))[:5], "at000")
	// Everybody below has what the middle has; it can go, and nobody notices.
	for _, i := range []int{0, depth / 2, depth - 2} {
		if res, err := c.Drop(ctx, DropRequest{Workspace: fmt.Sprint("f", i)}); err != nil || res.OnlyHere != 0 {
			t.Errorf("drop f%d: %+v, %v", i, res, err)
		}
	}
	same(t, last, listing(t, c, last), want+"f=two")
	res, err := c.Fork(ctx, ForkRequest{Revision: last + "@2", Name: "root"})
	if err != nil || res.BaseSeq != 2 {
		t.Errorf("fork of the first change: %+v, %v", res, err)
	}
	root, err := c.Local().Workspace(ctx, "root")
	if err == nil && root.Base != store.TimelineID(1) {
		t.Errorf("its base is on timeline %d", root.Base)
	}
	same(t, "root", listing(t, c, "root"), "f=one")
}

// timelines are those that somebody wrote to.
func timelines(t *testing.T, c *Client) []*store.Timeline {
	t.Helper()
	list, err := c.Local().Timelines(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(list, func(tl *store.Timeline) bool { return tl.Hidden })
}
