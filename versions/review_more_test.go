package versions_test

import (
	"context"
	"slices"
	"testing"

	"wsfs/store"
	"wsfs/versions"
)

// TestReviewConflict takes hunks that do not go together with what is here, or that break a file that parsed: the target stays, and all of
// the other side is kept.
func TestReviewConflict(t *testing.T) {
	ctx := context.Background()
	a := newLab(t, store.Options{})
	a.as("base")
	a.write("f", "1\n2\n3\n4\n5\n")
	a.write("p.json", "{\n\"a\": 1\n}\n")
	b := a.fork("b")
	b.as("B")
	b.save("f", "1\ntwo\n3\n4\nfive\n")
	b.save("p.json", "{\n\"z\": [\n\"a\": 1\n],\n\"b\": 2\n}\n")
	b.save("p.json", "{\n\"z\": {\n\"a\": 1\n}}\n")
	a.as("A")
	a.write("f", "1\nzwei\n3\n4\n5\n")
	rev, err := versions.PlanReview(ctx, a.st, a.place(), b.place(), true)
	a.must(err)
	var f, p []string
	for _, c := range rev.Changes {
		switch {
		case c.Path == "f":
			f = append(f, c.ID)
		case c.Path == "p.json":
			p = append(p, c.ID)
		}
	}
	if len(f) != 2 || len(p) != 2 {
		t.Fatalf("%+v", rev.Changes)
	}
	want := map[string]string{"f": "1\nzwei\n3\n4\n5\n", "p.json": "{\n\"a\": 1\n}\n"}
	a.as("R")
	plan := a.merge(b, versions.MergeSelect{Hunks: []string{f[0], p[0]}})
	if got := whys(plan); !slices.Equal(got, []string{"f edit/edit", "p.json syntax"}) {
		t.Errorf("conflicts %v", got)
	}
	a.is(want)
	for _, c := range plan.Conflicts {
		if got := b.text(c.Path); c.Theirs == nil || a.read(c.Theirs) != got {
			t.Errorf("%s: the conflict does not have %q", c.Path, got)
		}
	}
	a.as("R2")
	want["f"] = "1\nzwei\n3\n4\nfive\n"
	a.merge(b, versions.MergeSelect{Hunks: f[1:]})
	a.is(want)
	a.as("R3")
	want["f"] = "1\ntwo\n3\n4\nfive\n"
	a.merge(b, versions.MergeSelect{Hunks: f[:1], Prefer: versions.PreferTheirs})
	a.is(want)
}

// TestReviewBy tells who did what: lines by blame, lines that are gone by who removed them, a mode by who changed it.
func TestReviewBy(t *testing.T) {
	ctx := context.Background()
	a := newLab(t, store.Options{})
	a.as("base")
	a.write("f", "1\n2\n3\n4\n5\n6\n7\n8\n9\n")
	b := a.fork("b")
	b.as("X")
	b.save("f", "one\n2\n3\n4\n5\n6\n7\n8\n9\n")
	b.as("Y")
	b.write("f", "one\n2\n3\n4\n6\n7\n8\n9\n")
	b.as("Z")
	b.save("f", "one\n2\n3\n4\n6\n7\n8\n9\nten\n")
	rev, err := versions.PlanReview(ctx, a.st, a.place(), b.place(), true)
	a.must(err)
	var got []string
	for _, c := range rev.Changes {
		for _, by := range c.By {
			got = append(got, string(slices.Concat(slices.Concat(c.Old...), slices.Concat(c.New...)))+by.Session.Name)
		}
	}
	if want := []string{"1\none\nX", "5\nY", "ten\nZ"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
