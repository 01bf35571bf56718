package blob_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"testing"

	"golang.org/x/sys/unix"

	"wsfs/blob"
	"wsfs/blob/blobtest"
)

// text returns n bytes that compress about as well as source code does.
func text(seed uint64, n int) []byte {
	words := bytes.Fields([]byte("func return if err nil for range type struct string int64 byte error package import context " +
		"the of and to a in is it that was for on are as with his they at be this have from or one had by word but not what all were"))
	r := random(seed, n/3+1)
	var b bytes.Buffer
	for i := 0; b.Len() < n; i++ {
		b.Write(words[int(r[i%len(r)])%len(words)])
		b.WriteByte(" \n\t("[r[(i*7+3)%len(r)]%4])
	}
	return b.Bytes()[:n]
}

type kind struct {
	name string
	make func(n int) []byte
}

var kinds = []kind{
	{"random", func(n int) []byte { return random(1, n) }},
	{"text", func(n int) []byte { return text(1, n) }},
	{"zero", func(n int) []byte { return make([]byte, n) }},
}

// cpuTime reports the processor's time per operation, which a busy machine changes less than the clock's.
func cpuTime(b *testing.B) (stop func()) {
	start := usage(b)
	return func() { b.ReportMetric(float64(usage(b)-start)/float64(b.N), "cpu-ns/op") }
}

func usage(b *testing.B) int64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// BenchmarkWrite stages large content that was written from start to end.
func BenchmarkWrite(b *testing.B) {
	const size = 256 << 20
	for _, k := range kinds {
		b.Run(k.name, func(b *testing.B) {
			data := k.make(size)
			b.SetBytes(size)
			b.ReportAllocs()
			defer cpuTime(b)()
			for b.Loop() {
				b.StopTimer()
				s := openStore(b, b.TempDir(), &blobtest.Index{}, blob.Options{})
				b.StartTimer()
				fresh(b, s, data)
			}
		})
	}
}

// BenchmarkRead reads large content from start to end as the kernel asks for it. Nothing is in the cache.
func BenchmarkRead(b *testing.B) {
	const size = 256 << 20
	for _, k := range kinds {
		b.Run(k.name, func(b *testing.B) {
			x := &blobtest.Index{}
			dir := b.TempDir()
			s := openStore(b, dir, x, blob.Options{})
			st := fresh(b, s, k.make(size))
			apply(b, s, x, st)
			p := make([]byte, 128<<10)
			b.SetBytes(size)
			b.ReportAllocs()
			defer cpuTime(b)()
			for b.Loop() {
				b.StopTimer()
				r := openStore(b, dir, x, blob.Options{ReadOnly: true, CacheBytes: 8 << 20})
				b.StartTimer()
				for off := int64(0); off < size; off += int64(len(p)) {
					if _, err := r.ReadAt(context.Background(), st.Content, p, off); err != nil && err != io.EOF {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// BenchmarkEdit changes a little of a large file.
func BenchmarkEdit(b *testing.B) {
	const size = 64<<20 + 300_000
	data := random(1, size)
	for _, bm := range []struct {
		name string
		size int64
		at   blob.Extent
	}{
		{"append100", size + 100, blob.Extent{Off: size, Len: 100}},
		{"overwrite4096", size, blob.Extent{Off: size/2 + 12345, Len: 4096}},
		{"truncate", size - 1000, blob.Extent{}},
	} {
		b.Run(bm.name, func(b *testing.B) {
			x := &blobtest.Index{}
			s := openStore(b, b.TempDir(), x, blob.Options{})
			st := fresh(b, s, data)
			apply(b, s, x, st)
			src := append(bytes.Clone(data), make([]byte, 100)...)
			var hashed, read int64
			b.ReportAllocs()
			defer cpuTime(b)()
			for i := 0; b.Loop(); i++ {
				copy(src[bm.at.Off:], fmt.Sprint(i)) // new bytes each time
				got, stats, err := s.Edit(context.Background(), st.Content, bm.size, []blob.Extent{bm.at}, bytes.NewReader(src))
				if err != nil {
					b.Fatal(err)
				}
				hashed, read = hashed+stats.BytesHashed, read+stats.BytesRead
				s.Applied([]blob.Staged{got})
			}
			b.ReportMetric(float64(hashed)/float64(b.N), "hashed/op")
			b.ReportMetric(float64(read)/float64(b.N), "read/op")
		})
	}
}

// BenchmarkSmall stages, settles and applies small contents in groups of 128.
func BenchmarkSmall(b *testing.B) {
	for _, size := range []int{100, 4096, 65536} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			x := &blobtest.Index{}
			s := openStore(b, b.TempDir(), x, blob.Options{})
			pool := text(3, 4<<20)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			defer cpuTime(b)()
			var group []blob.Staged
			for i := 0; b.Loop(); i++ {
				data := bytes.Clone(pool[i*997%(len(pool)-size):][:size])
				copy(data, fmt.Sprint(i))
				group = append(group, s.StageSmall(data))
				if len(group) == 128 {
					locs, err := s.Settle(context.Background(), group)
					if err != nil {
						b.Fatal(err)
					}
					x.Insert(locs...)
					s.Applied(group)
					group = group[:0]
				}
			}
		})
	}
}

// BenchmarkStage is what close of a small file waits for.
func BenchmarkStage(b *testing.B) {
	s := openStore(b, b.TempDir(), &blobtest.Index{}, blob.Options{})
	pool := text(3, 1<<20)
	b.SetBytes(4096)
	b.ReportAllocs()
	defer cpuTime(b)()
	for i := 0; b.Loop(); i++ {
		s.Applied([]blob.Staged{s.StageSmall(pool[i*997%(len(pool)-4096):][:4096:4096])})
	}
}

func BenchmarkSum(b *testing.B) {
	for _, size := range []int{1 << 10, 4 << 10, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			data := random(1, size)
			b.SetBytes(int64(size))
			defer cpuTime(b)()
			for b.Loop() {
				blob.Sum(data)
			}
		})
	}
}

// BenchmarkReadWarm reads what is in the cache.
func BenchmarkReadWarm(b *testing.B) {
	for _, size := range []int64{4 << 10, 32 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			x := &blobtest.Index{}
			s := openStore(b, b.TempDir(), x, blob.Options{})
			st := fresh(b, s, random(1, int(size)))
			apply(b, s, x, st)
			p := make([]byte, 4<<10)
			b.SetBytes(4 << 10)
			b.ReportAllocs()
			defer cpuTime(b)()
			for i := int64(0); b.Loop(); i++ {
				off := i * 4096 % min(size, 1<<20)
				if !s.Cached(st.Content, off, len(p)) && i > 1000 {
					b.Fatal("not cached")
				}
				if n, err := s.ReadAt(context.Background(), st.Content, p, off); n != len(p) {
					b.Fatal(err)
				}
			}
		})
	}
}
