package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"wsfs/blob"
)

// PurgeOptions say what is removed for good: contents that hold Content, or the past contents of inodes.
type PurgeOptions struct {
	Content []byte
	Inos    []Ino // of all timelines; what workspaces show of them now stays
	Roots   func() []blob.Content
	What    string // noted with what was removed; it must not hold Content
	Who     string
}

// PurgeResult is what was purged.
type PurgeResult struct {
	Versions int64    `json:"versions"`
	Lines    int64    `json:"lines"` // command lines and the like
	Shown    []Shown  `json:"-"`     // nothing was done, because a workspace shows these now
	Left     []string `json:"left,omitempty"`
	GC       GCResult `json:"gc"`
}

// Shown is an inode of a workspace that shows what was to be purged.
type Shown struct {
	Timeline TimelineID
	Ino      Ino
}

// purged is what versions have instead of their content.
const purged = "this content was purged\n"

// Purge removes bytes for good: from versions, wherever they are, from packs, the journal, free pages, caches, logs and command
// lines. Versions stay, with a note instead of their content. It looks into every file of the store at last, and
// says in Left where the bytes still are (names, attributes and link targets are not changed). It is final.
func (s *Store) Purge(ctx context.Context, o PurgeOptions) (res PurgeResult, err error) {
	if s.w == nil {
		return res, errReadOnly("purge")
	}
	if s.Held() {
		return res, fmt.Errorf("purge: a backup reads the packs; try again when it is done: %w", blob.ErrCollecting)
	}
	if err := s.Apply(ctx, s.Last()); err != nil {
		return res, err
	}
	p := &purge{s: s, o: o, res: &res, bad: make(map[markKey]bool)}
	if err := p.find(ctx); err != nil || len(res.Shown) > 0 {
		return res, s.dbError("purge", err)
	}
	for _, step := range []func(context.Context) error{p.versions, p.lines, p.collect, p.journal, p.database, p.files} {
		if err := step(ctx); err != nil {
			return res, s.dbError("purge (what is done is done; run it again)", err)
		}
	}
	return res, nil
}

type purge struct {
	s    *Store
	o    PurgeOptions
	res  *PurgeResult
	bad  map[markKey]bool // contents that go
	rows []purgeRow
}

type purgeRow struct {
	t    TimelineID
	ino  Ino
	seq  Seq
	id   VersionID
	c    blob.Content
	copy bool // of a hidden segment
}

// find finds the versions.
func (p *purge) find(ctx context.Context) error {
	live := make(map[VersionID]bool)
	if err := p.s.shown(ctx, func(id VersionID, _ blob.Content) error {
		live[id] = true
		return nil
	}); err != nil {
		return err
	}
	inos := make(map[Ino]bool)
	for _, ino := range p.o.Inos {
		inos[ino] = true
	}
	holds := make(map[markKey]bool) // answers of contains
	var t, past, ino, seq int64
	for n := gcChunk; n == gcChunk; {
		n = 0
		var page []purgeRow
		if _, err := scanAll(ctx, p.s.r, 8, `SELECT timeline_id, past, ino, seq, version_id, content_hash, size, origin_timeline_id FROM file_version
			WHERE (timeline_id, past, ino, seq) > (?, ?, ?, ?) ORDER BY timeline_id, past, ino, seq LIMIT ?`, []any{t, past, ino, seq, int64(gcChunk)}, func(c *cells) error {
			n++
			t, past, ino, seq = c.int(0), c.int(1), c.int(2), c.int(3)
			if r := c.ref(5); !r.IsZero() {
				page = append(page, purgeRow{TimelineID(t), Ino(ino), Seq(seq), VersionID(c.int(4)), blob.Content{Ref: r, Size: c.int(6)}, c.int(7) != 0})
			}
			return c.bad
		}); err != nil {
			return err
		}
		for _, r := range page {
			k := markKey(r.c.Ref[:16])
			hit := inos[r.ino] && !live[r.id]
			if !hit && len(p.o.Content) > 0 {
				known := false
				if hit, known = holds[k]; !known {
					var err error
					if hit, err = p.contains(ctx, r.c); err != nil {
						return err
					}
					holds[k] = hit
				}
			}
			if !hit {
				continue
			}
			if live[r.id] && !r.copy {
				p.res.Shown = append(p.res.Shown, Shown{r.t, r.ino})
			}
			p.bad[k] = true
			p.rows = append(p.rows, r)
		}
	}
	return nil
}

