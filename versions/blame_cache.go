package versions

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"wsfs/blob"
	"wsfs/store"
)

// Blames of files with a past are kept in the store's directory, one file for each version: who, not what, so that no byte of
// a file is in it. Nothing needs them. A file that is damaged, of another format or of another content is not looked at; a
// directory that cannot be written stays as it is. Purging history must remove the directory.
const (
	blameCacheDir   = "cache/blame"
	blameCacheMagic = "wsfsblm2" // the last byte is the version of the format
	// blameCacheFrom is how many versions must have been looked at for a result to be kept.
	blameCacheFrom = 16
	// There are blameCacheFiles files at most, and none is larger than blameCacheBytes.
	blameCacheFiles = 1024
	blameCacheBytes = 4 << 20
)

// blameCache is the directory. The zero value is a cache that is empty and keeps nothing.
type blameCache struct {
	dir  string
	from int                      // keep what took so many versions
	have map[store.VersionID]bool // what was there when it was opened; nil: not looked yet
}

func (c *blameCache) path(id store.VersionID) string {
	return filepath.Join(c.dir, fmt.Sprintf("%016x", int64(id)))
}

// has reports whether there may be a blame of a version. It costs nothing after the first time.
func (c *blameCache) has(id store.VersionID) bool {
	if c.have == nil {
		c.have = make(map[store.VersionID]bool)
		if c.dir == "" {
			return false
		}
		entries, _ := os.ReadDir(c.dir) // there is none: nothing is kept
		for _, e := range entries {
			var n int64
			if _, err := fmt.Sscanf(e.Name(), "%016x", &n); err == nil {
				c.have[store.VersionID(n)] = true
			}
		}
	}
	return c.have[id]
}

// load returns the owners of all lines of v, nil if they are not known.
func (c *blameCache) load(v *store.Version) []*LineOwner {
	if c.dir == "" || c.have != nil && !c.have[v.ID] {
		return nil
	}
	data, err := os.ReadFile(c.path(v.ID))
	if err != nil {
		return nil
	}
	owners, err := decodeBlame(data, v)
	if err != nil {
		return nil // the next one is written over it
	}
	c.used(v.ID)
	return owners
}

// used keeps a file from being the next to go; where its times cannot be changed, the age counts.
func (c *blameCache) used(id store.VersionID) {
	now := time.Now()
	_ = os.Chtimes(c.path(id), now, now)
}

// save keeps the owners of all lines of v. That it could not is no error of anybody.
func (c *blameCache) save(v *store.Version, owners []*LineOwner) {
	if c.dir == "" || slices.ContainsFunc(owners, func(o *LineOwner) bool { return o == nil || o.Unknown != "" }) {
		return
	}
	data := encodeBlame(v, owners)
	if len(data) > blameCacheBytes || os.MkdirAll(c.dir, 0o700) != nil {
		return
	}
	c.trim()
	f, err := os.CreateTemp(c.dir, "new-")
	if err != nil {
		return
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), c.path(v.ID))
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
}

// trim makes room: the files that were not used for longest go, a few more than needed so that this is not done every time,
// and with them what a killed process left.
func (c *blameCache) trim() {
	entries, err := os.ReadDir(c.dir)
	if err != nil || len(entries) < blameCacheFiles {
		return
	}
	type file struct {
		name string
		at   time.Time
	}
	var list []file
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			list = append(list, file{e.Name(), info.ModTime()})
		}
	}
	slices.SortFunc(list, func(a, b file) int { return a.at.Compare(b.at) })
	for _, f := range list[:max(0, len(list)-blameCacheFiles*7/8)] {
		_ = os.Remove(filepath.Join(c.dir, f.name)) // somebody else may have
	}
}

func asInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// encodeBlame writes tables of sessions, processes (both parents first), commands and owners, then runs of lines with one owner,
// then BLAKE3 of all that. An index counts from 1, 0 is nothing.
func encodeBlame(v *store.Version, owners []*LineOwner) []byte {
	w := &blameWriter{sessions: map[store.SessionID]int{}, processes: map[store.ProcessID]int{}, commands: map[store.CommandID]int{}}
	at := map[*LineOwner]int{}
	var list []byte
	for _, o := range owners {
		if at[o] != 0 {
			continue
		}
		at[o] = len(at) + 1
		for _, n := range []int64{
			int64(o.Version.ID), int64(o.Version.Ino), int64(o.Version.Seq), int64(o.Version.Origin), o.At,
			int64(w.session(o.Session)), int64(w.command(o.Command)), int64(w.process(o.Process)),
		} {
			list = binary.AppendVarint(list, n)
		}
	}
	out := append([]byte(blameCacheMagic), v.Content[:]...)
	out = binary.AppendVarint(out, int64(v.ID))
	for _, t := range []struct {
		n    int
		rows []byte
	}{{len(w.sessions), w.s}, {len(w.processes), w.p}, {len(w.commands), w.c}, {len(at), list}} {
		out = append(binary.AppendVarint(out, int64(t.n)), t.rows...)
	}
	out = binary.AppendVarint(out, int64(len(owners)))
	for i := 0; i < len(owners); {
		n := 1
		for i+n < len(owners) && owners[i+n] == owners[i] {
			n++
		}
		out = binary.AppendVarint(binary.AppendVarint(out, int64(at[owners[i]])), int64(n))
		i += n
	}
	sum := blob.Sum(out)
	return append(out, sum[:]...)
}

// blameWriter collects the tables.
type blameWriter struct {
	sessions  map[store.SessionID]int
	processes map[store.ProcessID]int
	commands  map[store.CommandID]int
	s, p, c   []byte
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendVarint(b, int64(len(s))), s...)
}

