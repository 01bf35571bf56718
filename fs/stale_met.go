package fs

import (
	"bytes"
	"context"
	"io"
	"regexp"
	"slices"
	"syscall"

	"wsfs/blob"
	"wsfs/internal/diff"
	"wsfs/store"
)

// met is a content that a write is about to replace and that another session made.
type met struct {
	why    string
	base   sight      // what the writer had seen; version 0: nothing that is known
	head   store.Past // what is there
	path   string
	policy Policy
}

// write is what is about to replace what a file has.
type write struct {
	who     store.Attribution
	content blob.Content
	text    func(c *Call) ([]byte, error) // of content; for what is not larger than mergeMax
	rules   *Rules
	file    *node // what is written, or gets the name
	parent  *node // where, and the name, if it may have several
	name    string
	track   *track
	head    blob.Content    // what is there
	version store.VersionID // of it
	slot    store.Slot
}

// meets says whom a write meets, nil if nobody: contents alone decide, never times. fresh: the writer had seen what is there. FS.mu
// is held, and released meanwhile; file.mu may be.
func (f *FS) meets(c *Call, w *write) (m *met, fresh bool, err error) {
	s := w.who.Session
	if s == nil || w.head == w.content {
		return nil, false, nil
	}
	name, ok := f.pathOf(w.file)
	if w.parent != nil {
		name, ok = f.pathIn(w.parent, w.name)
	}
	if ok && below(name+"/", func(dir string) bool { return dir == ".git" }) {
		return nil, false, nil
	}
	e := w.track.of(s.ID)
	if e != nil && e.version != w.version && e.content == unknownContent {
		if err := f.recall(c, w.track, s.ID); err != nil {
			return nil, false, err
		}
		e = w.track.of(s.ID)
	}
	past, err := f.pastOf(c, w)
	if err != nil {
		return nil, false, err
	}
	for len(past) > 1 && past[0].Kind == store.OpCreate && past[0].Session == s.ID && past[0].Content == (blob.Content{}) && w.head == past[0].Content {
		// It made the file, which may be in the database before its bytes are: what counts is what had the name before.
		past = past[1:]
		w.head, w.version = past[0].Content, past[0].Version
		if w.head == w.content {
			return nil, false, nil
		}
	}
	if e == nil {
		if e, err = f.seenBefore(c, past, s.ID); err != nil {
			return nil, false, err
		}
	}
	if e == nil && s.ID == f.tracks.first {
		e = f.tracks.whenAlone(past)
	}
	fresh = e != nil && (e.content == w.head || e.version == w.version && (e.content == unknownContent || e.content.Size > mergeMax))
	head := brought(past)
	head.Content = w.head
	m = &met{head: head, path: name, policy: w.rules.For(name)}
	if head.Version == 0 {
		m.head.Version = w.version
	}
	foreign := head.Session != s.ID || head.Merged
	switch {
	case fresh && !foreign:
		return nil, true, nil
	case fresh:
		m.why = store.WhyRevert
		if head.Kind == store.OpImport {
			return nil, true, nil
		}
	case e != nil && !foreign: // what it wrote last may not be known as seen: it was not saved when the daemon died, or had another name since
		return nil, false, nil
	case e != nil:
		m.why, m.base = store.WhyStale, *e
		if m.base.content == unknownContent { // it was collected
			m.base = sight{}
		}
	case !foreign || head.Session == 0 || head.Kind == store.OpImport || below(name, func(dir string) bool { return scratchNames[dir] }):
		return nil, false, nil
	case head.At < s.StartedAt && (!named(s) || !f.namedSession(c, head.Session)):
		return nil, false, nil // it was there when the session began
	default:
		m.why = store.WhyBlind
	}
	f.mu.Unlock()
	lost, err := f.loses(c, w, m, past)
	f.mu.Lock()
	if err != nil || !lost {
		return nil, fresh, err
	}
	return m, fresh, nil
}

// loses reports whether the write loses what was met. No lock is needed.
func (f *FS) loses(c *Call, w *write, m *met, past []store.Past) (bool, error) {
	large := w.head.Size > mergeMax || w.content.Size > mergeMax
	if large {
		return m.why != store.WhyRevert, nil
	}
	head, err := f.text(c, w.head)
	if err != nil {
		return false, err
	}
	wrote, err := w.text(c)
	if err != nil {
		return false, err
	}
	if diff.Binary(head) || diff.Binary(wrote) {
		return m.why != store.WhyRevert, nil
	}
	switch m.why {
	case store.WhyBlind:
		return !keeps(head, wrote), nil
	case store.WhyStale:
		if m.base.version == 0 || m.base.content.Size > mergeMax {
			return !keeps(head, wrote), nil
		}
		base, err := f.text(c, m.base.content)
		if err != nil {
			return false, err
		}
		merged, _, ok := diff.Merge3(base, wrote, head)
		return !ok || !bytes.Equal(merged, wrote), nil
	}
	for i, p := range past {
		if i == 0 || p.Content == w.head || p.Content.Size > mergeMax {
			continue
		}
		old, err := f.text(c, p.Content)
		if err != nil {
			return false, err
		}
		if !diff.Binary(old) && reverts(old, head, wrote) {
			m.base = sight{version: p.Version, content: p.Content}
			return true, nil
		}
		if p.Session == w.who.Session.ID {
			break // what came before is its own affair
		}
	}
	return false, nil
}

// keeps reports whether every line of a is in b, in order.
func keeps(a, b []byte) bool {
	for _, ch := range diff.Diff(a, b) {
		if ch.ALen > 0 {
			return false
		}
	}
	return true
}

