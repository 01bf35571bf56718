package daemon

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"wsfs/store"
)

// TestCollectsByItself lets a store grow beyond what its policy allows: it says so before, and the daemon makes it smaller by itself,
// the oldest history first.
func TestCollectsByItself(t *testing.T) {
	ctx := context.Background()
	var clock atomic.Int64
	clock.Store(time.Now().Add(-24 * time.Hour).UnixNano())
	d, c := serve(t, newStore(t), Options{
		Now: func() time.Time { return time.Unix(0, clock.Load()) }, collectEvery: 20 * time.Millisecond, collectIdle: 5 * time.Millisecond,
	})
	src := t.TempDir()
	save := func() int64 {
		t.Helper()
		clock.Add(int64(time.Hour))
		b := make([]byte, 400<<10)
		rand.Read(b)
		if err := os.WriteFile(filepath.Join(src, "f"), b, 0o644); err != nil {
			t.Fatal(err)
		}
		res, err := c.Import(ctx, ImportRequest{Workspace: "main", Dir: Path(src)}, func(ImportLine) {})
		if err != nil {
			t.Fatal(err)
		}
		return res.Seq
	}
	size := func() int64 {
		t.Helper()
		if _, err := c.Sync(ctx, SyncRequest{Durable: true}); err != nil {
			t.Fatal(err)
		}
		b, err := d.st.Budget(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return b.Bytes
	}
	first := save()
	least := size()
	limit := func(n int64) {
		t.Helper()
		if _, err := c.Retention(ctx, RetentionRequest{Keep: fmt.Sprintf("all; at most %dKiB", n>>10)}); err != nil {
			t.Fatal(err)
		}
	}
	budget := func() Budget {
		t.Helper()
		st, err := c.Status(ctx)
		if err != nil || st.Budget == nil {
			t.Fatalf("status says no budget: %+v, %v", st, err)
		}
		return *st.Budget
	}
	limit(least * 2)
	if b := budget(); b.Tight || b.Cap < least || b.Percent() > 60 {
		t.Errorf("half of what may be used is used, and the status says %+v", b)
	}
	limit(least / 100 * 115)
	if b := budget(); !b.Tight {
		t.Errorf("more than four fifths of what may be used are used, and the status says %+v", b)
	}
	if list, err := d.st.Removals(ctx, 0); err != nil || len(list) != 0 {
		t.Errorf("collected although there was room: %+v, %v", list, err)
	}

	limit(least + 3<<20)
	var last int64
	for range 18 { // 7 MiB
		last = save()
	}
	var list []store.Removal
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		var err error
		if list, err = d.st.Removals(ctx, 0); err != nil {
			t.Fatal(err)
		}
		n := size()
		if n <= least+3<<20 && len(list) > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the store has %d bytes and may have %d: %+v", n, least+3<<20, list)
		}
	}
	if list[0].Who != "daemon" || !strings.Contains(list[0].Rule, "at most") {
		t.Errorf("what the daemon removed: %+v", list)
	}
	_, err := c.Restore(ctx, RestoreRequest{Workspace: "main", Path: "f", Revision: strconv.FormatInt(first, 10)})
	wantExit(t, err, ExitFailed, "not kept any more")
	_, err = c.Restore(ctx, RestoreRequest{Workspace: "main", Path: "f", Revision: strconv.FormatInt(last, 10)})
	wantExit(t, err, ExitNothing, "as it was")
}
