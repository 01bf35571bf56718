package daemon

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strings"

	"wsfs/fs/fuse"
)

// serveMetrics writes the counters in Prometheus' text format.
func (d *Daemon) serveMetrics(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	m := &metrics{w: bufio.NewWriter(w)}
	defer m.w.Flush()
	m.head("wsfs_info", "gauge", "The program and the store it serves.")
	m.value("wsfs_info", 1, "version", d.o.Version, "store", d.o.Store)
	m.head("wsfs_start_time_seconds", "gauge", "When the daemon started.")
	m.value("wsfs_start_time_seconds", float64(d.started.UnixNano())/1e9)

	q := d.st.QueueStats()
	m.head("wsfs_ops", "counter", "Changes since the start that reached a state.")
	m.value("wsfs_ops", float64(q.Last), "state", "acknowledged")
	m.value("wsfs_ops", float64(q.Written), "state", "written")
	m.value("wsfs_ops", float64(q.Durable), "state", "durable")
	m.value("wsfs_ops", float64(q.Applied), "state", "applied")
	m.head("wsfs_pending_bytes", "gauge", "Bytes of changes that the database does not have yet.")
	m.value("wsfs_pending_bytes", float64(q.PendingBytes))
	m.head("wsfs_groups_total", "counter", "Database transactions.")
	m.value("wsfs_groups_total", float64(q.Groups))
	m.head("wsfs_journal_flushes_total", "counter", "Writes to the journal.")
	m.value("wsfs_journal_flushes_total", float64(q.Flushes))
	m.head("wsfs_journal_syncs_total", "counter", "Rounds of fdatasync.")
	m.value("wsfs_journal_syncs_total", float64(q.Syncs))
	m.head("wsfs_stalled", "gauge", "1 while the database cannot be written (disk full, locked).")
	m.value("wsfs_stalled", flag(q.Stalled != nil))
	m.head("wsfs_stopped", "gauge", "1 since an error of the disk: nothing is acknowledged before the store is opened again.")
	m.value("wsfs_stopped", flag(q.Stopped != nil))
	_, n := d.errors.get()
	m.head("wsfs_errors_total", "counter", "Errors in the log.")
	m.value("wsfs_errors_total", float64(n))

	d.depthMetrics(r, m, q)
	d.mountMetrics(m)

	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	m.head("go_goroutines", "gauge", "Goroutines that exist.")
	m.value("go_goroutines", float64(runtime.NumGoroutine()))
	m.head("go_memstats_heap_inuse_bytes", "gauge", "Heap in use.")
	m.value("go_memstats_heap_inuse_bytes", float64(mem.HeapInuse))
	m.head("go_gc_cycles_total", "counter", "Garbage collections.")
	m.value("go_gc_cycles_total", float64(mem.NumGC))
	if rss := residentBytes(); rss > 0 {
		m.head("process_resident_memory_bytes", "gauge", "Resident memory.")
		m.value("process_resident_memory_bytes", float64(rss))
	}
}

