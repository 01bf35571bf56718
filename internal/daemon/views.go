package daemon

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"sync"
	"syscall"
	"time"

	"wsfs/fs"
	"wsfs/internal/control"
	"wsfs/internal/ui"
	"wsfs/store"
	"wsfs/versions"
)

// How long a tree stays open although nobody looks at it.
const (
	pastIdle = 10 * time.Second // holds a pin
	liveIdle = 5 * time.Minute  // the kernel's caches of a workspace are worth keeping
)

// controlOf makes the .wsfs tree of a workspace, or of the state of it that a mount shows: f, of slot s. dir is where the
// workspace is in the mount, "" for its root. session is that of callers that name none.
func (d *Daemon) controlOf(s *slot, f *fs.FS, seq store.Seq, point, dir, session string) fs.Control {
	o := control.Options{
		FS: f, Store: d.st, Now: d.o.Now, Workspace: s.id,
		View: func(ctx context.Context) (*store.View, error) { return d.viewOf(ctx, s, seq) },
		Past: func(ctx context.Context, rev string) (*fs.Entrance, error) {
			return d.pastOf(ctx, s, rev, path.Join(dir, ".wsfs/at", rev))
		},
		Status: func(ctx context.Context, out *ui.Out) error {
			st := d.status(ctx)
			t := out.NewTable("", "")
			t.Row("store", ui.Name(d.o.Store))
			t.Row("here", fmt.Sprintf("workspace %s on %s", mountLabel(s.name, seq), ui.Name(path.Join(point, dir))))
			st.Print(out, t)
			open, err := d.transactions(ctx, s.id, s.name)
			for _, x := range open {
				t.Row("transaction", fmt.Sprintf("%s in .wsfs/tx/%s, since %s", ui.Name(x.Name), ui.Name(x.Name), out.Time(x.Begun)))
			}
			t.Print()
			return err
		},
	}
	if seq == 0 && !f.Workspace().ReadOnly {
		o.Tx = d.txTree(s, point, dir, session)
		o.Do = func(ctx context.Context, pid uint32, words []string) control.Result {
			ctx = context.WithValue(ctx, peerKey{}, int(pid))
			return d.runWords(context.WithValue(ctx, sessionKey{}, session), s, words)
		}
	}
	return control.New(o)
}

// viewOf is what a mount of s shows, with everything acknowledged before in the database.
func (d *Daemon) viewOf(ctx context.Context, s *slot, seq store.Seq) (*store.View, error) {
	if err := d.st.Apply(ctx, d.st.Last()); err != nil {
		return nil, err
	}
	rev := versions.Revision{Workspace: s.name}
	if seq != 0 {
		rev.Point = versions.Point{Kind: versions.AtSeq, Seq: seq}
	}
	r, err := versions.Resolve(ctx, d.st, rev, d.o.Now())
	if err != nil {
		return nil, err
	}
	return r.View, nil
}

// pastKey tells the trees below at/ apart: each way of naming a state has a tree of its own, so that no directory is in
// two places, and all of one state read through one file system.
type pastKey struct {
	workspace store.WorkspaceID
	rev       string
	place     versions.Place
}

// pastOf leads to a state of a workspace that a directory of at/ names. Nothing is changed by it: unlike a fork or a
// mount, it shows what versions there are, and not what is open and dirty.
func (d *Daemon) pastOf(ctx context.Context, s *slot, rev, where string) (*fs.Entrance, error) {
	r, err := versions.Parse("@"+rev, time.Local)
	if err != nil || r.Point.Kind == versions.AtHead {
		return nil, fmt.Errorf("%s: %w", where, syscall.ENOENT)
	}
	r.Workspace = s.name
	from, err := d.find(ctx, s, r)
	if err != nil {
		return nil, err
	}
	// Nothing up to there is amended from now on, and what was amended until now is in the database.
	if f, release := s.hold(); f != nil {
		f.Seal()
		release()
		if err := d.st.Apply(ctx, d.st.Last()); err != nil {
			return nil, err
		}
	}
	return d.pastEntrance(s, rev, from, where), nil
}

