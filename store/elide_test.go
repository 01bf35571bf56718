package store_test

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"wsfs/blob"
	"wsfs/fs"
	"wsfs/store"
	"wsfs/store/sqlite"
	"wsfs/versions"
)

var elisions = flag.Uint64("elisions", 1, "TestElisionByGroupSizes: how many histories; 40 by hand")

// Two sessions make temporaries, and now and then something happens in the life of one that makes it matter. History has
// those that matter and no other, and tells the same whatever the size of the groups that ops go to the database in: log,
// blame, states that tags and forks name, what undo does.
func TestElisionByGroupSizes(t *testing.T) {
	for seed := range *elisions {
		var first string
		for _, size := range []int{1, 32, 1024} {
			told := temporaries(t, size, seed)
			if first == "" {
				first = told
				continue
			}
			x, y := strings.Split(first, "\n"), strings.Split(told, "\n")
			for n := range min(len(x), len(y)) {
				if x[n] != y[n] {
					t.Errorf("seed %d: groups of 1 tell\n%s\ngroups of %d\n%s", seed, x[n], size, y[n])
					break
				}
			}
			if len(x) != len(y) {
				t.Errorf("seed %d: groups of 1 tell %d lines, of %d %d", seed, len(x), size, len(y))
			}
		}
	}
}

// temporary is one file of the test that a command made and means to end.
type temporary struct {
	path, data string
	gone       string // a second name that it went by before it was removed: a log may name only that
	by         *agent
	cmd        string
	matters    bool // something happened that history must tell of
}

// churner is the world of one run, and what should be in it.
type churner struct {
	t     *testing.T
	r     *rand.Rand
	st    *store.Store
	f     *fs.FS
	who   []*agent
	skip  time.Duration // that the clock has jumped
	n     int
	tree  map[string]string
	live  []*temporary
	ended []*temporary
	marks map[string]map[string]string // what tags and forks must show
}

func temporaries(t *testing.T, size int, seed uint64) string {
	t.Helper()
	ctx := t.Context()
	dir := filepath.Join(t.TempDir(), "store")
	makeAgents(t, dir, 1)
	c := &churner{t: t, r: rand.New(rand.NewPCG(seed, 12)), tree: map[string]string{}, marks: map[string]map[string]string{}}
	tick := ticking()
	now := func() time.Time { return tick().Add(c.skip) }
	var err error
	c.st, err = store.Open(ctx, dir, sqlite.Driver(), store.Options{GroupOps: size, GroupDelay: 300 * time.Millisecond, Now: now, MergeAfter: -1})
	c.must(err)
	defer func() {
		c.must(c.st.Check(ctx, func(p store.Problem) { t.Errorf("groups of %d, seed %d: %s", size, seed, p) }))
		c.must(c.st.Close())
	}()
	ws, err := c.st.Workspace(ctx, "a0")
	c.must(err)
	c.f, err = fs.Open(ctx, c.st, ws, fs.Options{Now: now, CutAfter: time.Hour})
	c.must(err)
	defer func() { c.must(c.f.Close()) }()
	for _, name := range []string{"one", "two"} {
		c.who = append(c.who, &agent{st: c.st, name: name, f: c.f, session: &store.Session{ID: c.st.NewSessionID(), Name: name, Workspace: ws.ID}})
	}
	for range 250 {
		c.step()
	}
	var b strings.Builder
	c.told(&b)
	for range 5 {
		a := c.who[c.r.IntN(2)]
		if err := a.back(ctx, mop{Kind: "undo"}); err != nil {
			fmt.Fprintf(&b, "undo by %s: %.20s\n", a.name, err) // several conflicts of one file come in any order
		}
		tell(t, c.st, c.f, &b)
	}
	tags := sortedKeys(c.marks)
	for _, what := range tags[len(tags)-2:] {
		kind, name, _ := strings.Cut(what, " ")
		if kind == "tag" {
			if err := c.who[0].back(ctx, mop{Kind: "rollback", Name: name}); !errors.Is(err, versions.ErrNothing) { // it may be that state already
				c.must(err)
			}
			tell(t, c.st, c.f, &b)
			v, err := c.st.ViewOf(ctx, c.f.Workspace())
			c.must(err)
			c.shows("after a rollback to "+what, v, c.marks[what])
		}
	}
	return b.String()
}

