package storetest

import (
	"path/filepath"
	"testing"
	"time"

	"wsfs/store"
)

// backupCollecting copies while a collection removes blobs and rewrites packs, as often as it can: the copy has every head
// as it is, names no pack that it does not have, and every blob in it reads.
func backupCollecting(t *testing.T, drv store.Driver, o store.Options) {
	st := New(t, drv, o)
	w := newWorld(t, st, 23, 1024)
	w.gone = make(map[point]bool)
	c := &collected{w: w, tags: map[string]point{}, of: map[string]*tree{}}
	w.create("main")
	dest := filepath.Join(t.TempDir(), "copy")
	var packs, during int64
	collect := func() int64 {
		res, err := st.Collect(t.Context(), store.GCOptions{Keep: &store.Retention{Dropped: time.Nanosecond}})
		if err != nil {
			t.Fatal(err)
		}
		packs += res.Packs
		return res.Blobs + res.Versions + res.Packs
	}
	for range 3 {
		w.live(80)
		c.marks()
		done := make(chan error, 1)
		go func() {
			release := st.Hold()
			defer release()
			_, err := st.Backup(t.Context(), dest, store.BackupOptions{Full: true})
			done <- err
		}()
		for running := true; running; {
			during += collect()
			select {
			case err := <-done:
				if running = false; err != nil {
					t.Fatal(err)
				}
			default:
			}
		}
		ro, err := store.Open(t.Context(), dest, drv, store.Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		reader := *w
		reader.st, reader.last = ro, 0
		reader.compareHeads()
		Check(t, ro) // rows and the bytes of every blob
		if err := ro.CheckFiles(t.Context(), func(p store.Problem) { t.Errorf("the copy: %v", p) }); err != nil {
			t.Error(err)
		}
		if err := ro.Close(); err != nil {
			t.Fatal(err)
		}
		w.compareHeads()
		collect() // what the backup held
	}
	if packs == 0 || during == 0 {
		t.Errorf("%d packs were rewritten or removed, and %d things removed beside a backup: the test tests nothing", packs, during)
	}
}
