package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"wsfs/fs"
	"wsfs/store"
	"wsfs/versions"
)

// How the trees of a mount, beside what was mounted, are called for the daemon after this one (fs.Entrance.Again): a
// workspace by its number, and by where it is unless that is its name; a state of the past by where it is.

const (
	liveTreePrefix = "workspace "
	pastTreePrefix = "past "
)

func liveTree(id store.WorkspaceID, where string) string {
	s := liveTreePrefix + strconv.FormatInt(int64(id), 10)
	if strings.Contains(where, "/") {
		s += " " + where
	}
	return s
}

// liveTreeOf reads what liveTree wrote; where is "" for one that is called by its name.
func liveTreeOf(what string) (id store.WorkspaceID, where string, ok bool) {
	s, ok := strings.CutPrefix(what, liveTreePrefix)
	s, where, _ = strings.Cut(s, " ")
	n, err := strconv.ParseInt(s, 10, 64)
	return store.WorkspaceID(n), where, ok && err == nil
}

type keptPast struct {
	Workspace store.WorkspaceID `json:"w"`
	Timeline  store.TimelineID  `json:"t"`
	Seq       store.Seq         `json:"s"`
	Rev       string            `json:"rev"`
	Path      Path              `json:"path"`
}

func pastTree(id store.WorkspaceID, rev string, at versions.Place, where string) string {
	b, err := json.Marshal(&keptPast{id, at.Timeline, at.Seq, rev, Path(where)})
	if err != nil {
		return ""
	}
	return pastTreePrefix + string(b)
}

// again leads to a tree that the daemon before has shown in a mount.
func (d *Daemon) again(point, session string) func(what string) (*fs.Entrance, error) {
	return func(what string) (*fs.Entrance, error) {
		ctx := context.Background()
		if id, where, ok := liveTreeOf(what); ok {
			ws, err := d.aliveWorkspace(ctx, id)
			if err != nil {
				return nil, err
			}
			return d.entrance(ws.Name, id, cmp.Or(where, ws.Name), point, session), nil
		}
		var k keptPast
		text, ok := strings.CutPrefix(what, pastTreePrefix)
		if !ok || json.Unmarshal([]byte(text), &k) != nil {
			return nil, fmt.Errorf("a tree of the daemon before: it is not known what %q is: %w", what, syscall.ESTALE)
		}
		ws, err := d.aliveWorkspace(ctx, k.Workspace)
		if err != nil {
			return nil, err
		}
		s, err := d.slot(ctx, ws.Name, ws.ID)
		if err != nil {
			return nil, err
		}
		return d.pastEntrance(s, k.Rev, frozen{slot: s, ws: *ws, place: versions.Place{Timeline: k.Timeline, Seq: k.Seq}}, string(k.Path)), nil
	}
}

func (d *Daemon) aliveWorkspace(ctx context.Context, id store.WorkspaceID) (*store.Workspace, error) {
	if err := d.st.Apply(ctx, d.st.Last()); err != nil {
		return nil, err
	}
	ws, err := d.st.WorkspaceByID(ctx, id)
	if err == nil && ws.DroppedAt != 0 {
		err = fmt.Errorf("workspace %q was dropped: %w", ws.Name, syscall.ESTALE)
	}
	return ws, err
}

// reopenAll opens the workspaces that were open in a mount beside what was mounted: those that have a ledger.
func (d *Daemon) reopenAll(ctx context.Context, l *left) error {
	for view, what := range l.kept.Views() {
		id, _, ok := liveTreeOf(what)
		if !ok || !d.wasLive(id) {
			continue
		}
		ws, err := d.aliveWorkspace(ctx, id)
		if err == nil {
			var s *shown
			if s, err = d.showLive(ctx, ws.Name, l.km.Request.Session); err == nil {
				l.again, l.back = append(l.again, s), append(l.back, view)
			}
		}
		if err != nil {
			d.log.Error("a workspace in a mount cannot go on", "workspace", id, "error", err)
		}
	}
	return nil
}

// wasLive reports whether a workspace has what the daemon before left: not opened yet, or opened for another mount.
func (d *Daemon) wasLive(id store.WorkspaceID) bool {
	d.mu.Lock()
	_, left := d.ledgers[id]
	s := d.slots[id]
	d.mu.Unlock()
	if left || s == nil {
		return left
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live != nil
}

// settled is the file system that a view of a mount shows, if it goes on.
func (l *left) settled(view uint64) *fs.FS {
	if view == 0 {
		return l.show.f
	}
	for i, n := range l.back {
		if n == view {
			return l.again[i].f
		}
	}
	return nil
}
