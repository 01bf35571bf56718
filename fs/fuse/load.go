package fuse

import (
	"bytes"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// loadGauge tells whether somebody waits for a processor, from the kernel's pressure counters. Without them (a kernel
// without CONFIG_PSI) it always says no, and the waiter goes by being preempted alone.
type loadGauge struct {
	fd    int // /proc/pressure/cpu, -1 if there is none
	at    time.Time
	total int64 // us that at least one task waited, at at
	last  bool
}

const (
	gaugeEvery = 10 * time.Millisecond
	// gaugeBusy: with more than 1/4 of the time contended, polling takes from somebody.
	gaugeBusy = 4
)

func newLoadGauge() *loadGauge {
	fd, err := unix.Open("/proc/pressure/cpu", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		fd = -1
	}
	return &loadGauge{fd: fd}
}

func (g *loadGauge) close() {
	if g.fd >= 0 {
		_ = unix.Close(g.fd)
		g.fd = -1
	}
}

// busy is cheap to ask often: it looks every gaugeEvery.
func (g *loadGauge) busy(now time.Time) bool {
	if g.fd < 0 || now.Sub(g.at) < gaugeEvery {
		return g.last
	}
	total, ok := g.read()
	if !ok {
		return false
	}
	waited, passed := time.Duration(total-g.total)*time.Microsecond, now.Sub(g.at)
	g.last = !g.at.IsZero() && passed < time.Second && waited > passed/gaugeBusy
	g.at, g.total = now, total
	return g.last
}

// read parses "some avg10=0.00 avg60=0.00 avg300=0.00 total=123".
func (g *loadGauge) read() (int64, bool) {
	var buf [256]byte
	n, err := unix.Pread(g.fd, buf[:], 0)
	if err != nil {
		return 0, false
	}
	_, rest, ok := bytes.Cut(buf[:n], []byte("total="))
	if !ok {
		return 0, false
	}
	if i := bytes.IndexByte(rest, '\n'); i >= 0 {
		rest = rest[:i]
	}
	v, err := strconv.ParseInt(string(rest), 10, 64)
	return v, err == nil
}
