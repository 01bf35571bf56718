package store_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"wsfs/store"
	"wsfs/store/sqlite"
	"wsfs/store/storetest"
)

// breakage is a change behind the store's back that one rule of Check must report. It may break others as well.
type breakage struct {
	rule int
	name string
	sql  []string
}

// A file with one name and content on the timeline of the first workspace, and a timeline with a parent.
const (
	aFile = `(SELECT min(v.ino) FROM file_version v JOIN file_node f ON f.timeline_id = v.timeline_id AND f.ino = v.ino
		WHERE v.timeline_id = 1 AND v.nlink = 1 AND v.mode & 61440 = 32768 AND v.content_hash IS NOT NULL
		AND v.seq = (SELECT max(w.seq) FROM file_version w WHERE w.timeline_id = 1 AND w.ino = v.ino))`
	aFork    = `(SELECT max(id) FROM timeline WHERE parent_id <> 0 AND hidden = 0)`
	aSegment = `(SELECT max(id) FROM timeline WHERE hidden = 1)`
)

func breakages() []breakage {
	return []breakage{
		{2, "parent gone", []string{`UPDATE timeline SET parent_id = 999 WHERE id = ` + aFork}},
		{2, "parent too short", []string{`UPDATE timeline SET parent_seq = 999999, head_seq = 9999999 WHERE id = ` + aFork}},
		{3, "chain", []string{`UPDATE timeline SET chain = '[[1,1]]' WHERE id = ` + aFork}},
		{4, "head behind", []string{`UPDATE timeline SET head_seq = 1 WHERE id = 1`}},
		{5, "row below the fork", []string{`INSERT INTO change SELECT id, 1, 0, 1, 0, 0, 0, 0, NULL, 0, 0, 0 FROM timeline WHERE id = ` + aFork}},
		{6, "count", []string{`UPDATE timeline SET change_count = change_count + 1 WHERE id = 1`}},
		{7, "workspace on nothing", []string{`UPDATE workspace SET timeline_id = 999 WHERE id = 1`}},
		{7, "rows of nothing", []string{`INSERT INTO file_node VALUES (999, 1, x'61', 1, 2, 32768)`}},
		{8, "pointer moved in secret", []string{`UPDATE workspace SET generation = generation + 1 WHERE id = 1`}},
		{8, "no reflog", []string{`DELETE FROM workspace_ref WHERE workspace_id = 1`}},
		{9, "base above the head", []string{`UPDATE workspace SET timeline_id = NULL, base_timeline_id = 1, base_seq = 999999 WHERE id = 1`}},
		{9, "tag above the head", []string{`INSERT INTO tag VALUES (1, 't', 1, 999999)`}},
		{10, "ends before it begins", []string{`UPDATE file_node_history SET end_seq = seq WHERE seq = (SELECT min(seq) FROM file_node_history)`}},
		{11, "overlap", []string{`UPDATE file_node_history SET end_seq = end_seq + 100000`}},
		{12, "tombstone of nothing", []string{`UPDATE file_node SET ino = 0, kind = 0 WHERE timeline_id = 1 AND ino = ` + aFile}},
		{13, "gap over an ancestor", []string{`DELETE FROM file_node WHERE ino = 0`}},
		{14, "version without change", []string{`DELETE FROM change WHERE timeline_id = 1 AND seq = (SELECT max(seq) FROM file_version WHERE timeline_id = 1)`}},
		{15, "item missing", []string{`UPDATE change_item SET n = n + 1 WHERE timeline_id = 1 AND n = 0`}},
		{16, "slash", []string{`UPDATE file_node SET name = x'612f62' WHERE timeline_id = 1 AND ino = ` + aFile}},
		{16, "dot", []string{`UPDATE file_node SET name = x'2e' WHERE timeline_id = 1 AND ino = ` + aFile}},
		{16, "empty", []string{`UPDATE file_node SET name = x'' WHERE timeline_id = 1 AND ino = ` + aFile}},
		{17, "tag of nothing", []string{`INSERT INTO tag VALUES (999, 't', 1, 1)`}},
		{18, "tag on a child", []string{`INSERT INTO tag SELECT 1, 't', id, parent_seq FROM timeline WHERE id = ` + aFork}},
		{18, "pin on a child", []string{`INSERT INTO pin SELECT id, parent_seq, 'mount', '/m', 0 FROM timeline WHERE id = ` + aFork}},
		{48, "collected beyond the head", []string{`UPDATE timeline SET gc_seq = head_seq + 2 WHERE id = 1`}},
		{19, "pin of an unknown kind", []string{`INSERT INTO pin VALUES (1, 1, 'needle', '/m', 0)`}},
		{19, "pin for nothing", []string{`INSERT INTO pin VALUES (1, 1, 'mount', '', 0)`}},
		{20, "no version", []string{`DELETE FROM file_version WHERE ino = ` + aFile}},
		{20, "no root", []string{`DELETE FROM file_version WHERE ino = 1`}},
		{21, "type", []string{`UPDATE file_node SET kind = 40960 WHERE ino = ` + aFile}},
		{22, "link count", []string{`UPDATE file_version SET nlink = 7 WHERE ino = ` + aFile}},
		{23, "subdirectories", []string{`UPDATE file_version SET nlink = 70 WHERE ino = 1`}},
		{24, "two names", []string{`INSERT INTO file_node SELECT timeline_id, 1, x'7a7a7a', seq, ino, kind FROM file_node
			WHERE kind = 16384 ORDER BY timeline_id DESC LIMIT 1`}},
		{25, "orphan", []string{`DELETE FROM file_node WHERE timeline_id = 1 AND ino = ` + aFile}},
		{26, "names in nothing", []string{`UPDATE file_node SET parent_ino = 888 WHERE timeline_id = 1 AND ino = ` + aFile}},
		{27, "parent version gone", []string{`UPDATE file_version SET parent_version_id = 999999 WHERE ino = ` + aFile}},
		{28, "replaced version gone", []string{`UPDATE file_version SET replaced_version_id = 999999 WHERE ino = ` + aFile}},
		{29, "directory with content", []string{`UPDATE file_version SET content_hash = x'00' WHERE ino = 1`}},
		{29, "file without content", []string{`UPDATE file_version SET content_hash = NULL WHERE ino = ` + aFile}},
		{30, "blob gone", []string{`DELETE FROM blob`}},
		{31, "blob nowhere", []string{`UPDATE blob SET data = NULL, pack = 0`}},
		{32, "leaf gone", []string{`DELETE FROM blob WHERE hash NOT IN (SELECT content_hash FROM file_version WHERE content_hash IS NOT NULL)`}},
		{33, "wrong bytes", []string{`UPDATE blob SET data = x'0102030405' WHERE data IS NOT NULL`}},
		{33, "wrong place", []string{`UPDATE blob SET pack_offset = pack_offset + 1 WHERE pack > 0`}},
		{3, "a hidden segment is left out", []string{`UPDATE timeline SET chain = replace(chain, '[' || ` + aSegment + ` || ',', '[1,')`}},
		{34, "not what its cut is", []string{`UPDATE timeline SET head_seq = head_seq + 1 WHERE hidden = 1`}},
		{34, "stands for others", []string{`UPDATE timeline SET chain = '[[1,1]]' WHERE hidden = 1`}},
		{35, "version missing", []string{`DELETE FROM file_version WHERE timeline_id = ` + aSegment}},
		{35, "another version", []string{`UPDATE file_version SET mtime = mtime + 1 WHERE timeline_id = ` + aSegment}},
		{35, "a version of elsewhere", []string{`UPDATE file_version SET origin_timeline_id = 999 WHERE timeline_id = ` + aSegment}},
		{35, "name missing", []string{`DELETE FROM file_node WHERE timeline_id = ` + aSegment}},
		{35, "name too many", []string{`INSERT INTO file_node VALUES (` + aSegment + `, 1, x'7a7a', 1, 0, 0)`}},
		{35, "another inode", []string{`UPDATE file_node SET ino = ino + 1 WHERE timeline_id = ` + aSegment}},
		{35, "count", []string{`UPDATE timeline SET change_count = change_count + 1 WHERE hidden = 1`}},
		{36, "tag", []string{`INSERT INTO tag VALUES (1, 't', ` + aSegment + `, 1)`}},
		{36, "parent", []string{`UPDATE timeline SET parent_id = ` + aSegment + ` WHERE id = ` + aFork}},
		{36, "history", []string{`INSERT INTO file_node_history VALUES (` + aSegment + `, 1, x'7a7a', 1, 2, 7, 32768)`}},
		{37, "a copy on a timeline", []string{`UPDATE file_version SET origin_timeline_id = 1 WHERE timeline_id = ` + aFork}},
		{37, "a copy of nothing", []string{`UPDATE file_version SET origin_timeline_id = 0, version_id = version_id + 1000000 WHERE timeline_id = ` + aSegment}},
		{40, "session gone", []string{`DELETE FROM session`}},
		{40, "command gone", []string{`DELETE FROM command`}},
		{41, "parent process gone", []string{`UPDATE process SET parent_id = 999 WHERE parent_id <> 0`}},
		{41, "own parent", []string{`UPDATE process SET parent_id = id WHERE parent_id <> 0`}},
		{42, "command of nobody", []string{`UPDATE command SET session_id = 999`}},
		{43, "command backwards", []string{`UPDATE command SET seq_before = seq_after + 1`}},
		{44, "command too short", []string{`UPDATE command SET seq_before = seq_after - 1`}},
		{46, "undo of what never was", []string{`INSERT INTO undone SELECT timeline_id, seq, 9, 0, 999, 1, 1, 0, 0 FROM change WHERE kind = 17 LIMIT 1`}},
		{46, "undo by a write", []string{`INSERT INTO undone SELECT timeline_id, seq, 0, 0, timeline_id, seq, seq, 0, 0 FROM change WHERE kind = 2 LIMIT 1`}},
		{46, "undo without a change", []string{`INSERT INTO undone VALUES (1, 999999, 0, 0, 1, 1, 1, 0, 0)`}},
		{46, "undo backwards", []string{`UPDATE undone SET from_seq = to_seq + 1`}},
		{47, "parent session gone", []string{`UPDATE session_origin SET parent_id = 999 WHERE parent_id <> 0`}},
		{47, "note of no process", []string{`INSERT INTO process_unread VALUES (9999999)`}},
		{49, "the newest among those of before", []string{`UPDATE file_version SET past = 1 WHERE timeline_id = 1 AND ino = ` + aFile}},
		{49, "two newest", []string{`UPDATE file_version SET past = 0 WHERE timeline_id = 1`}},
		{45, "number given out again", []string{`UPDATE counter SET next = 3`}},
	}
}