func (d *Daemon) mountMetrics(m *metrics) {
	type one struct {
		labels []string
		s      fuse.Stats
	}
	var all []one
	d.mu.Lock()
	for point, mt := range d.mounts {
		if mt.m != nil {
			all = append(all, one{[]string{"workspace", mt.req.Workspace, "mountpoint", point}, mt.m.Stats()})
		}
	}
	d.mu.Unlock()
	m.head("wsfs_mounts", "gauge", "Mounts that are served.")
	m.value("wsfs_mounts", float64(len(all)))
	each := func(name, kind, help string, get func(*fuse.Stats) float64) {
		m.head(name, kind, help)
		for i := range all {
			m.value(name, get(&all[i].s), all[i].labels...)
		}
	}
	each("wsfs_fuse_panics_total", "counter", "Handlers that met a bug; their request got EIO.", func(s *fuse.Stats) float64 { return float64(s.Panics) })
	each("wsfs_fuse_refused_total", "counter", "Requests answered with an error by the transport.", func(s *fuse.Stats) float64 { return float64(s.Refused) })
	each("wsfs_fuse_near_total", "counter", "Replies written from the processor of the only client.", func(s *fuse.Stats) float64 { return float64(s.Near) })
	each("wsfs_fuse_poll_hits_total", "counter", "Requests found while polling.", func(s *fuse.Stats) float64 { return float64(s.PollHits) })
	each("wsfs_fuse_poll_misses_total", "counter", "Polls that found nothing.", func(s *fuse.Stats) float64 { return float64(s.PollMisses) })
	each("wsfs_fuse_blocked_total", "counter", "Times the reader blocked.", func(s *fuse.Stats) float64 { return float64(s.Blocked) })
	each("wsfs_fuse_yields_total", "counter", "Times a handler handed the reader's role on.", func(s *fuse.Stats) float64 { return float64(s.Yields) })
	each("wsfs_fuse_taken_total", "counter", "Times the reader's role was taken from a handler that was kept waiting.", func(s *fuse.Stats) float64 { return float64(s.Taken) })
	each("wsfs_fuse_workers", "gauge", "Goroutines that serve requests.", func(s *fuse.Stats) float64 { return float64(s.Workers) })
	each("wsfs_fuse_notifications_total", "counter", "Invalidations sent to the kernel.", func(s *fuse.Stats) float64 { return float64(s.Notified) })
	each("wsfs_fuse_notification_errors_total", "counter", "Invalidations the kernel refused.", func(s *fuse.Stats) float64 { return float64(s.NotifyErrors) })

	const requests, failed, seconds = "wsfs_fuse_requests_total", "wsfs_fuse_request_errors_total", "wsfs_fuse_request_duration_seconds"
	m.head(requests, "counter", "Requests of the kernel.")
	for _, o := range all {
		for _, op := range o.s.Ops {
			m.value(requests, float64(op.Count), append(o.labels, "op", op.Name)...)
		}
	}
	m.head(failed, "counter", "Requests answered with an errno; most are a plain ENOENT.")
	for _, o := range all {
		for _, op := range o.s.Ops {
			m.value(failed, float64(op.Errors), append(o.labels, "op", op.Name)...)
		}
	}
	m.head(seconds, "histogram", "Time in the handler.")
	for _, o := range all {
		for _, op := range o.s.Ops {
			labels := append(o.labels[:len(o.labels):len(o.labels)], "op", op.Name)
			var sum uint64
			for i, n := range op.Latency {
				sum += n
				if n > 0 && i < len(op.Latency)-1 {
					le := float64(uint64(1)<<i) / 1e6
					m.value(seconds+"_bucket", float64(sum), append(labels[:len(labels):len(labels)], "le", fmt.Sprint(le))...)
				}
			}
			m.value(seconds+"_bucket", float64(sum), append(labels[:len(labels):len(labels)], "le", "+Inf")...)
			m.value(seconds+"_sum", op.Time.Seconds(), labels...)
			m.value(seconds+"_count", float64(op.Count), labels...)
		}
	}
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

type metrics struct{ w *bufio.Writer }

func (m *metrics) head(name, kind, help string) {
	fmt.Fprintf(m.w, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

// value writes one sample; labels are name, value, name, value.
func (m *metrics) value(name string, v float64, labels ...string) {
	m.w.WriteString(name)
	escape := strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
	for i := 0; i+1 < len(labels); i += 2 {
		sep := ","
		if i == 0 {
			sep = "{"
		}
		fmt.Fprintf(m.w, `%s%s="%s"`, sep, labels[i], escape.Replace(strings.ToValidUTF8(labels[i+1], "\uFFFD")))
	}
	if len(labels) > 0 {
		m.w.WriteByte('}')
	}
	fmt.Fprintf(m.w, " %v\n", v)
}

// residentBytes is this process's resident memory, 0 if unknown.
func residentBytes() int64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(b), &size, &resident); err != nil {
		return 0
	}
	return resident * int64(os.Getpagesize())
}