func (c *churner) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *churner) do(a *agent, op mop) {
	c.t.Helper()
	op.Cmd = a.cmd
	c.must(a.do(c.t.Context(), op))
}

// step is one thing that one of the two does.
func (c *churner) step() {
	a := c.who[c.r.IntN(2)]
	if c.n++; a.cmd == "" || c.r.IntN(6) == 0 {
		a.begin(fmt.Sprintf("%s-%d", a.name, c.n))
	}
	var t *temporary
	if len(c.live) > 0 {
		t = c.live[c.r.IntN(len(c.live))]
	}
	dice := c.r.IntN(100)
	switch {
	case t == nil || dice < 25:
		t = &temporary{path: fmt.Sprintf("t%d", c.n), data: fmt.Sprintf("%s\nline %d\n", a.cmd, c.n), by: a, cmd: a.cmd}
		if c.r.IntN(3) == 0 && len(c.ended) > 0 { // a name that one had before
			if old := c.ended[c.r.IntN(len(c.ended))]; c.tree[old.path] == "" && !old.matters {
				t.path = old.path
			}
		}
		c.do(a, mop{Kind: "write", Path: t.path, Data: t.data})
		c.tree[t.path] = t.data
		c.live = append(c.live, t)
	case dice < 60:
		c.end(a, t)
	case dice < 80:
		c.meddle(a, t)
	case dice < 95: // something that stays
		p := fmt.Sprintf("f%d", c.r.IntN(6))
		c.tree[p] += fmt.Sprintf("%s\nwritten %d\n", a.cmd, c.n)
		c.do(a, mop{Kind: "write", Path: p, Data: c.tree[p]})
	default:
		c.mark(a)
	}
}

// begin is the start of a command.
func (a *agent) begin(cmd string) {
	a.commits++
	a.cmd = cmd
	a.who = store.Attribution{
		Session: a.session,
		Command: &store.Command{ID: a.st.NewCommandID(), Session: a.session.ID, N: a.commits, Argv: cmd, StartedAt: int64(a.commits)},
		Process: &store.Process{ID: a.st.NewProcessID(), Session: a.session.ID, PID: 7, Comm: "sh"},
	}
}

// end removes t or moves it to where it is meant to be.
func (c *churner) end(a *agent, t *temporary) {
	if c.r.IntN(10) > 0 {
		a = t.by
	}
	t.matters = t.matters || a != t.by || a.cmd != t.cmd
	c.live = slices.DeleteFunc(c.live, func(x *temporary) bool { return x == t })
	c.ended = append(c.ended, t)
	to := fmt.Sprintf("f%d", c.r.IntN(6))
	switch c.r.IntN(5) {
	case 0, 1:
		c.do(a, mop{Kind: "unlink", Path: t.path})
		to = ""
	case 2: // to a free name first, and then perhaps removed
		to = fmt.Sprintf("n%d", c.n)
		c.do(a, mop{Kind: "rename", Path: t.path, To: to})
		if c.r.IntN(2) == 0 {
			c.do(a, mop{Kind: "unlink", Path: to})
			t.gone, to = to, ""
		}
	default:
		c.do(a, mop{Kind: "rename", Path: t.path, To: to})
	}
	data := c.tree[t.path]
	delete(c.tree, t.path)
	if to != "" {
		c.tree[to] = data
	}
}

