package versions_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"wsfs/store"
	"wsfs/versions"
)

// reviewEdit is one of the edits that a text gets, each between two lines that no other touches.
type reviewEdit struct {
	line     int
	old, new []string
}

// TestReviewHunks takes each of random sets of hunks and compares with the text that an oracle makes of the edits themselves. What was
// not taken is listed as before and comes with the next merge; ours has an edit of its own, which stays.
func TestReviewHunks(t *testing.T) {
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 6))
		a := newLab(t, store.Options{})
		a.as("base")
		base := make([]string, 60)
		for i := range base {
			base[i] = fmt.Sprintf("line %d\n", i)
		}
		a.write("f", strings.Join(base, ""))
		a.write("kept", "k\n")
		a.write("gone", "g\n")
		b := a.fork("b")
		b.as("B")
		var edits []reviewEdit
		for at := 5; at < 56; at += 4 {
			if r.IntN(3) == 0 {
				continue
			}
			e := reviewEdit{line: at}
			for n := range r.IntN(3) {
				e.old = append(e.old, base[at+n])
			}
			for n := range r.IntN(3) {
				e.new = append(e.new, fmt.Sprintf("edit %d of %d\n", n, at))
			}
			if len(e.old)+len(e.new) > 0 {
				edits = append(edits, e)
			}
		}
		text := func(some func(int) bool, first string) string {
			var out strings.Builder
			at := 0
			for i, e := range edits {
				if !some(i) {
					continue
				}
				out.WriteString(strings.Join(base[at:e.line], "") + strings.Join(e.new, ""))
				at = e.line + len(e.old)
			}
			out.WriteString(strings.Join(base[at:], ""))
			return first + strings.TrimPrefix(out.String(), base[0])
		}
		b.save("f", text(func(int) bool { return true }, base[0]))
		b.remove("gone")
		b.mkdir("d")
		b.write("d/n", "n\n")
		a.as("A")
		a.write("f", "ours\n"+strings.Join(base[1:], ""))
		ctx := context.Background()
		rev, err := versions.PlanReview(ctx, a.st, a.place(), b.place(), true)
		a.must(err)
		var hunks []versions.Change
		ids := map[string]string{}
		for _, c := range rev.Changes {
			if c.Hunk {
				hunks = append(hunks, c)
			} else {
				ids[c.What+" "+c.Path] = c.ID
			}
			if len(c.By) != 1 || c.By[0].Session == nil || c.By[0].Session.Name != "B" {
				t.Errorf("seed %d: %s %s:%d is by %v", seed, c.What, c.Path, c.Line, c.By)
			}
		}
		if len(hunks) != len(edits) || len(ids) != 3 || ids["removed gone"] == "" || ids["added d/n"] == "" {
			t.Fatalf("seed %d: %d hunks of %d edits, others %v", seed, len(hunks), len(edits), ids)
		}
		for i, h := range hunks {
			if got, want := bytes.Join(h.Old, nil), strings.Join(edits[i].old, ""); string(got) != want {
				t.Errorf("seed %d: hunk %d takes away %q, want %q", seed, i, got, want)
			}
			if got, want := bytes.Join(h.New, nil), strings.Join(edits[i].new, ""); string(got) != want {
				t.Errorf("seed %d: hunk %d brings %q, want %q", seed, i, got, want)
			}
		}
		took := map[int]bool{}
		want := map[string]string{"f": text(func(int) bool { return false }, "ours\n"), "kept": "k\n", "gone": "g\n"}
		for range 2 {
			var some []string
			for i := range hunks {
				if r.IntN(3) == 0 {
					some, took[i] = append(some, hunks[i].ID), true
				}
			}
			if len(some) == 0 {
				some, took[0] = []string{hunks[0].ID}, true
			}
			if r.IntN(2) == 0 {
				some, want["d/n"] = append(some, ids["added d/n"]), "n\n"
			}
			want["f"] = text(func(i int) bool { return took[i] }, "ours\n")
			a.as("R")
			plan, err := a.planMerge(b, versions.MergeSelect{Hunks: some})
			a.must(err)
			if len(plan.Conflicts) > 0 || plan.Merged != nil {
				t.Errorf("seed %d: conflicts %v, or it counts as all", seed, whys(plan))
			}
			a.apply(plan, b)
			a.is(want)
			again, err := versions.PlanReview(ctx, a.st, a.place(), b.place(), false)
			a.must(err)
			if len(again.Changes) != len(rev.Changes) {
				t.Errorf("seed %d: %d changes are left to review of %d", seed, len(again.Changes), len(rev.Changes))
			}
			for i := range again.Changes {
				if again.Changes[i].ID != rev.Changes[i].ID {
					t.Errorf("seed %d: %s is %s now", seed, rev.Changes[i].ID, again.Changes[i].ID)
				}
			}
		}
		a.merge(b, versions.MergeSelect{})
		a.is(map[string]string{"f": text(func(int) bool { return true }, "ours\n"), "kept": "k\n", "d/n": "n\n"})
		if _, err := versions.PlanReview(ctx, a.st, a.place(), b.place(), false); !errors.Is(err, versions.ErrNothing) {
			t.Errorf("seed %d: still something to review: %v", seed, err)
		}
	}
}

// TestReviewParts takes one half of what was done to a file: its name, its mode or its content.
func TestReviewParts(t *testing.T) {
	ctx := context.Background()
	for _, what := range []string{versions.Renamed, versions.Modified} {
		a := newLab(t, store.Options{})
		a.as("base")
		a.write("f", "1\n2\n3\n")
		b := a.fork("b")
		b.as("B")
		b.rename("f", "g")
		b.write("g", "1\n2\nthree\n")
		rev, err := versions.PlanReview(ctx, a.st, a.place(), b.place(), true)
		a.must(err)
		var id []string
		for _, c := range rev.Changes {
			if c.What == what {
				id = append(id, c.ID)
			}
		}
		if len(rev.Changes) != 2 || len(id) != 1 {
			t.Fatalf("%+v", rev.Changes)
		}
		a.as("R")
		a.merge(b, versions.MergeSelect{Hunks: id})
		if what == versions.Renamed {
			a.is(map[string]string{"g": "1\n2\n3\n"})
		} else {
			a.is(map[string]string{"f": "1\n2\nthree\n"})
		}
		a.as("R2")
		a.merge(b, versions.MergeSelect{})
		a.is(map[string]string{"g": "1\n2\nthree\n"})
		if _, err := a.planMerge(b, versions.MergeSelect{Hunks: []string{"0000000000"}}); err == nil {
			t.Error("took a change that is not there")
		}
	}
}
