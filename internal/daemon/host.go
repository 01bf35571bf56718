package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"wsfs/blob"
	"wsfs/internal/hosttree"
	"wsfs/store"
)

// hostNote is the Ref of a pin of kind applied: when and how a workspace became equal to a host directory.
type hostNote struct {
	Workspace int64    `json:"workspace"`
	What      string   `json:"what"` // import or apply
	Dir       Path     `json:"dir"`
	At        int64    `json:"at"` // ns
	Full      bool     `json:"full"`
	Only      []string `json:"only,omitempty"`
	Hunks     []string `json:"hunks,omitempty"`
	Paths     int      `json:"paths"`
	Session   int64    `json:"session,omitempty"`
	Command   int64    `json:"command,omitempty"`
	UID       *uint32  `json:"uid,omitempty"`
}

// hosts has a lock for each host directory, held while what it holds is compared with a workspace; outermost.
type hosts struct {
	mu  sync.Mutex
	dir map[string]*sync.Mutex // guarded by mu
}

// lock returns what unlocks the directory.
func (h *hosts) lock(dir string) func() {
	h.mu.Lock()
	if h.dir == nil {
		h.dir = map[string]*sync.Mutex{}
	}
	m := h.dir[dir]
	if m == nil {
		m = &sync.Mutex{}
		h.dir[dir] = m
	}
	h.mu.Unlock()
	m.Lock()
	return m.Unlock
}

// indexFile is where the index of a workspace and a directory lies.
func (d *Daemon) indexFile(ws *store.Workspace, dir string) string {
	name := fmt.Sprintf("%d.index", ws.ID)
	if !isOrigin(ws, dir) {
		name = fmt.Sprintf("%d-%08x.index", ws.ID, crc32.ChecksumIEEE([]byte(dir)))
	}
	return filepath.Join(d.o.Store, "host", name)
}

// isOrigin reports whether the workspace is the one that was imported from dir, and no fork of it.
func isOrigin(ws *store.Workspace, dir string) bool { return ws.Parent == 0 && ws.OriginPath == dir }

// noteHost records that a workspace and a directory are equal at a point, and who made them so.
func (d *Daemon) noteHost(at store.Pin, n hostNote, who store.Attribution) error {
	if who.Session != nil {
		n.Session = int64(who.Session.ID)
	}
	if who.Command != nil {
		n.Command = int64(who.Command.ID)
	}
	if who.Process != nil {
		n.UID = &who.Process.UID
	}
	n.At = d.o.Now().UnixNano()
	b, err := json.Marshal(n)
	if err != nil {
		return err
	}
	at.Kind, at.Ref = store.PinApplied, string(b)
	op := d.pinOp(store.PinChange{Pin: at})
	op.Who = who
	return d.mark("note what was applied", op)
}

// hostNotes are the notes about workspaces, by the id of the workspace, oldest first.
func hostNotes(ctx context.Context, st *store.Store) (map[store.WorkspaceID][]notedPin, error) {
	pins, err := st.Pins(ctx, store.PinApplied)
	if err != nil {
		return nil, err
	}
	out := map[store.WorkspaceID][]notedPin{}
	for _, p := range pins {
		var n hostNote
		if err := json.Unmarshal([]byte(p.Ref), &n); err != nil {
			return nil, fmt.Errorf("read what was applied: %q: %w", p.Ref, store.ErrCorrupt)
		}
		id := store.WorkspaceID(n.Workspace)
		out[id] = append(out[id], notedPin{p, n})
	}
	return out, nil
}

// importsKept is how many notes of imports of one directory into a workspace stay however old they are: after a rollback to before
// the newest the one before is what the two have in common.
const importsKept = 2

