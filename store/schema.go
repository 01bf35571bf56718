package store

import (
	"fmt"
	"strings"
)

// SchemaVersion is the newest schema this program knows. docs/format.md describes it.
const SchemaVersion = 4

// table is one table as data, so that Stats and the migrations need no second list.
type table struct {
	name    string
	cols    string
	key     string // primary key of a table that lies in its order; "" if a column says PRIMARY KEY
	updated bool   // rows are updated in place all the time
	since   int    // schema version that brought it, if not the first
}

// In every integer column but those that say NULL, 0 stands for "none". Times are ns since the epoch. Names, argument
// lists and paths are bytes, because POSIX says so.
func schemaTables() []table {
	return []table{
		// state = parent@parent_seq + own rows; hidden 1: a segment that stands for those in chain, 2: one in the making
		{name: "timeline", updated: true, cols: `id INT PRIMARY KEY, parent_id INT, parent_seq INT, head_seq INT, gc_seq INT,
			epoch INT, change_count INT, chain TEXT, hidden INT`},
		{name: "workspace", cols: `id INT PRIMARY KEY, name TEXT, timeline_id INT NULL, base_timeline_id INT, base_seq INT,
			generation INT, readonly INT, parent_workspace_id INT, origin_path BYTES, created_at INT, dropped_at INT NULL`},
		{name: "workspace_ref", key: "workspace_id, n", cols: `workspace_id INT, n INT, generation INT, timeline_id INT NULL,
			base_timeline_id INT, base_seq INT, why TEXT, session_id INT, command_id INT, op_id INT, at INT`},
		{name: "tag", key: "workspace_id, name", cols: `workspace_id INT, name TEXT, timeline_id INT, seq INT`},
		{name: "journal", cols: `id INT PRIMARY KEY, applied INT`},
		{name: "change", key: "timeline_id, seq", cols: `timeline_id INT, seq INT, op_id INT, kind INT, undoes_change INT,
			session_id INT, command_id INT, process_id INT, host TEXT NULL, at INT, merged_timeline_id INT, merged_seq INT`},
		// from_* is the name that the target of a rename had before
		{name: "change_item", key: "timeline_id, seq, n", cols: `timeline_id INT, seq INT, n INT, op INT, ino INT,
			parent_ino INT, name BYTES, from_parent_ino INT, from_name BYTES NULL`},
		// the names of now; ino 0: removed here, though an ancestor has it
		{name: "file_node", key: "timeline_id, parent_ino, name", cols: `timeline_id INT, parent_ino INT, name BYTES, seq INT,
			ino INT, kind INT`},
		// superseded names: true for seq <= cut < end_seq
		{name: "file_node_history", key: "timeline_id, parent_ino, name, seq", cols: `timeline_id INT, parent_ino INT,
			name BYTES, seq INT, end_seq INT, ino INT, kind INT`},
		// atime NULL: as mtime; origin_timeline_id 0: this timeline, else a copy in a hidden segment; content_hash NULL: empty.
		// Schema 4 puts the states of now together.
		{name: "file_version", key: "timeline_id, ino, seq", cols: versionTableCols},
		// inline in data, or pack_length bytes at pack_offset of a pack. Not in the order of the hashes: those are random,
		// and one page written for each new blob is enough.
		{name: "blob", cols: `id SERIAL PRIMARY KEY, hash BYTES, size INT, encoding INT, data BYTES NULL, pack INT,
			pack_offset INT, pack_length INT`},
		{name: "blob_condemned", key: "hash", cols: `hash BYTES, at INT`},
		{name: "pin", key: "timeline_id, seq, kind, ref", cols: `timeline_id INT, seq INT, kind TEXT, ref TEXT, expires INT`},
		{name: "conflict", cols: `id INT PRIMARY KEY, op_id INT, timeline_id INT, ino INT, parent_ino INT, name BYTES,
			base_version_id INT, head_version_id INT, content_hash BYTES NULL, session_id INT, command_id INT, why TEXT,
			at INT, resolved_at INT NULL`},
		{name: "session", cols: `id INT PRIMARY KEY, name TEXT, workspace_id INT, host TEXT NULL, agent TEXT, started_at INT,
			ended_at INT NULL`},
		{name: "process", cols: `id INT PRIMARY KEY, session_id INT, parent_id INT, pid INT, start_ticks INT, comm BYTES,
			argv BYTES, cwd BYTES, uid INT`},
		// timeline_id, seq_before and seq_after are where it began and ended to change something
		{name: "command", cols: `id INT PRIMARY KEY, session_id INT, n INT, argv BYTES, cwd BYTES, timeline_id INT,
			seq_before INT, seq_after INT, state INT, exit INT NULL, started_at INT, ended_at INT NULL,
			output_ref BYTES NULL`},
		{name: "seen", key: "session_id, ino", cols: `session_id INT, ino INT, version_id INT`},
		{name: "lease", key: "timeline_id, mount_id", cols: `timeline_id INT, mount_id INT, mode TEXT, epoch INT, expires INT`},
		{name: "counter", key: "name", cols: `name TEXT, next INT`},
		// what the change (timeline_id, seq) takes back: the changes of a command with from_seq <= seq <= to_seq, or the move
		// of the workspace's pointer in line ref_n of its reflog
		{name: "undone", since: 2, key: "timeline_id, seq, n", cols: `timeline_id INT, seq INT, n INT, command_id INT,
			from_timeline_id INT, from_seq INT, to_seq INT, ref_n INT, partial INT`},
		// who started a session and with what; home_workspace_id: what it works on, if not the workspace of its row
		{name: "session_origin", since: 2, cols: `session_id INT PRIMARY KEY, parent_id INT, meta TEXT, home_workspace_id INT`},
		// processes whose environment could not be read
		{name: "process_unread", since: 2, cols: `process_id INT PRIMARY KEY`},
		// what is kept of the history, and how far collecting it is
		{name: "setting", since: 3, key: "name", cols: `name TEXT, value TEXT`},
		// what was removed for good: when, by which rule, by whom; detail is a JSON object
		{name: "removal", since: 3, cols: `id INT PRIMARY KEY, at INT, kind TEXT, rule TEXT, who TEXT, detail TEXT`},
		// what somebody said of a path of a workspace in the state timeline_id@seq: accepted (with the change into_*) or rejected;
		// hunks NULL: all of it
		{name: "review", since: 4, cols: `id SERIAL PRIMARY KEY, workspace_id INT, timeline_id INT, seq INT, path BYTES,
			hunks TEXT NULL, verdict TEXT, into_timeline_id INT, into_seq INT, session_id INT, command_id INT, at INT`},
		// contents that a class does not keep, though versions name them
		{name: "content_gone", since: 4, key: "hash", cols: `hash BYTES, class TEXT, at INT`},
	}
}

