package store

// queryRule is an invariant as a query for what breaks it. text has one verb for each column.
type queryRule struct {
	rule  int
	text  string
	query string
}

// sqlCollected is the highest number of a version that was ever collected.
const sqlCollected = `COALESCE((SELECT CAST(value AS INTEGER) FROM setting WHERE name = '` + settingCollected + `'), 0)`

func queryRules() []queryRule {
	return []queryRule{
		{2, "timeline %d starts at seq %d of timeline %d, which does not exist or does not own that seq", `
			SELECT t.id, t.parent_seq, t.parent_id FROM timeline t LEFT JOIN timeline p ON p.id = t.parent_id
			WHERE t.parent_id <> 0 AND t.hidden <> 3 AND (p.id IS NULL OR t.parent_seq > p.head_seq
				OR p.parent_id <> 0 AND t.parent_seq <= p.parent_seq)`},
		{4, "timeline %d has head_seq %d below parent_seq %d or its newest row, %d", `
			SELECT t.id, t.head_seq, t.parent_seq, COALESCE(m.seq, 0) FROM timeline t LEFT JOIN (
				SELECT timeline_id, max(seq) AS seq FROM (
					SELECT timeline_id, max(seq) AS seq FROM change GROUP BY timeline_id
					UNION ALL SELECT timeline_id, max(seq) FROM file_version GROUP BY timeline_id
					UNION ALL SELECT timeline_id, max(seq) FROM file_node GROUP BY timeline_id
					UNION ALL SELECT timeline_id, max(end_seq) FROM file_node_history GROUP BY timeline_id
				) u GROUP BY timeline_id) m ON m.timeline_id = t.id
			WHERE t.head_seq < t.parent_seq OR t.head_seq < m.seq`},
		{5, "timeline %d has a row at seq %d, not above its parent_seq %d", `
			SELECT u.timeline_id, u.seq, t.parent_seq FROM (
				SELECT timeline_id, min(seq) AS seq FROM change GROUP BY timeline_id
				UNION SELECT timeline_id, min(seq) FROM file_version GROUP BY timeline_id
				UNION SELECT timeline_id, min(seq) FROM file_node GROUP BY timeline_id
				UNION SELECT timeline_id, min(seq) FROM file_node_history GROUP BY timeline_id
			) u JOIN timeline t ON t.id = u.timeline_id WHERE t.parent_id <> 0 AND t.hidden = 0 AND u.seq <= t.parent_seq`},
		{6, "timeline %d counts %d changes and has %d", `
			SELECT t.id, t.change_count, COALESCE(n.n, 0) FROM timeline t LEFT JOIN
				(SELECT timeline_id, count(*) AS n FROM change GROUP BY timeline_id) n ON n.timeline_id = t.id
			WHERE t.hidden = 0 AND t.change_count <> COALESCE(n.n, 0)`},
		{7, "table %s names timeline %d, which does not exist", `
			SELECT u.tab, u.timeline_id FROM (
				SELECT 'workspace' AS tab, timeline_id FROM workspace WHERE timeline_id IS NOT NULL
				UNION SELECT 'workspace', base_timeline_id FROM workspace WHERE timeline_id IS NULL
				UNION SELECT 'workspace_ref', timeline_id FROM workspace_ref WHERE timeline_id IS NOT NULL
				UNION SELECT 'workspace_ref', base_timeline_id FROM workspace_ref WHERE timeline_id IS NULL AND base_timeline_id <> 0
				UNION SELECT 'tag', timeline_id FROM tag UNION SELECT 'pin', timeline_id FROM pin
				UNION SELECT 'change', timeline_id FROM change UNION SELECT 'change_item', timeline_id FROM change_item
				UNION SELECT 'file_node', timeline_id FROM file_node
				UNION SELECT 'file_node_history', timeline_id FROM file_node_history
				UNION SELECT 'file_version', timeline_id FROM file_version
				UNION SELECT 'command', timeline_id FROM command WHERE timeline_id <> 0
			) u LEFT JOIN timeline t ON t.id = u.timeline_id WHERE t.id IS NULL`},
		{8, "workspace %d (%s) is not what the last of its %d reflog lines says", `
			SELECT w.id, w.name, (SELECT count(*) FROM workspace_ref x WHERE x.workspace_id = w.id) FROM workspace w
			LEFT JOIN workspace_ref r ON r.workspace_id = w.id
				AND r.n = (SELECT max(n) FROM workspace_ref x WHERE x.workspace_id = w.id)
			WHERE r.n IS NULL OR COALESCE(r.timeline_id, 0) <> COALESCE(w.timeline_id, 0) OR r.generation <> w.generation
				OR r.base_timeline_id <> w.base_timeline_id OR r.base_seq <> w.base_seq`},
		{9, "workspace %d (%s), tag or pin stands at seq %d, above head_seq %d of timeline %d", `
			SELECT w.id, w.name, w.base_seq, t.head_seq, t.id FROM workspace w JOIN timeline t ON t.id = w.base_timeline_id
				WHERE w.timeline_id IS NULL AND w.base_seq > t.head_seq
			UNION ALL SELECT g.workspace_id, g.name, g.seq, t.head_seq, t.id FROM tag g JOIN timeline t ON t.id = g.timeline_id
				WHERE g.seq > t.head_seq
			UNION ALL SELECT 0, p.ref, p.seq, t.head_seq, t.id FROM pin p JOIN timeline t ON t.id = p.timeline_id
				WHERE p.seq > t.head_seq`},
		{10, "timeline %d, directory %d, name %q: the row of seq %d ends at %d, not after it began", `
			SELECT timeline_id, parent_ino, name, seq, end_seq FROM file_node_history WHERE end_seq <= seq`},
		{14, "timeline %d has rows in %s of seq %d, for which there is no change", `
			SELECT u.timeline_id, u.tab, u.seq FROM (
				SELECT timeline_id, 'file_node' AS tab, seq FROM file_node
				UNION SELECT timeline_id, 'file_node_history', seq FROM file_node_history
				UNION SELECT timeline_id, 'file_node_history', end_seq FROM file_node_history
				UNION SELECT timeline_id, 'file_version', seq FROM file_version
				UNION SELECT timeline_id, 'change_item', seq FROM change_item
			) u LEFT JOIN change c ON c.timeline_id = u.timeline_id AND c.seq = u.seq
			WHERE c.seq IS NULL AND NOT EXISTS (SELECT 1 FROM timeline t WHERE t.id = u.timeline_id AND t.hidden <> 0)`},
		{15, "change %d of timeline %d has %d items, numbered up to %d", `
			SELECT seq, timeline_id, count(*), max(n) FROM change_item GROUP BY timeline_id, seq HAVING max(n) + 1 <> count(*)`},
		{17, "tag %s is of workspace %d, which does not exist", `
			SELECT g.name, g.workspace_id FROM tag g LEFT JOIN workspace w ON w.id = g.workspace_id WHERE w.id IS NULL`},
		{18, "%s %s stands at seq %d of timeline %d, which an ancestor owns", `
			SELECT u.what, u.name, u.seq, t.id FROM (SELECT 'tag' AS what, name, timeline_id, seq FROM tag
				UNION ALL SELECT kind, ref, timeline_id, seq FROM pin
				UNION ALL SELECT 'workspace', name, base_timeline_id, base_seq FROM workspace
			) u JOIN timeline t ON t.id = u.timeline_id WHERE t.parent_id <> 0 AND u.seq <= t.parent_seq`},
		{19, "a pin at seq %d of timeline %d has the unknown kind %s or does not say what it is for, %s", `
			SELECT seq, timeline_id, kind, ref FROM pin WHERE kind NOT IN ('mount', 'temporary', 'applied', 'session', 'merge', 'retained') OR ref = ''`},
		{27, "version %d of inode %d comes from version %d, which does not exist or is of inode %d", `
			SELECT v.version_id, v.ino, v.parent_version_id, COALESCE(p.ino, 0) FROM file_version v
			LEFT JOIN file_version p ON p.version_id = v.parent_version_id AND p.origin_timeline_id = 0
			WHERE v.parent_version_id <> 0 AND (p.version_id IS NULL OR p.ino <> v.ino)
				AND (p.version_id IS NOT NULL OR v.parent_version_id > ` + sqlCollected + `)`},
		{28, "version %d of inode %d replaced or merged version %d, which does not exist", `
			SELECT v.version_id, v.ino, v.replaced_version_id FROM file_version v
				LEFT JOIN file_version p ON p.version_id = v.replaced_version_id AND p.origin_timeline_id = 0
				WHERE v.replaced_version_id > ` + sqlCollected + ` AND p.version_id IS NULL
			UNION ALL SELECT v.version_id, v.ino, v.merge_version_id FROM file_version v
				LEFT JOIN file_version p ON p.version_id = v.merge_version_id AND p.origin_timeline_id = 0
				WHERE v.merge_version_id > ` + sqlCollected + ` AND p.version_id IS NULL`},
		{29, "version %d of inode %d has mode %d, size %d and %d holes with content or a target that do not fit", `
			SELECT version_id, ino, mode, size, holes FROM file_version WHERE
				CASE mode & 61440
				WHEN 32768 THEN target IS NOT NULL OR (size = 0) <> (content_hash IS NULL)
				WHEN 40960 THEN content_hash IS NOT NULL OR target IS NULL OR size <> length(target)
				ELSE content_hash IS NOT NULL OR target IS NOT NULL END
				OR mode & 61440 NOT IN (4096, 8192, 16384, 24576, 32768, 40960, 49152) OR holes NOT BETWEEN 0 AND size`},
		{30, "version %d of inode %d has content %x, for which there is no blob", `
			SELECT v.version_id, v.ino, v.content_hash FROM file_version v LEFT JOIN blob b ON b.hash = v.content_hash
			WHERE v.content_hash IS NOT NULL AND b.hash IS NULL AND NOT EXISTS (SELECT 1 FROM content_gone g WHERE g.hash = v.content_hash)
				AND NOT (` + sqlRemoved + `)`},
		{31, "blob %x has size %d and %d stored bytes in pack %d at %d, or inline: that cannot be", `
			SELECT hash, size, pack_length, pack, pack_offset FROM blob
			WHERE length(hash) <> 32 OR size < 1
				OR (data IS NULL) <> (pack > 0 AND pack_length > 0 AND pack_offset > 0)`},
		{36, "the hidden segment %d is named by table %s: only chains may", `
			SELECT t.id, u.tab FROM (
				SELECT 'workspace' AS tab, timeline_id FROM workspace UNION SELECT 'workspace', base_timeline_id FROM workspace
				UNION SELECT 'workspace_ref', timeline_id FROM workspace_ref UNION SELECT 'workspace_ref', base_timeline_id FROM workspace_ref
				UNION SELECT 'tag', timeline_id FROM tag UNION SELECT 'pin', timeline_id FROM pin
				UNION SELECT 'timeline', parent_id FROM timeline UNION SELECT 'command', timeline_id FROM command
				UNION SELECT 'change', timeline_id FROM change UNION SELECT 'change_item', timeline_id FROM change_item
				UNION SELECT 'file_node_history', timeline_id FROM file_node_history
			) u JOIN timeline t ON t.id = u.timeline_id WHERE t.hidden IN (1, 2)`},
		{49, "timeline %d, inode %d: the version of seq %d is marked as what it is now or is not, wrongly", `
			SELECT v.timeline_id, v.ino, v.seq FROM file_version v WHERE v.past <> CASE WHEN v.nlink = 0 OR EXISTS (SELECT 1 FROM file_version w
				WHERE w.timeline_id = v.timeline_id AND w.past IN (0, 1) AND w.ino = v.ino AND w.seq > v.seq) THEN 1 ELSE 0 END`},
		{37, "version %d of inode %d on timeline %d says it is from timeline %d; that is for hidden segments to say, and for all of theirs", `
			SELECT v.version_id, v.ino, v.timeline_id, v.origin_timeline_id FROM file_version v JOIN timeline t ON t.id = v.timeline_id
			WHERE (v.origin_timeline_id <> 0) <> (t.hidden <> 0) AND t.hidden <> 3`},
		{40, "change %d of timeline %d is by session %d, command %d, process %d, not all of which exist", `
			SELECT c.seq, c.timeline_id, c.session_id, c.command_id, c.process_id FROM change c
			LEFT JOIN session s ON s.id = c.session_id LEFT JOIN command m ON m.id = c.command_id
			LEFT JOIN process p ON p.id = c.process_id
			WHERE c.session_id <> 0 AND s.id IS NULL OR c.command_id <> 0 AND m.id IS NULL OR c.process_id <> 0 AND p.id IS NULL`},
		{41, "process %d has parent %d, which does not exist or is not older", `
			SELECT c.id, c.parent_id FROM process c LEFT JOIN process p ON p.id = c.parent_id
			WHERE c.parent_id <> 0 AND (p.id IS NULL OR p.id = c.id)`},
		{42, "%s %d is of session %d, which does not exist", `
			SELECT u.tab, u.id, u.session_id FROM (SELECT 'command' AS tab, id, session_id FROM command
				UNION ALL SELECT 'process', id, session_id FROM process) u LEFT JOIN session s ON s.id = u.session_id
			WHERE u.session_id <> 0 AND s.id IS NULL`},
		{43, "command %d changed timeline %d from seq %d to %d, beyond its head %d or backwards", `
			SELECT c.id, c.timeline_id, c.seq_before, c.seq_after, t.head_seq FROM command c
			JOIN timeline t ON t.id = c.timeline_id WHERE c.seq_after <= c.seq_before OR c.seq_after > t.head_seq`},
		{44, "change %d of timeline %d is not within seqs %d to %d of its command %d", `
			SELECT c.seq, c.timeline_id, m.seq_before, m.seq_after, m.id FROM change c
			JOIN command m ON m.id = c.command_id AND m.timeline_id = c.timeline_id
			WHERE c.seq <= m.seq_before OR c.seq > m.seq_after`},
		{47, "session %d comes from session %d or process %d has no row, which cannot be", `
			SELECT o.session_id, o.parent_id, 0 FROM session_origin o LEFT JOIN session s ON s.id = o.session_id
				LEFT JOIN session p ON p.id = o.parent_id
				WHERE s.id IS NULL OR o.parent_id <> 0 AND (p.id IS NULL OR p.id = s.id)
			UNION ALL SELECT 0, 0, u.process_id FROM process_unread u LEFT JOIN process p ON p.id = u.process_id WHERE p.id IS NULL`},
		{46, "change %d of timeline %d is no undo but takes back something, or it takes back changes %d to %d of timeline %d or line %d of a reflog, which cannot be", `
			SELECT u.seq, u.timeline_id, u.from_seq, u.to_seq, u.from_timeline_id, u.ref_n FROM undone u
			LEFT JOIN change c ON c.timeline_id = u.timeline_id AND c.seq = u.seq
			LEFT JOIN timeline f ON f.id = u.from_timeline_id
			LEFT JOIN command m ON m.id = u.command_id
			WHERE c.seq IS NULL OR c.kind NOT IN (17, 18) OR u.command_id <> 0 AND m.id IS NULL
				OR u.ref_n = 0 AND (f.id IS NULL OR u.from_seq > u.to_seq OR u.to_seq > f.head_seq OR u.from_seq < 1)
				OR u.ref_n <> 0 AND (u.from_timeline_id <> 0 OR u.from_seq <> 0 OR u.to_seq <> 0)`},
		{48, "timeline %d says that its history is complete from seq %d on, and its head is %d", `
			SELECT id, gc_seq, head_seq FROM timeline WHERE gc_seq < 0 OR gc_seq > head_seq + 1`},
	}
}