// meddle does something to a temporary that may matter, or not.
func (c *churner) meddle(a *agent, t *temporary) {
	same := a == t.by && a.cmd == t.cmd
	at, err := a.find(t.path)
	c.must(err)
	switch c.r.IntN(6) {
	case 0: // read it
		h, err := c.f.Open(a.call(), at.ID, syscall.O_RDONLY)
		c.must(err)
		h.Release(a.call(), 1)
		t.matters = t.matters || !same
	case 1:
		c.do(a, mop{Kind: "chmod", Path: t.path, Mode: 0o600})
		t.matters = t.matters || !same
	case 2:
		line := fmt.Sprintf("%s\nmore %d\n", a.cmd, c.n)
		c.do(a, mop{Kind: "append", Path: t.path, Data: line})
		c.tree[t.path] += line
		t.matters = t.matters || !same
	case 3:
		h, err := c.f.Open(a.call(), at.ID, syscall.O_RDONLY)
		c.must(err)
		c.must(h.Fsync(a.call(), false))
		h.Release(a.call(), 1)
		t.matters = true
	case 4:
		name := fmt.Sprintf("l%d", c.n)
		c.do(a, mop{Kind: "link", Path: t.path, To: name})
		c.do(a, mop{Kind: "unlink", Path: name})
		t.matters = true
	default: // take one's time
		c.skip += 6 * time.Second
		c.all()
	}
}

// all says that what there is now matters.
func (c *churner) all() {
	for _, t := range c.live {
		t.matters = true
	}
}

// mark names the state that the workspace is in, or reads the database.
func (c *churner) mark(a *agent) {
	name := fmt.Sprintf("m%d", c.n)
	switch c.r.IntN(3) {
	case 0:
		c.do(a, mop{Kind: "tag", Name: name})
		c.marks["tag "+name] = maps.Clone(c.tree)
	case 1:
		c.do(a, mop{Kind: "fork", Name: name})
		c.marks["fork "+name] = maps.Clone(c.tree)
	default:
		c.must(c.st.Apply(c.t.Context(), c.st.Last()))
	}
	c.all()
}

// told compares history with what should be in it, and writes it down.
func (c *churner) told(b *strings.Builder) {
	ctx := c.t.Context()
	tell(c.t, c.st, c.f, b)
	v, err := c.st.ViewOf(ctx, c.f.Workspace())
	c.must(err)
	named := map[string]bool{}
	c.must(versions.Log(ctx, c.st, versions.LogQuery{View: v}, func(e *versions.Entry) error {
		named[e.Path], named[e.From] = true, true
		return nil
	}))
	kept := 0
	matters := map[string]bool{}
	for _, t := range c.ended {
		matters[t.path] = matters[t.path] || t.matters
	}
	for _, t := range c.live {
		matters[t.path] = true
	}
	for _, t := range c.ended {
		if got := named[t.path] || t.gone != "" && named[t.gone]; got != t.matters && (t.matters || !matters[t.path]) {
			c.t.Errorf("%s by %s: in the log %v, want %v", t.path, t.cmd, got, t.matters)
		}
		if t.matters {
			kept++
		}
	}
	if kept < 10 || len(c.ended)-kept < 10 {
		c.t.Errorf("of %d temporaries %d mattered: too few to tell", len(c.ended), kept)
	}
	c.shows("the present", v, c.tree)
	for what, tree := range c.marks {
		kind, name, _ := strings.Cut(what, " ")
		rev := versions.Revision{Workspace: "a0", Point: versions.Point{Kind: versions.AtTag, Tag: name}}
		if kind == "fork" {
			rev = versions.Revision{Workspace: name}
		}
		got, err := versions.Resolve(ctx, c.st, rev, time.Now())
		c.must(err)
		c.shows(what, got.View, tree)
	}
}

// shows compares a state with a tree.
func (c *churner) shows(what string, v *store.View, tree map[string]string) {
	c.t.Helper()
	found := 0
	c.must(v.ReadDir(c.t.Context(), store.RootIno, func(n store.Name, ver *store.Version) error {
		found++
		buf := make([]byte, ver.Size)
		if _, err := c.st.Blobs().ReadAt(c.t.Context(), blob.Content{Ref: ver.Content, Size: ver.Size}, buf, 0); err != nil && err != io.EOF {
			return err
		}
		if string(buf) != tree[n.Name] {
			c.t.Errorf("%s: %s is %q, want %q", what, n.Name, buf, tree[n.Name])
		}
		return nil
	}))
	if found != len(tree) {
		c.t.Errorf("%s has %d files, want %d", what, found, len(tree))
	}
}
