package fs

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"wsfs/blob"
	"wsfs/store"
)

// What a session has seen of a file is the version that it last read or wrote. An open moves it that can read and does not
// truncate, a read that the kernel asks for, and a write of its own that replaces the whole content, or that it made knowing what was
// there. Who writes a content over one that another session made, without having seen it, is met (stale_met.go).
//
// Nothing of it is kept while only one session is known to work in the workspace, by a write or by opening a file: it has seen
// what was there when the second one came. From then on every file that is
// read or written has a track, as far as they fit in memory. What is not known counts as never seen. What was seen is saved with the
// next op of its session, or with one of its own when somebody else's comes (store.Op.Seen): what nobody wrote after is lost
// with the process. A session that has changed nothing leaves nothing in the store until somebody else changes what it has seen.

const (
	// maxTracks is how many files are remembered.
	maxTracks = 1 << 15
	// maxUnsaved is how much of what was seen waits for an op, for each session.
	maxUnsaved = 1 << 12
	// maxUnsavedSessions is how many sessions may have some.
	maxUnsavedSessions = 1 << 8
	// maxSights is how many sessions are remembered for each file.
	maxSights = 1 << 6
	// maxPast is how many contents of a file are looked back at.
	maxPast = 8
	// maxMoves is for how many moves of one content it is found out who brought it.
	maxMoves = 1 << 6
	// stranger is somebody who is not asked about: no session.
	stranger store.SessionID = -1
	// lookedUpFor is for how long after a file was replaced an open of it may be by the name that it had, which the kernel had
	// looked up before.
	lookedUpFor = time.Second
)

// tracks is what is known of who has seen what. FS.mu guards all but on.
type tracks struct {
	on       atomic.Bool // several sessions are known
	only     *store.Session
	names    map[string]struct{}
	named    map[store.SessionID]bool // whether somebody gave it a name
	files    map[store.Ino]*track
	ghosts   map[store.VersionID]ghost
	unsaved  map[store.SessionID]*unsaved
	stored   map[store.SessionID]bool // sessions that the store knows
	first    store.SessionID          // who was alone until since
	since    int64                    // ns
	unmerged map[*node][]unmerged
	last     atomic.Pointer[store.Session] // who was last found to work here; guarded by nothing
}

// track is one file.
type track struct {
	next     store.Ino // what replaced it under its name, 0 if nothing did
	replaced int64     // when that was, ns
	seen     []sight
	lent     []sight      // of what had the name before: with another name they are others
	own      *track       // lent and past as they were before the file got a name that something else had lost; nil if it did not
	left     *track       // what was known by the name that a file has just left with what was lent; until that is a ghost
	past     []store.Past // contents, the newest first, as far as is known; each with who brought it
}

// sight is what a session has seen.
type sight struct {
	session store.SessionID
	version store.VersionID
	content blob.Content // its Ref is zero with a size if it is not known yet
	saved   bool         // an earlier process saved it, and nothing came since
}

type unsaved struct {
	session *store.Session
	rows    map[store.Ino]store.VersionID
}