// contains reports whether a content holds the bytes. One that cannot be read is taken to, if nobody can say otherwise.
func (p *purge) contains(ctx context.Context, c blob.Content) (bool, error) {
	want := p.o.Content
	r := p.s.blobs.Reader(ctx, c)
	buf := make([]byte, 0, 1<<20+len(want))
	for {
		n, err := io.ReadFull(r, buf[len(buf):len(buf)+1<<20])
		buf = buf[:len(buf)+n]
		if bytes.Contains(buf, want) {
			return true, nil
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, blob.ErrNotFound): // or it was collected
			return false, nil
		case err != nil:
			return false, fmt.Errorf("look into a content: %w", err)
		}
		keep := min(len(buf), len(want)-1)
		buf = append(buf[:0], buf[len(buf)-keep:]...)
	}
}

// versions puts the note in the place of the contents.
func (p *purge) versions(ctx context.Context) error {
	note := []byte(purged)
	ref := blob.Sum(note)
	rows := p.rows
	for len(rows) > 0 {
		n := min(len(rows), gcChunk)
		if err := p.s.w.tx(ctx, func(ctx context.Context) error {
			if _, err := p.s.w.exec(ctx, `INSERT INTO blob (hash, size, encoding, data, pack, pack_offset, pack_length) VALUES (?, ?, 0, ?, 0, 0, ?)
				ON CONFLICT (hash) DO NOTHING`, ref[:], int64(len(note)), note, int64(len(note))); err != nil {
				return err
			}
			for _, r := range rows[:n] {
				if _, err := p.s.w.exec(ctx, `UPDATE file_version SET content_hash = ?, size = ?, holes = 0, place = NULL WHERE timeline_id = ? AND past IN (0, 1) AND ino = ? AND seq = ?
					AND content_hash = ?`, ref[:], int64(len(note)), int64(r.t), int64(r.ino), int64(r.seq), r.c.Ref[:]); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
		for _, r := range rows[:n] {
			if !r.copy {
				p.res.Versions++
			}
		}
		rows = rows[n:]
	}
	return nil
}

// lines overwrites the bytes in command lines, working directories and what sessions were started with.
func (p *purge) lines(ctx context.Context) error {
	if len(p.o.Content) == 0 {
		return nil
	}
	for _, t := range []struct{ table, key, col string }{
		{"process", "id", "argv"}, {"process", "id", "cwd"}, {"process", "id", "comm"}, {"command", "id", "argv"}, {"command", "id", "cwd"},
		{"session", "id", "name"}, {"session", "id", "agent"}, {"session_origin", "session_id", "meta"},
	} {
		type line struct {
			id   int64
			text []byte
			str  bool
		}
		var list []line
		if _, err := scanAll(ctx, p.s.r, 2, `SELECT `+t.key+`, `+t.col+` FROM `+t.table, nil, func(c *cells) error {
			if b := c.bytes(1); bytes.Contains(b, p.o.Content) {
				list = append(list, line{c.int(0), bytes.ReplaceAll(b, p.o.Content, bytes.Repeat([]byte{'*'}, len(p.o.Content))), t.table != "process" && t.table != "command"})
			}
			return nil
		}); err != nil {
			return err
		}
		if len(list) == 0 {
			continue
		}
		if err := p.s.w.tx(ctx, func(ctx context.Context) error {
			for _, l := range list {
				var v any = l.text
				if l.str {
					v = string(l.text)
				}
				if _, err := p.s.w.exec(ctx, `UPDATE `+t.table+` SET `+t.col+` = ? WHERE `+t.key+` = ?`, v, l.id); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
		p.res.Lines += int64(len(list))
	}
	return nil
}

// collect removes the contents, and every byte of packs that no row names.
func (p *purge) collect(ctx context.Context) error {
	keep, err := p.s.Retention(ctx)
	if err != nil {
		return err
	}
	keep.Tiers, keep.Cap = nil, 0
	p.res.GC, err = p.s.Collect(ctx, GCOptions{Keep: &keep, Thorough: true, Kind: RemovalPurge, Rule: p.o.What, Who: p.o.Who, Roots: func() []blob.Content {
		var list []blob.Content
		if p.o.Roots != nil {
			for _, c := range p.o.Roots() {
				if !p.bad[markKey(c.Ref[:16])] {
					list = append(list, c)
				}
			}
		}
		return list
	}})
	return err
}

// journal begins a new file, and waits until the old ones are gone.
func (p *purge) journal(ctx context.Context) error {
	pl := p.s.pipe
	pl.mu.Lock()
	pl.j.renew()
	pl.mu.Unlock()
	slot, err := p.s.Append(&Op{Kind: OpWorkspace, At: p.s.o.Now().UnixNano()})
	if err == nil {
		err = p.s.Apply(ctx, slot)
	}
	if err != nil {
		return err
	}
	if err := p.s.commitDurably(ctx); err != nil {
		return err
	}
	err = pl.j.drop(int64(slot) - 1)
	pl.j.relax()
	return err
}

// database writes the database once more, without anything that was deleted, and empties its log.
func (p *purge) database(ctx context.Context) error {
	if err := p.s.rebuild(ctx); err != nil {
		return err
	}
	left, err := p.s.checkpoint(ctx, patience)
	if err == nil && left > 0 {
		err = fmt.Errorf("somebody reads the database: %d bytes of its log are left", left)
	}
	return err
}

// files removes caches, overwrites the bytes in logs, and looks into everything that is left.
func (p *purge) files(ctx context.Context) error {
	if err := os.RemoveAll(filepath.Join(p.s.dir, "cache")); err != nil {
		return err
	}
	if len(p.o.Content) == 0 {
		return nil
	}
	if err := p.tables(ctx); err != nil {
		return err
	}
	return filepath.WalkDir(p.s.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil // files come and go
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		log := strings.HasPrefix(d.Name(), "daemon.log")
		found, err := holdsBytes(path, p.o.Content, log)
		if err == nil && found && !log {
			p.res.Left = append(p.res.Left, path)
		}
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	})
}

// tables looks into what is left of the database: it was written anew, so what no row has is not in it.
func (p *purge) tables(ctx context.Context) error {
	for _, t := range schemaTables() {
		for _, col := range strings.Split(t.cols, ",") {
			f := strings.Fields(col)
			if f[1] != "TEXT" && f[1] != "BYTES" {
				continue
			}
			if _, err := scanAll(ctx, p.s.r, 1, `SELECT count(*) FROM `+t.name+` WHERE instr(CAST(`+f[0]+` AS BLOB), ?) > 0`, []any{p.o.Content}, func(c *cells) error {
				if n := c.int(0); n > 0 {
					p.res.Left = append(p.res.Left, fmt.Sprintf("%s of %d rows of table %s", f[0], n, t.name))
				}
				return nil
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// holdsBytes looks for bytes in a file, and overwrites them if it shall.
func holdsBytes(path string, want []byte, overwrite bool) (found bool, err error) {
	flag := os.O_RDONLY
	if overwrite {
		flag = os.O_RDWR
	}
	// Never the database: closing it would drop the locks that SQLite has on it. tables looks into that.
	if strings.HasPrefix(filepath.Base(path), "wsfs.db") {
		return false, nil
	}
	f, err := os.OpenFile(path, flag, 0)
	if err != nil {
		return false, err
	}
	defer f.Close()
	buf := make([]byte, 1<<20)
	for off := int64(0); ; {
		n, err := f.ReadAt(buf, off)
		for at := 0; ; {
			i := bytes.Index(buf[at:n], want)
			if i < 0 {
				break
			}
			found = true
			if !overwrite {
				return true, nil
			}
			if _, err := f.WriteAt(bytes.Repeat([]byte{'*'}, len(want)), off+int64(at+i)); err != nil {
				return true, err
			}
			at += i + len(want)
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return found, err
		}
		off += int64(n - len(want) + 1)
	}
}
