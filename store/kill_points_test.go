package store_test

import (
	"database/sql"
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"wsfs/store/storetest"
)

var eachPoint = flag.Int("each-point", 0, "TestKillAtPoints: how often a child dies at each fault point; 20 by hand; 0: once at a third of them")

// faultPoint is a named place at which a kill might leave something half done.
type faultPoint struct {
	part, name string
	late       int // the child dies at the nth time at most
	keep       string
	old        bool // the store is one of schema 3
}

// faultPoints are all there are. phases says what is being done between two of them.
func faultPoints() []faultPoint {
	var list []faultPoint
	add := func(part string, late int, names ...string) {
		for _, n := range names {
			list = append(list, faultPoint{part: part, name: n, late: late})
		}
	}
	add("journal", 2, "journal segment", "journal drop")
	add("journal", 60, "journal write", "journal written")
	add("journal", 10, "journal sync", "journal synced")
	add("applier", 20, "apply", "settled", "synced", "committed")
	add("applier", 1, "durable", "replayed", "replay durable")
	add("pack rotation", 2, "pack begun", "pack started")
	add("checkpoint", 2, "checkpoint", "checkpointed")
	add("merge of segments", 3, "merge", "merged")
	add("rollback", 2, "rollback", "rollback appended", "rolled back")
	add("import", 2, "import read", "import appended", "imported")
	for _, n := range []string{"gc step", "gc stepped", "gc copied", "gc durable", "gc removed"} {
		list = append(list, faultPoint{part: "collection", name: n, late: map[string]int{"gc step": 20, "gc stepped": 20}[n] + 1, keep: collectAll})
	}
	list = append(list, faultPoint{part: "migration", name: "migrate", late: 10, old: true}, faultPoint{part: "migration", name: "migrated", late: 1, old: true})
	return list
}

// inReplay reports whether a point is met only by a start that finds changes in the journal.
func inReplay(point string) bool { return point == "replayed" || point == "replay durable" }

// TestKillAtPoints kills children at every fault point and judges what is left as TestKillRandom does.
func TestKillAtPoints(t *testing.T) {
	seed := killSeed(t)
	c := &killCount{hit: map[string]int{}}
	points := faultPoints()
	if *eachPoint == 0 && os.Getenv("WSFS_TEST_FULL") == "" {
		from := int(seed % 3)
		points = slices.DeleteFunc(points, func(faultPoint) bool { from++; return from%3 != 0 })
	}
	hits := make([]int, len(points))
	defer func() {
		for i, p := range points {
			t.Logf("%4d %s: %s", hits[i], p.part, p.name)
		}
		c.report(t)
	}()
	var l *life
	for turn := range max(1, *eachPoint) {
		for i, p := range points {
			for tries := 0; hits[i] <= turn; tries++ {
				if tries == 12 {
					t.Errorf("%s: no child came to it in %d tries", p.name, tries)
					break
				}
				if l == nil || l.n >= 10 { // small stores are judged sooner
					l = newLife(t, c, seed+uint64(c.kills))
				}
				if p.old {
					onDatabase(t, l.dir, func(db *sql.DB) {
						for _, q := range storetest.Schema3(t, "testdata/schema1.sql") {
							if _, err := db.Exec(q); err != nil {
								t.Fatalf("%s: %v", q, err)
							}
						}
					})
				}
				itself := false
				t.Run(fmt.Sprintf("%s/%d", p.name, turn), func(t *testing.T) {
					itself = l.round(t, &fate{point: p.name, n: 1 + l.r.IntN(p.late), after: time.Duration(1+tries) * 3 * time.Second, keep: p.keep, ops: 80 + 300*min(tries, 1)})
				})
				if t.Failed() {
					return
				}
				if itself {
					hits[i]++
				}
			}
		}
	}
}