const versionTableCols = `timeline_id INT, ino INT, seq INT, version_id INT,
	parent_version_id INT, replaced_version_id INT, merge_version_id INT, origin_timeline_id INT, mode INT, uid INT,
	gid INT, nlink INT, rdev INT, size INT, holes INT, mtime INT, ctime INT, atime INT NULL,
	content_hash BYTES NULL, target BYTES NULL, xattrs BYTES NULL`

// There is deliberately no index on (timeline_id, seq) of file_node: SQLite would choose it for reading a directory
// (214 ms instead of 0.05 ms for 100 entries); plan_test.go guards that. Nor is there one on the content of
// file_version: nobody asks for it yet, and as hashes are random it cost a third of the time and 45 % of the bytes
// written for a new file (BenchmarkApply). Collection can make it, or sort.
func schemaIndexes() []string {
	return []string{
		`UNIQUE INDEX workspace_live ON workspace(name) WHERE dropped_at IS NULL`,
		`INDEX workspace_base ON workspace(base_timeline_id, base_seq)`,
		`INDEX timeline_parent ON timeline(parent_id, parent_seq)`,
		`UNIQUE INDEX change_op ON change(op_id) WHERE op_id <> 0`,
		`INDEX change_command ON change(command_id, timeline_id, seq)`,
		`INDEX change_session ON change(session_id, timeline_id, seq)`,
		`INDEX change_item_name ON change_item(timeline_id, parent_ino, seq)`,
		`INDEX change_item_from ON change_item(timeline_id, from_parent_ino, seq) WHERE from_parent_ino <> 0`,
		`INDEX change_item_ino ON change_item(timeline_id, ino, seq)`,
		`INDEX file_node_ino ON file_node(timeline_id, ino)`,
		`INDEX file_node_history_end ON file_node_history(timeline_id, parent_ino, end_seq)`,
		`INDEX file_node_history_ino ON file_node_history(timeline_id, ino, seq)`,
		`UNIQUE INDEX file_version_id ON file_version(version_id)`,
		`UNIQUE INDEX blob_hash ON blob(hash)`,
		`UNIQUE INDEX conflict_op ON conflict(op_id)`,
		`INDEX process_session ON process(session_id)`,
		`INDEX command_session ON command(session_id, n)`,
	}
}

