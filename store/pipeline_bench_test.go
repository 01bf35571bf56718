package store_test

import (
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"wsfs/store"
	"wsfs/store/sqlite"
)

// BenchmarkPipeline is one created file of 4 KiB all the way: hashed, acknowledged from the journal, compressed, packed
// and in the database. ack-ns/op is what the caller waits; the rest goes on behind it.
func BenchmarkPipeline(b *testing.B) {
	ctx := b.Context()
	dir := filepath.Join(b.TempDir(), "store")
	makeKillStore(b, dir)
	s, err := store.Open(ctx, dir, sqlite.Driver(), store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	w := &writer{s: s, seq: 1, start: 1}
	w.bytes = func(seq store.Seq) []byte {
		data := make([]byte, 4096)
		r := rand.New(rand.NewPCG(uint64(seq), 5))
		for i := range data {
			data[i] = "etaoin shrdlu\n"[r.IntN(14)] // compresses like text
		}
		return data
	}
	var acks time.Duration
	for b.Loop() {
		data := w.bytes(w.seq + 1)
		start := time.Now()
		slot, _, err := w.append(ctx, store.Attribution{}, data)
		if err == nil {
			err = s.Wait(slot)
		}
		acks += time.Since(start)
		if err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Apply(ctx, s.Last()); err != nil {
		b.Fatal(err)
	}
	st := s.QueueStats()
	b.ReportMetric(float64(acks)/float64(b.N), "ack-ns/op")
	b.ReportMetric(float64(st.Last)/float64(st.Groups), "ops/group")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
}
