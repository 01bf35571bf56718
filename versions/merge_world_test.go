package versions_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"wsfs/fs"
	"wsfs/store"
	"wsfs/versions"
)

// fork is another workspace that starts as l is now.
func (l *lab) fork(name string) *lab {
	l.t.Helper()
	ctx := context.Background()
	p := l.place()
	slot, err := l.st.Append(versions.ForkOp(l.st, l.ws(), p, name, l.clock.UnixNano(), l.who))
	l.must(err)
	l.must(l.st.Apply(ctx, slot))
	f := *l
	f.name = name
	f.fs, err = fs.Open(ctx, l.st, f.ws(), fs.Options{Now: func() time.Time { l.clock = l.clock.Add(time.Second); return l.clock }})
	l.must(err)
	l.t.Cleanup(func() {
		if err := f.fs.Close(); err != nil {
			l.t.Error(err)
		}
	})
	return &f
}

func (l *lab) planMerge(src *lab, sel versions.MergeSelect) (*versions.MergePlan, error) {
	l.t.Helper()
	return versions.PlanMerge(context.Background(), l.st, l.place(), src.place(), sel)
}

// merge takes src in.
func (l *lab) merge(src *lab, sel versions.MergeSelect) *versions.MergePlan {
	l.t.Helper()
	plan, err := l.planMerge(src, sel)
	l.must(err)
	l.apply(plan, src)
	return plan
}

func (l *lab) apply(plan *versions.MergePlan, src *lab) {
	l.t.Helper()
	h, err := l.fs.Hold(context.Background())
	l.must(err)
	defer h.Release()
	contents, err := plan.Contents(l.st)
	l.must(err)
	pins, err := plan.Pins(context.Background(), l.st, l.ws().ID, src.ws().ID)
	l.must(err)
	_, err = h.Edit(context.Background(), &fs.Edit{
		Kind: store.OpMerge, Who: l.who, Names: plan.Names, Versions: plan.Versions, Contents: contents, Merged: plan.Merged,
		Conflicts: plan.Rows(l.st), Pins: pins,
	})
	l.must(err)
}

func whys(plan *versions.MergePlan) []string {
	var out []string
	for _, c := range plan.Conflicts {
		out = append(out, c.Path+" "+c.Why)
	}
	return out
}

func (l *lab) is(want map[string]string) {
	l.t.Helper()
	got := map[string]string{}
	for path := range l.tree() {
		a, err := l.find(path)
		l.must(err)
		if a.Mode&0o170000 == 0o100000 {
			got[path] = l.text(path)
		}
	}
	if !maps.Equal(got, want) {
		l.t.Errorf("%s holds %q, want %q", l.name, got, want)
	}
}

func (l *lab) text(path string) string {
	l.t.Helper()
	ctx := context.Background()
	p := l.place()
	v, err := l.st.ViewAt(ctx, p.Timeline, p.Seq)
	l.must(err)
	_, ver, err := v.Resolve(ctx, path)
	l.must(err)
	if ver.Size == 0 {
		return ""
	}
	return l.read(ver)
}

func TestMergeFirst(t *testing.T) {
	a := newLab(t, store.Options{})
	a.as("base")
	a.write("f", "1\n2\n3\n4\n5\n")
	a.write("g", "g\n")
	a.mkdir("d")
	a.write("d/h", "h\n")
	a.write("gone", "x\n")
	b := a.fork("b")
	b.as("B")
	b.save("f", "1\n2\n3\n4\nfive\n")
	b.rename("g", "d/g2")
	b.mkdir("new")
	b.write("new/n", "n\n")
	b.remove("gone")
	b.save("d/h", "hh\n")
	a.as("A")
	a.write("f", "one\n2\n3\n4\n5\n")
	a.write("g", "gg\n")
	a.rename("d", "e")
	a.as("M")
	before := a.tree()
	plan := a.merge(b, versions.MergeSelect{})
	if len(plan.Conflicts) > 0 {
		t.Errorf("conflicts: %v", whys(plan))
	}
	want := map[string]string{"f": "one\n2\n3\n4\nfive\n", "e/g2": "gg\n", "e/h": "hh\n", "new/n": "n\n"}
	a.is(want)
	// Again there is nothing to do, and the other way round all is taken over as it is.
	if _, err := a.planMerge(b, versions.MergeSelect{}); err == nil {
		t.Error("merged twice")
	}
	b.as("M2")
	if plan := b.merge(a, versions.MergeSelect{}); len(plan.Conflicts) > 0 {
		t.Errorf("conflicts on the way back: %v", whys(plan))
	}
	b.is(want)
	// Both go on, and meet again.
	b.as("B")
	b.save("f", "one\n2\n3\nfour\nfive\n")
	b.write("e/h", "hh\n2\n3\n4\n")
	a.as("A")
	a.append("f", "6\n7\n")
	a.merge(b, versions.MergeSelect{})
	a.is(map[string]string{"f": "one\n2\n3\nfour\nfive\n6\n7\n", "e/g2": "gg\n", "e/h": "hh\n2\n3\n4\n", "new/n": "n\n"})
	_ = before
	_ = slices.Sort[[]string]
}