// replacedImports are the pins of imports that later ones of the same directory replaced: what is merged next begins with one of
// those. Notes of `wsfs apply` stay: they say who accepted what.
func replacedImports(pins []store.Pin) (out []store.Pin) {
	type from struct {
		ws  int64
		dir Path
	}
	imports := map[from][]notedPin{}
	for _, p := range pins {
		var n hostNote
		if json.Unmarshal([]byte(p.Ref), &n) == nil && n.What == "import" && n.Full {
			k := from{n.Workspace, n.Dir}
			imports[k] = append(imports[k], notedPin{p, n})
		}
	}
	for _, list := range imports {
		slices.SortFunc(list, func(a, b notedPin) int { return cmp.Compare(b.note.At, a.note.At) })
		for _, n := range list[min(len(list), importsKept):] {
			out = append(out, n.pin)
		}
	}
	return out
}

type notedPin struct {
	pin  store.Pin
	note hostNote
}

// basePin is the newest point of a workspace that was equal to dir, else the newest in its past and that of what it was
// forked from that was equal to the directory it came from; nil if there is none. at is the workspace's present. That the
// workspace was pointed elsewhere since (a rollback) does not change what the directory holds.
func (d *Daemon) basePin(ctx context.Context, ws *store.Workspace, at *store.View, dir string) (*notedPin, error) {
	notes, err := hostNotes(ctx, d.st)
	if err != nil {
		return nil, err
	}
	var best *notedPin
	for i, n := range notes[ws.ID] {
		if n.note.Full && string(n.note.Dir) == dir && (best == nil || n.note.At > best.note.At) {
			best = &notes[ws.ID][i]
		}
	}
	if best != nil {
		return best, nil
	}
	for own := true; ws != nil; own = false {
		for i, n := range notes[ws.ID] {
			if !n.note.Full || !visible(at, n.pin) {
				continue
			}
			// What was applied to another directory says nothing about this one; an import does, of what came from it.
			if string(n.note.Dir) != dir && (n.note.What != "import" || !own && string(n.note.Dir) != ws.OriginPath) {
				continue
			}
			if best == nil || n.pin.Seq > best.pin.Seq {
				best = &notes[ws.ID][i]
			}
		}
		if best != nil || ws.Parent == 0 {
			return best, nil
		}
		if ws, err = d.st.WorkspaceByID(ctx, ws.Parent); errors.Is(err, syscall.ENOENT) {
			return best, nil // dropped and collected
		} else if err != nil {
			return nil, err
		}
	}
	return best, nil
}

// visible reports whether a pinned point is in the past of v.
func visible(v *store.View, p store.Pin) bool {
	for _, seg := range v.Path() {
		if seg.Timeline == p.Timeline {
			return p.Seq <= seg.Cut
		}
	}
	return false
}

// stateAt is what a view has at a path.
func stateAt(ctx context.Context, v *store.View, path string) (hosttree.Entry, *store.Version, error) {
	if v == nil {
		return hosttree.Entry{}, nil, nil
	}
	_, ver, err := v.Resolve(ctx, path)
	if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ENOTDIR) {
		return hosttree.Entry{}, nil, nil
	}
	if err != nil {
		return hosttree.Entry{}, nil, err
	}
	return entryOf(ver), ver, nil
}

func entryOf(v *store.Version) hosttree.Entry {
	if v == nil {
		return hosttree.Entry{}
	}
	return hosttree.Entry{Mode: v.Mode, Size: v.Size, Ref: v.Content, Target: v.Target}
}

// holds reports whether the entry now, which was looked at in t, holds what e says. It reads the file only if nothing
// else tells.
func (d *Daemon) holds(ctx context.Context, t *hosttree.Tree, path string, now, e *hosttree.Entry) (bool, error) {
	probe := *now
	probe.Ref = e.Ref
	if !probe.Same(e) || e.Type() != syscall.S_IFREG || e.Size == 0 {
		return probe.Same(e), nil
	}
	same, err := t.SameBytes(path, e.Size, d.st.Blobs().Reader(ctx, blob.Content{Ref: e.Ref, Size: e.Size}))
	if errors.Is(err, blob.ErrCorrupt) {
		return false, nil // what it was cannot be read any more: not known to be the same
	}
	return same, err
}
