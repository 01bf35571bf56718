package fuse

import (
	"os"
	"slices"
	"syscall"
	"testing"
	"time"
)

// BenchmarkGetattr is one uncached round trip: fstat(2) of a file whose attributes the kernel must ask for. The median
// is what docs/benchmarks.md quotes; the mean also counts what else the machine did.
func BenchmarkGetattr(b *testing.B) {
	for _, c := range []struct {
		name string
		o    Options
	}{
		{"own", Options{}},
		{"own-nopoll", Options{Poll: -1}},
		{"own-poll20", Options{Poll: 20 * time.Microsecond}},
		{"own-poll100", Options{Poll: 100 * time.Microsecond}},
		{"uring", Options{Transport: TransportUring}},
		{"stock", Options{Transport: TransportStock}},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := startServer(b, serveConfig{Options: c.o, NoCache: true})
			f, err := os.Open(s.path("f"))
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			fd := int(f.Fd())
			var st syscall.Stat_t
			took := make([]time.Duration, 0, 1<<20)
			for b.Loop() {
				start := time.Now()
				if err := syscall.Fstat(fd, &st); err != nil {
					b.Fatal(err)
				}
				if len(took) < cap(took) {
					took = append(took, time.Since(start))
				}
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2])/1e3, "p50-us")
			b.ReportMetric(float64(took[len(took)*99/100])/1e3, "p99-us")
		})
	}
}

// BenchmarkOpenReadClose is what grep does to each file whose pages are cached: OPEN, FLUSH, RELEASE.
func BenchmarkOpenReadClose(b *testing.B) {
	for _, c := range []struct {
		name    string
		tr      Transport
		noFlush bool
	}{{"own", TransportOwn, false}, {"own-noflush", TransportOwn, true}, {"uring", TransportUring, false}, {"stock", TransportStock, false}} {
		b.Run(c.name, func(b *testing.B) {
			s := startServer(b, serveConfig{Options: Options{Transport: c.tr}, NoFlush: c.noFlush})
			path, buf := s.path("f"), make([]byte, 4096)
			for b.Loop() {
				fd, err := syscall.Open(path, syscall.O_RDONLY, 0)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := syscall.Read(fd, buf); err != nil {
					b.Fatal(err)
				}
				syscall.Close(fd)
			}
		})
	}
}