// openTracks begins with what earlier processes saved.
func (f *FS) openTracks(ctx context.Context) error {
	t := &f.tracks
	t.names, t.named = map[string]struct{}{}, map[store.SessionID]bool{}
	t.stored = map[store.SessionID]bool{}
	t.files, t.ghosts, t.unsaved = map[store.Ino]*track{}, map[store.VersionID]ghost{}, map[store.SessionID]*unsaved{}
	if f.opts.ReadOnly {
		return nil
	}
	rows, err := f.st.Sessions(ctx, f.ws.ID, 64)
	if err != nil {
		return fmt.Errorf("who works in the workspace: %w", err)
	}
	for i := range rows {
		t.names[rows[i].Name] = struct{}{}
		t.named[rows[i].ID] = named(&rows[i].Session)
		t.stored[rows[i].ID] = true
	}
	if len(rows) == 1 {
		t.only = &rows[0].Session
	}
	if len(t.names) < 2 {
		return nil
	}
	seen, err := f.st.Seen(ctx, f.ws.ID, 2*maxTracks)
	if err != nil {
		return err
	}
	var old []store.SeenRow
	for _, r := range seen {
		if len(t.files) >= maxTracks {
			old = append(old, store.SeenRow{Session: r.Session, Ino: r.Ino})
			continue
		}
		tr := t.files[r.Ino]
		if tr == nil {
			tr = &track{}
			t.files[r.Ino] = tr
		}
		tr.seen = append(tr.seen, sight{session: r.Session, version: r.Version, content: unknownContent, saved: true})
	}
	t.on.Store(true)
	if len(old) > 0 {
		_, err = f.st.Append(&store.Op{Seen: old, At: f.now().UnixNano()})
	}
	return err
}

// unknownContent is that of a version that was not looked up yet.
var unknownContent = blob.Content{Size: -1}

// Expect says that a session is about to work here: with the second one, what they read and write is watched.
func (f *FS) Expect(session string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tracks.names[session] = struct{}{}
	f.watch()
}