// reverts reports whether wrote has, of all that changed from old to head, what was there before: wherever head differs from
// old, wrote is as old was.
func reverts(old, head, wrote []byte) bool {
	theirs, ours := diff.Diff(old, head), diff.Diff(old, wrote)
	if len(theirs) == 0 || len(old) == 0 {
		return false
	}
	for _, a := range theirs {
		for _, b := range ours {
			apart := a.A+a.ALen <= b.A || b.A+b.ALen <= a.A
			if a.ALen == 0 {
				apart = a.A+a.ALen < b.A || b.A+b.ALen < a.A
			}
			if !apart {
				return false
			}
		}
	}
	return true
}

// text is a content of at most mergeMax.
func (f *FS) text(c *Call, from blob.Content) ([]byte, error) {
	b := make([]byte, from.Size)
	if from.Size == 0 {
		return b, nil
	}
	return b, f.readContent(c, from, b, 0)
}

// pastOf is the contents of a file before a write, newest first. FS.mu is held, and released if the database has to be asked.
func (f *FS) pastOf(c *Call, w *write) ([]store.Past, error) {
	if w.track != nil && len(w.track.past) > 0 {
		past := w.track.past
		if past[0].Content == w.head {
			return past, nil
		}
		if i := pastAt(past, w.version); i >= 0 { // what lost its name goes on under another one
			return past[i:], nil
		}
		w.track.past = nil // the workspace was moved to another state
	}
	f.mu.Unlock()
	defer f.mu.Lock()
	c.yield()
	ctx := context.Background()
	if f.st.Applied() < w.slot {
		if err := f.st.Apply(ctx, w.slot); err != nil {
			return nil, err
		}
	}
	return f.pastIn(ctx, w.version, maxMoves)
}

// pastAt is where a version is in past, -1 if it is not there.
func pastAt(past []store.Past, id store.VersionID) int {
	return slices.IndexFunc(past, func(p store.Past) bool { return p.Version == id })
}

// pastIn is the past of a version in the database, with who brought its content: who moved a content to its name has not. moves is how
// many of those are looked through; beyond them it counts as brought by a stranger.
func (f *FS) pastIn(ctx context.Context, id store.VersionID, moves int) ([]store.Past, error) {
	return f.pastWithin(ctx, id, &moves)
}

func (f *FS) pastWithin(ctx context.Context, id store.VersionID, moves *int) ([]store.Past, error) {
	past, err := f.st.PastOf(ctx, id, maxPast)
	for i := range past {
		p := &past[i]
		if err != nil || p.Content != past[0].Content {
			break
		}
		if p.Moved == 0 {
			continue
		}
		if *moves--; *moves < 0 {
			p.Session = stranger
			continue
		}
		var own []store.Past
		own, err = f.pastWithin(ctx, p.Moved, moves)
		moved(p, own)
	}
	return past, err
}

// seenBefore is what a session has seen of the files that had the name before, nil if nothing: a process that has only what an earlier one
// saved knows it by their inodes. FS.mu is held, and may be released meanwhile.
func (f *FS) seenBefore(c *Call, past []store.Past, s store.SessionID) (*sight, error) {
	for i := range past {
		tr := f.tracks.files[past[i].Ino]
		e := tr.of(s)
		if e == nil {
			continue
		}
		if e.content == unknownContent {
			if err := f.recall(c, tr, s); err != nil {
				return nil, err
			}
			e = tr.of(s)
		}
		return e, nil
	}
	return nil, nil
}

// recall finds the content of what a session has seen in an earlier process. FS.mu is held, and released meanwhile.
func (f *FS) recall(c *Call, tr *track, s store.SessionID) error {
	e := *tr.of(s)
	f.mu.Unlock()
	c.yield()
	past, err := f.st.PastOf(context.Background(), e.version, 1)
	f.mu.Lock()
	if err != nil {
		return err
	}
	if now := tr.of(s); now != nil && now.version == e.version && len(past) == 1 {
		now.content = past[0].Content
	}
	return nil
}

// madeUp is a session that `wsfs run` named because nobody did.
var madeUp = regexp.MustCompile(`^run-\d{8}-\d{6}-[0-9a-f]{4}$`)

// named reports whether somebody gave the session its name.
func named(s *store.Session) bool { return s.Agent != store.AgentLogin && !madeUp.MatchString(s.Name) }

// namedSession is named by number. FS.mu is held, and may be released meanwhile.
func (f *FS) namedSession(c *Call, id store.SessionID) bool {
	if yes, ok := f.tracks.named[id]; ok {
		return yes
	}
	f.mu.Unlock()
	c.yield()
	s, err := f.st.SessionByID(context.Background(), id)
	f.mu.Lock()
	yes := err == nil && s != nil && named(s)
	if len(f.tracks.named) < 1<<12 {
		f.tracks.named[id] = yes
	}
	return yes
}

// whole reports whether what was written replaces what the last version had, rather than changing a part of it or adding to it.
// mu is held.
func (fl *file) whole() bool {
	if fl.committed.Size == 0 {
		return fl.changed
	}
	if fl.limit < fl.committed.Size {
		return true
	}
	e, ok := fl.valid.next(0)
	return ok && e.Off == 0 && e.Len >= fl.committed.Size
}

// textOf reads what fl has. mu is held.
func (f *FS) textOf(fl *file) func(*Call) ([]byte, error) {
	return func(c *Call) ([]byte, error) {
		b := make([]byte, fl.size)
		_, err := fl.readAt(f, c, b, 0)
		if err == io.EOF {
			err = nil
		}
		return b, err
	}
}

// errMet is what a refused write returns.
func errMet(op string, m *met) error { return nameErr(op, m.path, syscall.EBUSY) }
