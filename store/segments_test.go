package store

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// A chain is JSON for everybody else who reads the database.
func TestChainText(t *testing.T) {
	for _, chain := range [][]Segment{{}, {{1, 2}}, {{7, 1 << 40}, {3, MaxSeq}, {2, 0}}} {
		text := encodeChain(chain)
		var pairs [][2]int64
		if err := json.Unmarshal([]byte(text), &pairs); err != nil || len(pairs) != len(chain) {
			t.Errorf("%s is no JSON of %d pairs: %v", text, len(chain), err)
		}
		got, err := decodeChain(text)
		if err != nil || !slices.Equal(got, chain) {
			t.Errorf("%s reads back as %v, %v", text, got, err)
		}
	}
}

func FuzzDecodeChain(f *testing.F) {
	f.Add("[]")
	f.Add("[[1,2],[3,4]]")
	f.Fuzz(func(t *testing.T, s string) {
		chain, err := decodeChain(s)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Error(err)
			}
			return
		}
		again, err := decodeChain(encodeChain(chain))
		if err != nil || !slices.Equal(again, chain) || strings.Count(s, "[") != len(chain)+1 {
			t.Errorf("%q became %v, then %v, %v", s, chain, again, err)
		}
	})
}

// However large the deltas of a line of forks are, paths stay short, and a row is copied a few times only.
func TestMergeRun(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for name, c := range map[string]struct {
		size   func(i int) int64
		copies int64 // of a row, on average
	}{
		"equal":     {func(int) int64 { return 10 }, 6},
		"tiny":      {func(int) int64 { return 1 }, 6},
		"large":     {func(int) int64 { return 5000 }, 6},
		"any":       {func(int) int64 { return 1 + rnd.Int64N(1000) }, 6},
		"wide":      {func(int) int64 { return 1 << rnd.IntN(18) }, 6},
		"shrinking": {func(i int) int64 { return 1 + int64(1<<20)/int64(i+1) }, 8},
		"growing":   {func(i int) int64 { return int64(i) + 1 }, 6},
	} {
		path := []int64{200_000} // an import
		var all, copied, longest int64
		for i := range 3000 {
			n := c.size(i)
			all += n
			path = append([]int64{n}, path...)
			if k := mergeRun(path, mergeAfter); k > 0 {
				var sum int64
				for _, n := range path[:k] {
					sum += n
				}
				copied += sum
				path = append([]int64{sum}, path[k:]...)
			}
			longest = max(longest, int64(len(path)))
		}
		if longest > mergeMost || copied > c.copies*(all+200_000) {
			t.Errorf("%s: paths of up to %d segments, %d rows copied for %d", name, longest, copied, all)
		}
		t.Logf("%s: at most %d segments, %d in the end, %.1f copies of a row", name, longest, len(path), float64(copied)/float64(all))
	}
}
