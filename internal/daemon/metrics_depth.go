package daemon

import (
	"net/http"

	"wsfs/store"
)

// depthMetrics writes what tells that a daemon falls behind or has too little of something.
func (d *Daemon) depthMetrics(r *http.Request, m *metrics, q store.QueueStats) {
	m.head("wsfs_journal_depth_ops", "gauge", "Changes in the journal that the database does not have yet.")
	m.value("wsfs_journal_depth_ops", float64(q.Last-q.Applied))
	m.head("wsfs_journal_segments", "gauge", "Files of the journal.")
	m.value("wsfs_journal_segments", float64(q.Segments))
	m.head("wsfs_unsynced_ops", "gauge", "Acknowledged changes that a power loss would take.")
	m.value("wsfs_unsynced_ops", float64(max(0, q.Last-q.Durable)))
	m.head("wsfs_apply_lag_seconds", "gauge", "For how long there has been a change that the database does not have, 0 if it has all.")
	m.value("wsfs_apply_lag_seconds", d.lag.of(d.o.Now(), q.Last, q.Applied).Seconds())
	c := d.st.Blobs().CacheStats()
	m.head("wsfs_blob_cache_bytes", "gauge", "Decoded contents in memory.")
	m.value("wsfs_blob_cache_bytes", float64(c.Bytes))
	m.head("wsfs_blob_cache_limit_bytes", "gauge", "The most of them.")
	m.value("wsfs_blob_cache_limit_bytes", float64(c.Limit))
	m.head("wsfs_blob_cache_requests_total", "counter", "Contents that were asked for in memory.")
	m.value("wsfs_blob_cache_requests_total", float64(c.Hits), "found", "yes")
	m.value("wsfs_blob_cache_requests_total", float64(c.Misses), "found", "no")
	if n, err := d.st.OpenConflicts(r.Context()); err == nil {
		m.head("wsfs_conflicts", "gauge", "Conflicts that nobody has resolved.")
		m.value("wsfs_conflicts", float64(n))
	}
	m.head("wsfs_held", "gauge", "1 while a backup keeps packs from being deleted.")
	m.value("wsfs_held", flag(d.st.Held()))
}
