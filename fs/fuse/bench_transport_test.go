package fuse

import (
	"bytes"
	"compress/flate"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// packEnv makes the test binary a process that compresses on every processor until it is killed.
const packEnv = "WSFS_TEST_PACK"

func packForEver() {
	for range runtime.NumCPU() {
		go func() {
			data := make([]byte, 1<<20)
			for i := range data {
				data[i] = "abcdefgh"[rand.IntN(8)]
			}
			for {
				w, _ := flate.NewWriter(&bytes.Buffer{}, flate.BestCompression)
				_, _ = w.Write(data)
			}
		}()
	}
	select {}
}

// place says where clients and server run.
type place struct {
	name           string
	client, server int // processor, -1 for any
	busy           bool
}

// BenchmarkTransports compares the transports: one call of each client, the median and the 99th percentile of all.
// getattr is one request over a file system that answers from memory; create (CREATE, WRITE, FLUSH, RELEASE of 4 KiB in
// a directory of each client's own) and read (OPEN, READ, FLUSH, RELEASE) are on a real workspace.
//
//	go test ./fs/fuse -run '^$' -bench Transports/ -benchtime 2000x
func BenchmarkTransports(b *testing.B) {
	places := []place{{"idle", -1, -1, false}, {"same-cpu", 0, 0, false}, {"other-cpu", 0, 1, false}, {"busy", -1, -1, true}}
	for _, call := range []string{"getattr", "create", "read"} {
		for _, p := range places {
			for _, clients := range []int{1, 2, 4, 16} {
				if p.client >= 0 && (clients > 1 || p.server >= runtime.NumCPU()) {
					continue
				}
				for _, tr := range transports() {
					b.Run(fmt.Sprintf("%s/%s/%d/%s", call, p.name, clients, tr), func(b *testing.B) {
						benchTransport(b, call, p, clients, tr)
					})
				}
			}
		}
	}
}

func benchTransport(b *testing.B, call string, p place, clients int, tr Transport) {
	c := serveConfig{Options: Options{Transport: tr}}
	if call != "getattr" {
		c.Store = filepath.Join(b.TempDir(), "store")
	}
	restore := pinTo(b, p.server)
	s := startServer(b, c)
	restore()
	if p.busy {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), packEnv+"=1")
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
		time.Sleep(200 * time.Millisecond)
	}
	took := make([][]time.Duration, clients)
	var wg sync.WaitGroup
	b.ResetTimer()
	for i := range clients {
		wg.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			defer pinTo(b, p.client)()
			one, end := benchCall(b, s, call, i)
			defer end()
			for range b.N {
				start := time.Now()
				one()
				took[i] = append(took[i], time.Since(start))
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	all := slices.Concat(took...)
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)/2])/1e3, "p50-us")
	b.ReportMetric(float64(all[len(all)*99/100])/1e3, "p99-us")
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(len(all)), "us/call")
	b.ReportMetric(0, "ns/op")
}

// benchCall returns what one client does again and again.
func benchCall(b *testing.B, s *server, call string, client int) (one, end func()) {
	data, buf := bytes.Repeat([]byte("line of text\n"), 4096/13), make([]byte, 4096)
	check := func(err error) {
		if err != nil {
			b.Error(err)
		}
	}
	dir := s.path(fmt.Sprintf("d%d", client))
	if call != "getattr" {
		check(os.Mkdir(dir, 0o755))
		check(os.WriteFile(dir+"/f", data, 0o644))
	}
	n := 0
	switch call {
	case "create":
		return func() {
			n++
			fd, err := syscall.Open(fmt.Sprintf("%s/%d", dir, n), syscall.O_CREAT|syscall.O_EXCL|syscall.O_WRONLY, 0o644)
			check(err)
			_, err = syscall.Write(fd, data)
			check(err)
			check(syscall.Close(fd))
		}, func() {}
	case "read":
		return func() {
			fd, err := syscall.Open(dir+"/f", syscall.O_RDONLY, 0)
			check(err)
			_, err = syscall.Read(fd, buf)
			check(err)
			check(syscall.Close(fd))
		}, func() {}
	}
	f, err := os.Open(s.path("f"))
	check(err)
	var st unix.Statx_t
	return func() {
		check(unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH|unix.AT_STATX_FORCE_SYNC, unix.STATX_BASIC_STATS, &st))
	}, func() { _ = f.Close() }
}

// pinTo binds the calling thread, and what it starts, to a processor until the function it returns is called.
func pinTo(b *testing.B, cpu int) func() {
	if cpu < 0 {
		return func() {}
	}
	runtime.LockOSThread()
	var was, set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedGetaffinity(0, &was); err != nil {
		b.Error(err)
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		b.Error(err)
	}
	return func() {
		_ = unix.SchedSetaffinity(0, &was)
		runtime.UnlockOSThread()
	}
}