// joins notes that a session works here. FS.mu is not held.
func (f *FS) joins(s *store.Session) {
	if s == nil || f.opts.ReadOnly || f.tracks.last.Load() == s {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	t := &f.tracks
	t.last.Store(s)
	if t.only == nil && !t.on.Load() {
		t.only = s
	}
	if t.only != nil && t.only.ID == s.ID {
		if len(t.names) == 0 {
			t.names[s.Name] = struct{}{}
		}
		return
	}
	if _, ok := t.named[s.ID]; ok && t.on.Load() {
		return
	}
	t.named[s.ID] = named(s)
	if t.only != nil {
		t.named[t.only.ID] = named(t.only)
		t.names[t.only.Name] = struct{}{}
	}
	t.names[s.Name] = struct{}{}
	f.watch()
}

// watch begins to look at who sees what, once two sessions are known. FS.mu is held.
func (f *FS) watch() {
	t := &f.tracks
	if t.on.Load() || len(t.names) < 2 || f.opts.ReadOnly {
		return
	}
	if t.only != nil {
		t.first, t.since = t.only.ID, f.now().UnixNano()
	}
	t.on.Store(true)
}

// whenAlone is what the session that was alone saw last of a file, nil if that is not known any more.
func (t *tracks) whenAlone(past []store.Past) *sight {
	for _, p := range past {
		if p.At <= t.since {
			return &sight{session: t.first, version: p.Version, content: p.Content}
		}
	}
	return nil
}

// head is the content of n's last version. FS.mu is held.
func (n *node) head() blob.Content {
	if n.file != nil {
		return n.file.committed
	}
	return blob.Content{Ref: n.v.Content, Size: n.v.Size}
}

// reads notes that a session reads what n has now. FS.mu is held.
func (f *FS) reads(n *node, s *store.Session) {
	if s == nil || n.fresh || n.stale || !n.isReg() || f.opts.ReadOnly {
		return
	}
	f.sees(n.ino, s, n.v.ID, n.head())
	tr := f.tracks.files[n.ino]
	if tr == nil || !n.gone && (tr.next == 0 || f.now().UnixNano()-tr.replaced > int64(lookedUpFor)) {
		return
	}
	// It was replaced a moment ago, and what its reader writes goes to what has its name now. If it has another name (a backup
	// link), that may be the one that it was read by: then this is as if the file had been read just before, and nobody who has
	// read it since goes back.
	for hops := 0; tr != nil && tr.next != 0 && hops < maxSights; hops++ {
		ino := tr.next
		if tr = f.tracks.files[ino]; tr != nil && tr.next == 0 {
			if at := tr.of(s.ID); n.gone || at == nil || at.version < n.v.ID {
				f.sees(ino, s, n.v.ID, n.head())
			}
		}
	}
}

// sees is reads of a version. FS.mu is held.
func (f *FS) sees(ino store.Ino, s *store.Session, version store.VersionID, content blob.Content) {
	tr := f.track(ino)
	tr.lent = slices.DeleteFunc(tr.lent, func(at sight) bool { return at.session == s.ID })
	for i := range tr.seen {
		if at := &tr.seen[i]; at.session == s.ID {
			at.saved = false
			if at.version != version || at.content != content {
				at.version, at.content = version, content
				f.unsaved(s, ino, version)
			}
			return
		}
	}
	if len(tr.seen) >= maxSights {
		tr.seen = tr.seen[1:]
	}
	tr.seen = append(tr.seen, sight{session: s.ID, version: version, content: content})
	f.unsaved(s, ino, version)
}

// track is that of an inode, made if there is none. FS.mu is held.
func (f *FS) track(ino store.Ino) *track {
	t := &f.tracks
	tr := t.files[ino]
	if tr != nil {
		return tr
	}
	if len(t.files) >= maxTracks {
		gone := 0
		for other := range t.files { // in no order
			if delete(t.files, other); gone >= maxTracks/8 {
				break
			}
			gone++
		}
	}
	tr = &track{}
	t.files[ino] = tr
	return tr
}

// of is what a session has seen of the file or, if that is newer, of what had its name before; nil if nothing.
func (tr *track) of(s store.SessionID) (last *sight) {
	if tr == nil {
		return nil
	}
	for _, list := range [][]sight{tr.seen, tr.lent} {
		for i := range list {
			if at := &list[i]; at.session == s && (last == nil || last.version < at.version) {
				last = at
			}
		}
	}
	return last
}

// sights is of for every session.
func (tr *track) sights() []sight {
	list := slices.Concat(tr.seen, tr.lent)
	return slices.DeleteFunc(list, func(at sight) bool { return *tr.of(at.session) != at })
}

// known is the past of the file as it is now, nil if nothing is known.
func (tr *track) known() []store.Past {
	if tr == nil {
		return nil
	}
	return slices.Clone(tr.past)
}

// unsaved has it saved with the next op. FS.mu is held.
func (f *FS) unsaved(s *store.Session, ino store.Ino, version store.VersionID) {
	u := f.tracks.unsaved[s.ID]
	if u == nil {
		if len(f.tracks.unsaved) >= maxUnsavedSessions {
			for id := range f.tracks.unsaved { // in no order
				if !f.tracks.stored[id] {
					delete(f.tracks.unsaved, id)
					break
				}
			}
		}
		u = &unsaved{session: s, rows: map[store.Ino]store.VersionID{}}
		f.tracks.unsaved[s.ID] = u
	}
	if _, ok := u.rows[ino]; ok || len(u.rows) < maxUnsaved {
		u.rows[ino] = version
	}
}

// saveSeen puts what the op's session has seen into it, and what others have into ops before it. FS.mu is held.
func (f *FS) saveSeen(op *store.Op) {
	t := &f.tracks
	if op != nil && op.Who.Session != nil {
		t.stored[op.Who.Session.ID] = true
		for i := range op.Versions {
			if tr := t.files[op.Versions[i].Ino]; tr != nil {
				t.concerns(tr, op.Versions[i].Ino)
			}
		}
	}
	for id, u := range t.unsaved {
		if len(u.rows) == 0 || !t.stored[id] {
			continue
		}
		rows := make([]store.SeenRow, 0, len(u.rows))
		for ino, version := range u.rows {
			rows = append(rows, store.SeenRow{Session: id, Ino: ino, Version: version})
		}
		if op != nil && op.Who.Session != nil && op.Who.Session.ID == id {
			op.Seen = append(op.Seen, rows...)
		} else if _, err := f.st.Append(&store.Op{Who: store.Attribution{Session: u.session}, Seen: rows, At: f.now().UnixNano()}); err != nil {
			return // the op itself will say why
		}
		clear(u.rows)
	}
}

// concerns has what is unsaved of those saved who have seen a file that is about to change.
func (t *tracks) concerns(tr *track, ino store.Ino) {
	for _, s := range tr.seen {
		if u := t.unsaved[s.session]; u != nil && !t.stored[s.session] {
			if _, ok := u.rows[ino]; ok {
				t.stored[s.session] = true
			}
		}
	}
}

// flushSeen saves what nobody has written after.
func (f *FS) flushSeen() {
	if !f.tracks.on.Load() || f.opts.ReadOnly {
		return
	}
	f.mu.Lock()
	f.saveSeen(nil)
	f.mu.Unlock()
}

// tracked notes what an op does to contents and names. FS.mu is held, and memory has its rows already.
func (f *FS) tracked(ch *change, before []blob.Content) {
	op := ch.op
	var by store.SessionID
	if op.Who.Session != nil {
		by = op.Who.Session.ID
	}
	for i, n := range ch.nodes {
		v := &op.Versions[i]
		if v.Type() != syscall.S_IFREG || v.Nlink == 0 {
			continue
		}
		now := blob.Content{Ref: v.Content, Size: v.Size}
		from, ghost := f.namesake(ch, v, before)
		if tr := f.tracks.files[n.ino]; from == nil && tr != nil && op.Kind == store.OpRename {
			tr.returns(now)
		}
		if e := op.Elide; e != nil && e.Ino == v.Ino {
			f.tracks.files[v.Ino].forgetBirth(v)
		}
		if from == nil && now == before[i] && v.Parent != 0 {
			continue
		}
		tr := f.track(n.ino)
		entry := store.Past{Version: v.ID, Ino: v.Ino, Content: now, Merged: v.Merge != 0, Session: by, Kind: op.Kind, At: op.At}
		if op.Amend && len(tr.past) > 0 && tr.past[0].Version == v.ID {
			tr.past[0] = entry
			continue
		}
		entry.Merged = entry.Merged || ch.mixed
		known := true
		if now == before[i] { // moving a content is not bringing it
			known = len(tr.past) > 0
			moved(&entry, tr.past)
		}
		past := []store.Past{entry}
		switch {
		case from != nil:
			past = append(past, from.past...)
			tr.borrows(from, ghost && v.Parent != 0)
		case len(tr.past) == 0 && v.Parent != 0:
			past = append(past, store.Past{Version: v.Parent, Ino: v.Ino, Content: before[i]})
		default:
			past = append(past, tr.past...)
		}
		if tr.past = past[:min(len(past), maxPast)]; !known {
			tr.past = nil // who brought it is in the database
		}
	}
}

// forgetBirth has the file begin with v: the versions before are no rows any more.
func (tr *track) forgetBirth(v *store.Version) {
	if tr == nil {
		return
	}
	tr.past = beginning(tr.past, v)
	if tr.own != nil {
		tr.own.past = beginning(tr.own.past, v)
	}
}

// beginning is past with v in the place of what its inode was before.
func beginning(past []store.Past, v *store.Version) []store.Past {
	if len(past) == 0 || past[0].Ino != v.Ino {
		return past
	}
	newest := past[0]
	newest.Version = v.ID
	rest := slices.DeleteFunc(slices.Clone(past), func(p store.Past) bool { return p.Ino == v.Ino })
	return append([]store.Past{newest}, rest...)
}

// namesake is what is known of the file whose name a version took, nil if it took none: its past has something. ghost: it had
// lost the name before. FS.mu is held.
func (f *FS) namesake(ch *change, v *store.Version, before []blob.Content) (from *track, ghost bool) {
	if v.Replaced == 0 {
		return nil, false
	}
	for i := range ch.op.Versions {
		if w := &ch.op.Versions[i]; w.Parent == v.Replaced && ch.op.Kind != store.OpExchange { // it may have other names
			if w.Ino == v.Ino {
				return nil, false
			}
			from := f.track(w.Ino)
			from.next, from.replaced = v.Ino, ch.op.At
			past := from.past
			if len(past) == 0 {
				past = []store.Past{{Version: v.Replaced, Ino: w.Ino, Content: before[i]}}
			}
			return &track{seen: from.sights(), past: past}, false
		}
	}
	g, ok := f.tracks.ghosts[v.Replaced]
	if !ok || g.ino == v.Ino { // or it is back where it was
		return nil, false
	}
	if n := f.nodeOf(g.ino); n == nil || n.gone {
		f.track(g.ino).next = v.Ino
	}
	from = f.ghostTrack(v.Replaced, g)
	if len(from.past) == 0 {
		from.past = []store.Past{{Version: v.Replaced, Ino: g.ino, Content: g.content}}
	}
	return from, true
}

// borrows has the file go on from what had the name that it got. ghost: nothing had it any more, so it may be there in passing only, and
// what it was is what it goes on from by the next name.
func (tr *track) borrows(from *track, ghost bool) {
	switch {
	case !ghost:
		tr.own = nil
	case tr.own == nil:
		tr.own = &track{lent: tr.lent, past: tr.past}
	}
	tr.lent = from.seen
}

// returns ends that with another name, which nothing had. content is what the file has.
func (tr *track) returns(content blob.Content) {
	own := tr.own
	if own == nil {
		return
	}
	tr.left = &track{seen: tr.sights(), past: tr.past}
	tr.own, tr.lent = nil, own.lent
	if len(own.past) > 0 && own.past[0].Content == content {
		tr.past = own.past
	}
}

// knowPast has the track of n know what n was. FS.mu is held; asked: it was released meanwhile.
func (f *FS) knowPast(c *Call, n *node) (asked bool, err error) {
	if !f.tracks.on.Load() || !n.isReg() || n.fresh {
		return false, nil
	}
	tr := f.track(n.ino)
	if len(tr.past) > 0 {
		return false, nil
	}
	past, err := f.pastOf(c, &write{track: tr, head: n.head(), version: n.v.ID, slot: n.slot})
	if err == nil && len(tr.past) == 0 && len(past) > 0 && past[0].Version == n.v.ID {
		tr.past = past
	}
	return true, err
}

// brought is who made the content that the newest of past has, rather than who touched it last; zero if that is not known.
func brought(past []store.Past) (by store.Past) {
	for i, p := range past {
		if i > 0 && p.Content != by.Content {
			break
		}
		by = p
	}
	return by
}

// moved says of what has just got another name who brought its content; own is what it was before, the newest first.
func moved(p *store.Past, own []store.Past) {
	if by := brought(own); by.Version != 0 && by.Content == p.Content {
		p.Session, p.Kind, p.At, p.Merged = by.Session, by.Kind, by.At, by.Merged
	}
}

// foreign reports whether another session made what n has, as far as memory knows. FS.mu is held.
func (f *FS) foreign(n *node, s store.SessionID) bool {
	tr := f.tracks.files[n.ino]
	if tr == nil {
		return false
	}
	by := brought(tr.past).Session
	return by != 0 && by != s
}

// goesBack reports whether n has replaced something, as far as memory knows. Then its name goes on from that, and
// another name beside it (a backup link) is no save of what that had. FS.mu is held.
func (f *FS) goesBack(n *node) bool {
	if n.v.Replaced != 0 {
		return true
	}
	tr := f.tracks.files[n.ino]
	return tr != nil && slices.ContainsFunc(tr.past, func(p store.Past) bool { return p.Ino != n.ino })
}

// before is the contents that the op's inodes have. FS.mu is held.
func (ch *change) before() []blob.Content {
	list := make([]blob.Content, len(ch.nodes))
	for i, n := range ch.nodes {
		if n.isReg() && !n.fresh {
			list[i] = n.head()
		}
	}
	return list
}