func (d *Daemon) pastEntrance(s *slot, rev string, from frozen, where string) *fs.Entrance {
	return &fs.Entrance{
		Key: pastKey{s.id, rev, from.place}, Path: where, Idle: d.pastIdle, Again: pastTree(s.id, rev, from.place, where),
		Attr: func(c *fs.Call) (fs.Attr, error) {
			c.Blocks()
			view, err := d.st.ViewAt(context.Background(), from.place.Timeline, from.place.Seq)
			if err != nil {
				return fs.Attr{}, err
			}
			v, err := view.Version(context.Background(), store.RootIno)
			if err != nil {
				return fs.Attr{}, err
			}
			a := fs.AttrOfVersion(v)
			d.limit(c, s, &a)
			return a, nil
		},
		Open: func(ctx context.Context) (*fs.Tree, error) {
			f, release, err := d.pasts.open(ctx, d, from)
			if err != nil {
				return nil, err
			}
			return &fs.Tree{FS: f, Limit: func(c *fs.Call, a *fs.Attr) { d.limit(c, s, a) }, Close: release}, nil
		},
	}
}

// hold is the live file system of s for a moment, nil if it is not live.
func (s *slot) hold() (*fs.FS, func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live == nil {
		return nil, nil
	}
	s.refs++
	return s.live, s.release
}

// limit takes from the attributes of a past state what the same inode does not grant now: who may not read a file today
// may not read what it was.
func (d *Daemon) limit(c *fs.Call, s *slot, a *fs.Attr) {
	now, err := d.attrNow(c, s, a.Ino)
	switch {
	case errors.Is(err, syscall.ENOENT) || err == nil && now.Nlink == 0:
		return // it is no more: what it granted last counts, and that is in the past
	case err != nil:
		a.Mode &= syscall.S_IFMT // better nothing than too much
		return
	}
	a.Mode &= syscall.S_IFMT | now.Mode&0o7777
	a.UID, a.GID = now.UID, now.GID
}

// attrNow is the attributes that an inode has in the present of a workspace.
func (d *Daemon) attrNow(c *fs.Call, s *slot, ino store.Ino) (fs.Attr, error) {
	if !s.mu.TryLock() {
		c.Blocks()
		s.mu.Lock()
	}
	if f := s.live; f != nil {
		s.refs++
		s.mu.Unlock()
		defer s.release()
		return f.Peek(c, ino)
	}
	s.mu.Unlock()
	c.Blocks()
	ctx := context.Background()
	if err := d.st.Apply(ctx, d.st.Last()); err != nil {
		return fs.Attr{}, err
	}
	ws, err := d.st.WorkspaceByID(ctx, s.id)
	if err != nil {
		return fs.Attr{}, err
	}
	view, err := d.st.ViewOf(ctx, ws)
	if err != nil {
		return fs.Attr{}, err
	}
	v, err := view.Version(ctx, ino)
	if err != nil {
		return fs.Attr{}, err
	}
	return fs.AttrOfVersion(v), nil
}

// pasts are the states of the past that somebody is in, each open once.
type pasts struct {
	mu     sync.Mutex
	states map[versions.Place]*pastFS // guarded by mu
	pins   int                        // guarded by mu; pins made so far: each has a name of its own
}

type pastFS struct {
	f     *fs.FS
	users int
	unpin func()
}

// open opens the state that from is, or shares it. A pin keeps it until release, and nothing else: no transaction.
func (p *pasts) open(ctx context.Context, d *Daemon, from frozen) (*fs.FS, func(), error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	have := p.states[from.place]
	if have == nil {
		defer d.st.UseHistory()()
		p.pins++
		f, unpin, err := d.openPinned(ctx, from, "view "+strconv.Itoa(p.pins))
		if err != nil {
			return nil, nil, err
		}
		have = &pastFS{f: f, unpin: unpin}
		if p.states == nil {
			p.states = map[versions.Place]*pastFS{}
		}
		p.states[from.place] = have
	}
	have.users++
	return have.f, sync.OnceFunc(func() { p.close(d, from.place, have) }), nil
}

func (p *pasts) close(d *Daemon, at versions.Place, have *pastFS) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if have.users--; have.users > 0 {
		return
	}
	delete(p.states, at)
	have.unpin()
}