// createSchema is the list of statements that make schema 1 with a driver's types.
func createSchema(t Types) []string {
	out := createTables(t, 1)
	for _, ix := range schemaIndexes() {
		out = append(out, "CREATE "+ix)
	}
	return out
}

// schema2 lets hidden segments hold copies of versions: an id is unique among the rows that are no copies. And of ten thousand
// forks the one that stands on a timeline is found at once.
func schema2() []string {
	return []string{
		"DROP INDEX file_version_id",
		"CREATE UNIQUE INDEX file_version_id ON file_version(version_id) WHERE origin_timeline_id = 0",
		"CREATE INDEX workspace_timeline ON workspace(timeline_id) WHERE timeline_id IS NOT NULL",
	}
}

// schema4 splits versions: past 0 is an inode's newest one on its timeline, if that has names, and 1 all others: those that were superseded
// there, and the last ones of what was removed. What a directory shows lies together then, however often it was changed. All is copied, in the order in which it will lie. Where contents are (places.go) is
// left to those who write next.
func schema4(t Types) []string {
	tb := table{name: "file_version_4", key: "timeline_id, past, ino, seq", cols: "past INT, " + versionTableCols + ", place BYTES NULL"}
	var cols []string
	for c := range strings.SplitSeq("past INT, "+versionTableCols, ",") {
		cols = append(cols, strings.Fields(c)[0])
	}
	into := "INSERT INTO file_version_4 (" + strings.Join(cols, ", ") + ") SELECT "
	const newer = " FROM file_version v WHERE %s (v.nlink = 0 OR EXISTS (SELECT 1 FROM file_version w WHERE w.timeline_id = v.timeline_id" +
		" AND w.ino = v.ino AND w.seq > v.seq)) ORDER BY v.timeline_id, v.ino, v.seq"
	rest := ", v." + strings.Join(cols[1:], ", v.")
	return []string{
		createTable(t, tb),
		into + "0" + rest + fmt.Sprintf(newer, "NOT"),
		into + "1" + rest + fmt.Sprintf(newer, ""),
		"DROP TABLE file_version",
		"ALTER TABLE file_version_4 RENAME TO file_version",
		"CREATE UNIQUE INDEX file_version_id ON file_version(version_id) WHERE origin_timeline_id = 0",
		"CREATE INDEX conflict_open ON conflict(id) WHERE resolved_at IS NULL",
	}
}

// createTables makes the tables that a schema version brought.
func createTables(t Types, version int) []string {
	var out []string
	for _, tb := range schemaTables() {
		if max(tb.since, 1) == version {
			out = append(out, createTable(t, tb))
		}
	}
	return out
}

func createTable(t Types, tb table) string {
	var cols []string
	for c := range strings.SplitSeq(tb.cols, ",") {
		f := strings.Fields(c)
		switch f[1] {
		case "INT":
			f[1] = t.Int
		case "SERIAL":
			f[1] = t.Serial
		case "BYTES":
			f[1] = t.Bytes
		case "TEXT":
			f[1] = t.Text
		}
		if f[len(f)-1] == "NULL" {
			f = f[:len(f)-1]
		} else {
			f = append(f, "NOT NULL")
		}
		cols = append(cols, strings.Join(f, " "))
	}
	if tb.key != "" {
		cols = append(cols, "PRIMARY KEY ("+tb.key+")")
	}
	s := "CREATE TABLE " + tb.name + " (" + strings.Join(cols, ", ") + ")"
	if tb.key != "" {
		s += t.Clustered
	}
	if tb.updated {
		s += t.Updated
	}
	return s
}