func appendNumbers(b []byte, list ...int64) []byte {
	for _, n := range list {
		b = binary.AppendVarint(b, n)
	}
	return b
}

func (w *blameWriter) session(s *store.Session) int {
	if s == nil {
		return 0
	}
	if n := w.sessions[s.ID]; n != 0 {
		return n
	}
	parent := w.session(s.Parent)
	w.sessions[s.ID] = len(w.sessions) + 1
	w.s = appendNumbers(w.s, int64(s.ID), int64(parent), int64(s.Workspace), s.StartedAt, int64(s.Home))
	w.s = appendText(appendText(appendText(w.s, s.Name), s.Agent), s.Meta)
	return w.sessions[s.ID]
}

func (w *blameWriter) command(c *store.Command) int {
	if c == nil {
		return 0
	}
	if w.commands[c.ID] == 0 {
		w.commands[c.ID] = len(w.commands) + 1
		w.c = appendNumbers(w.c, int64(c.ID), int64(c.Session), int64(c.N), c.StartedAt)
		w.c = appendText(appendText(w.c, c.Argv), c.Cwd)
	}
	return w.commands[c.ID]
}

func (w *blameWriter) process(p *store.Process) int {
	if p == nil {
		return 0
	}
	if n := w.processes[p.ID]; n != 0 {
		return n
	}
	parent := w.process(p.Parent)
	w.processes[p.ID] = len(w.processes) + 1
	w.p = appendNumbers(w.p, int64(p.ID), int64(p.Session), int64(parent), int64(p.PID), int64(p.StartTicks), int64(p.UID), asInt(p.Unread))
	w.p = appendText(appendText(appendText(w.p, p.Comm), p.Argv), p.Cwd)
	return w.processes[p.ID]
}

var errBlameCache = errors.New("not a blame of this version")

// decodeBlame reads what encodeBlame wrote for v.
func decodeBlame(data []byte, v *store.Version) ([]*LineOwner, error) {
	head := append([]byte(blameCacheMagic), v.Content[:]...)
	body := len(data) - blob.RefSize
	if body < len(head) || !bytes.HasPrefix(data, head) {
		return nil, errBlameCache
	}
	if sum := blob.Sum(data[:body]); !bytes.Equal(sum[:], data[body:]) {
		return nil, errBlameCache
	}
	r := &blameReader{data: data[len(head):body]}
	if store.VersionID(r.int()) != v.ID {
		return nil, errBlameCache
	}
	var parents []int64
	sessions := blameTable(r, func() *store.Session {
		s := &store.Session{ID: store.SessionID(r.int())}
		parents = append(parents, r.int())
		s.Workspace, s.StartedAt, s.Home = store.WorkspaceID(r.int()), r.int(), store.WorkspaceID(r.int())
		s.Name, s.Agent, s.Meta = r.text(), r.text(), r.text()
		return s
	})
	for i, parent := range parents {
		sessions[i].Parent = blameRow(r, sessions[:i], parent)
	}
	parents = nil
	processes := blameTable(r, func() *store.Process {
		p := &store.Process{ID: store.ProcessID(r.int()), Session: store.SessionID(r.int())}
		parents = append(parents, r.int())
		p.PID, p.StartTicks, p.UID, p.Unread = int(r.int()), uint64(r.int()), uint32(r.int()), r.int() != 0
		p.Comm, p.Argv, p.Cwd = r.text(), r.text(), r.text()
		return p
	})
	for i, parent := range parents {
		processes[i].Parent = blameRow(r, processes[:i], parent)
	}
	commands := blameTable(r, func() *store.Command {
		c := &store.Command{ID: store.CommandID(r.int()), Session: store.SessionID(r.int()), N: int(r.int()), StartedAt: r.int()}
		c.Argv, c.Cwd = r.text(), r.text()
		return c
	})
	owners := blameTable(r, func() *LineOwner {
		o := &LineOwner{Version: &store.Version{
			ID: store.VersionID(r.int()), Ino: store.Ino(r.int()), Seq: store.Seq(r.int()), Origin: store.TimelineID(r.int()),
		}, At: r.int()}
		o.Session, o.Command, o.Process = blameRow(r, sessions, r.int()), blameRow(r, commands, r.int()), blameRow(r, processes, r.int())
		return o
	})
	lines := r.int()
	if lines < 0 || lines > v.Size {
		return nil, errBlameCache
	}
	out := make([]*LineOwner, 0, lines)
	for int64(len(out)) < lines && !r.bad {
		o, n := blameRow(r, owners, r.int()), r.int()
		if o == nil || n < 1 || n > lines-int64(len(out)) {
			return nil, errBlameCache
		}
		for range n {
			out = append(out, o)
		}
	}
	if r.bad || len(r.data) > 0 {
		return nil, errBlameCache
	}
	return out, nil
}

type blameReader struct {
	data []byte
	bad  bool
}

func (r *blameReader) int() int64 {
	n, size := binary.Varint(r.data)
	if size <= 0 {
		r.bad, r.data = true, nil
		return 0
	}
	r.data = r.data[size:]
	return n
}

func (r *blameReader) text() string {
	n := r.int()
	if n < 0 || n > int64(len(r.data)) {
		r.bad, r.data = true, nil
		return ""
	}
	s := string(r.data[:n])
	r.data = r.data[n:]
	return s
}

func blameTable[T any](r *blameReader, row func() *T) []*T {
	n := r.int()
	var list []*T
	for i := int64(0); i < n && !r.bad; i++ {
		list = append(list, row())
	}
	return list
}

// blameRow is row n of a table, counted from 1.
func blameRow[T any](r *blameReader, list []*T, n int64) *T {
	if n < 0 || n > int64(len(list)) {
		r.bad = true
		return nil
	}
	if n == 0 {
		return nil
	}
	return list[n-1]
}