func TestCheckReports(t *testing.T) {
	ctx := t.Context()
	dir := t.TempDir()
	drv := sqlite.Driver()
	if err := store.Init(ctx, dir, drv); err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(ctx, dir, drv, store.Options{MergeAfter: 1})
	if err != nil {
		t.Fatal(err)
	}
	storetest.Populate(t, st, 4, 300)
	if err := st.MergeSegments(ctx); err != nil {
		t.Fatal(err)
	}
	storetest.Check(t, st)
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	tested := make(map[int]bool)
	for _, b := range breakages() {
		tested[b.rule] = true
		t.Run(fmt.Sprintf("%d %s", b.rule, b.name), func(t *testing.T) { broken(t, dir, b) })
	}
	for _, rule := range store.Rules() {
		if !tested[rule] && rule != 1 { // rule 1 is the database's own: sqlite.TestDamage
			t.Errorf("no test breaks rule %d", rule)
		}
	}
}

func TestRulesAreDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "docs", "format.md"))
	if err != nil {
		t.Fatal(err)
	}
	documented := make(map[int]bool)
	for _, row := range regexp.MustCompile(`(?m)^\| ([0-9][0-9, -]*) \|`).FindAllSubmatch(text, -1) {
		for part := range strings.SplitSeq(string(row[1]), ",") {
			var from, to int
			if n, _ := fmt.Sscanf(part, "%d-%d", &from, &to); n == 1 {
				to = from
			}
			for ; from <= to; from++ {
				documented[from] = true
			}
		}
	}
	rules := append(store.Rules(), store.FileRules()...)
	for _, rule := range rules {
		if !documented[rule] {
			t.Errorf("docs/format.md does not have rule %d", rule)
		}
	}
	for rule := range documented {
		if !slices.Contains(rules, rule) {
			t.Errorf("docs/format.md has rule %d, which nobody checks", rule)
		}
	}
}

func broken(t *testing.T, from string, b breakage) {
	t.Helper()
	ctx := context.Background()
	dir := filepath.Join(t.TempDir(), "store")
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(ctx, dir, sqlite.Driver(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, q := range b.sql {
		if err := st.Exec(ctx, q); err != nil {
			t.Fatal(err)
		}
	}
	found := false
	var all []store.Problem
	err = st.Check(ctx, func(p store.Problem) {
		found = found || p.Rule == b.rule
		all = append(all, p)
	})
	if err != nil || !found {
		t.Errorf("check: %v, and rule %d was not among %v", err, b.rule, all[:min(len(all), 10)])
	}
}
