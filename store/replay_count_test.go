package store_test

import (
	"fmt"
	"testing"
	"time"

	"wsfs/store"
	"wsfs/store/sqlite"
)

// A change that was acknowledged is in the database once, however often its replay was begun. Every row of it is counted:
// TestReplayExactlyOnce does the same for each position of a journal without a database.
func TestReplayCounts(t *testing.T) {
	dir := newKillStore(t)
	ctx := t.Context()
	for _, point := range []string{"settled", "synced", "committed"} {
		kill(t, dir, fmt.Sprint(point, "#", 3), time.Minute)
		for _, n := range []int{1, 1, 2, 3} {
			kill(t, dir, fmt.Sprint("replayed#", n), early(200*time.Millisecond))
		}
		s, err := store.Open(ctx, dir, sqlite.Driver(), store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		line, err := s.Timeline(ctx, 1)
		if err != nil {
			t.Fatal(err)
		}
		// The first change made the root; each one since made a file: its name, its version, the directory's.
		files := int64(line.Head) - 1
		if files < 10 {
			t.Errorf("killed at %s: only %d changes: the test tests nothing", point, files)
		}
		for query, want := range map[string]int64{
			`SELECT count(*) FROM change WHERE seq > 1`:                                    files,
			`SELECT count(*) FROM change_item WHERE seq > 1`:                               files,
			`SELECT count(*) FROM file_node`:                                               files,
			`SELECT count(*) FROM file_node_history`:                                       0,
			`SELECT count(*) FROM file_version WHERE ino <> 1`:                             files,
			`SELECT count(DISTINCT seq) FROM file_version WHERE ino <> 1`:                  files,
			`SELECT count(DISTINCT version_id) FROM file_version WHERE ino <> 1`:           files,
			`SELECT count(*) - count(DISTINCT id) FROM command`:                            0,
			`SELECT count(*) FROM command WHERE id NOT IN (SELECT command_id FROM change)`: 0,
		} {
			if got, err := s.Count(ctx, query); err != nil || got != want {
				t.Errorf("killed at %s: %s is %d, want %d (%v)", point, query, got, want, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
