package store_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"wsfs/blob"
	"wsfs/store"
	"wsfs/store/sqlite"
	"wsfs/versions"
)

// verifyAgents opens a store that a child left, and returns what each agent finds itself to be.
func verifyAgents(t *testing.T, dir string, run *killed, plan [][]*magent, ops [][]mop, cut, forgot bool) []*magent {
	t.Helper()
	ctx := t.Context()
	st, err := store.Open(ctx, dir, sqlite.Driver(), store.Options{MergeAfter: -1})
	if err != nil {
		t.Errorf("open: %v", err)
		return nil
	}
	defer func() {
		if err := st.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}()
	if err := st.Check(ctx, func(p store.Problem) { t.Errorf("check: %v", p) }); err != nil {
		t.Error(err)
	}
	s := &survivors{t: t, st: st, forgot: forgot, trees: map[string]map[string]string{}}
	s.read(ctx)
	// For each agent, which of its states may be this one.
	may := make([]map[int]bool, len(plan))
	for i := range plan {
		least := run.ended[i]
		if cut {
			least = run.synced[i]
		}
		may[i] = map[int]bool{}
		why := ""
		for n := least; n <= run.began[i]; n++ {
			diff := s.differs(i, plan[i][n])
			if may[i][n] = diff == ""; diff != "" {
				why += fmt.Sprintf("\nafter %d things: %s", n, diff)
			}
		}
		if !slices.Contains(slices.Collect(maps.Values(may[i])), true) {
			t.Errorf("agent %d has begun %d things, %d of them must be there, and nothing fits: the last were %v%.6000s",
				i, run.began[i], least, tail(ops[i][:run.began[i]]), why)
		}
	}
	if t.Failed() {
		return nil
	}
	k := prefix(run, may)
	if k == nil {
		t.Errorf("what is there is no prefix of what was done: the agents may have done %v", may)
		return nil
	}
	var all []*magent
	for i := range plan {
		a := plan[i][k[i]].snapshot()
		a.loose = plan[i][run.began[i]].loose // at least
		all = append(all, a)
		var fits []int
		for n, yes := range may[i] {
			if yes {
				fits = append(fits, n)
			}
		}
		if len(fits) > 1 { // what was undone looks as if it had never been: which of both is not known
			a.undo, a.redo, a.cmds = nil, nil, plan[i][slices.Min(fits)].cmds
		}
		s.past(ctx, a)
		s.logs(ctx, a)
	}
	return all
}

func tail(ops []mop) []string {
	var out []string
	for _, op := range ops[max(0, len(ops)-6):] {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s: %s %s %s %s", op.Cmd, op.Kind, op.Path, op.To, op.Name)))
	}
	return out
}

// prefix finds a moment such that everything that ended before it is there, and nothing that began after, and how much
// of each agent's work that is. It is nil if there is none.
func prefix(run *killed, may []map[int]bool) []int {
	began, ended := make([]int, len(may)), make([]int, len(may))
	var found []int
	look := func() {
		k := make([]int, len(may))
		for i := range may {
			switch { // an agent does one thing at a time
			case may[i][began[i]]:
				k[i] = began[i]
			case may[i][ended[i]]:
				k[i] = ended[i]
			default:
				return
			}
		}
		found = k // the latest will do
	}
	look()
	for _, e := range run.events {
		if e.end {
			ended[e.agent]++
		} else {
			began[e.agent]++
		}
		look()
	}
	return found
}

// survivors are the workspaces that a store has.
type survivors struct {
	t      *testing.T
	st     *store.Store
	forgot bool // history was collected: of some lines it is not known any more who wrote them
	trees  map[string]map[string]string
	rows   map[string]*store.Workspace
}

func (s *survivors) read(ctx context.Context) {
	s.t.Helper()
	list, err := s.st.Workspaces(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	s.rows = map[string]*store.Workspace{}
	for _, ws := range list {
		v, err := s.st.ViewOf(ctx, ws)
		if err != nil {
			s.t.Fatal(err)
		}
		s.rows[ws.Name] = ws
		s.trees[ws.Name] = s.tree(ctx, v)
	}
}

// tree is a state as mtree.show tells it.
func (s *survivors) tree(ctx context.Context, v *store.View) map[string]string {
	s.t.Helper()
	t := mtree{map[string]int{}, map[int]mnode{}}
	var walk func(dir store.Ino, at string)
	walk = func(dir store.Ino, at string) {
		var dirs []store.Name
		if err := v.ReadDir(ctx, dir, func(n store.Name, ver *store.Version) error {
			m := mnode{typ: 'f', mode: ver.Mode & 0o7777, attr: string(ver.Xattrs["user.k"])}.with(ver.Target)
			switch {
			case ver.IsDir():
				m.typ = 'd'
				dirs = append(dirs, n)
			case ver.Target != "":
				m.typ = 'l'
			default:
				data, err := io.ReadAll(s.st.Blobs().Reader(ctx, blob.Content{Ref: ver.Content, Size: ver.Size}))
				if err != nil {
					return fmt.Errorf("read %s%s: %w", at, n.Name, err)
				}
				m = m.with(string(data))
			}
			t.names[at+n.Name], t.nodes[int(n.Ino)] = int(n.Ino), m
			return nil
		}); err != nil {
			s.t.Error(err)
		}
		for _, d := range dirs {
			walk(d.Ino, at+d.Name+"/")
		}
	}
	walk(store.RootIno, "")
	return t.show()
}

// differs says how what is there differs from a state of agent i, or nothing.
func (s *survivors) differs(i int, a *magent) string {
	for ws := range s.trees {
		if mine := fmt.Sprintf("a%d", i); ws == mine || strings.HasPrefix(ws, mine+"-") {
			if _, ok := a.live[ws]; !ok {
				return fmt.Sprintf("there is a workspace %q", ws)
			}
		}
	}
	for ws, tree := range a.live {
		have, ok := s.trees[ws]
		if !ok {
			return fmt.Sprintf("there is no workspace %q", ws)
		}
		if want := tree.show(); !maps.Equal(have, want) {
			return fmt.Sprintf("workspace %q: %s", ws, apart(have, want))
		}
	}
	for _, tag := range a.tags {
		if _, err := s.st.Tag(context.Background(), s.rows[tag.ws].ID, tag.name); err != nil {
			return fmt.Sprintf("tag %s@%s: %v", tag.ws, tag.name, err)
		}
	}
	return ""
}

// apart are the first differences of two trees.
func apart(have, want map[string]string) string {
	var out []string
	for _, p := range slices.Sorted(maps.Keys(have)) {
		if have[p] != want[p] {
			out = append(out, fmt.Sprintf("%s is %q, not %q", p, have[p], want[p]))
		}
	}
	for _, p := range slices.Sorted(maps.Keys(want)) {
		if _, ok := have[p]; !ok {
			out = append(out, fmt.Sprintf("%s is missing", p))
		}
	}
	return strings.Join(out[:min(len(out), 4)], "; ")
}

// past checks some of the states that tags name.
func (s *survivors) past(ctx context.Context, a *magent) {
	s.t.Helper()
	for _, tag := range a.tags[max(0, len(a.tags)-6):] {
		at, err := s.st.Tag(ctx, s.rows[tag.ws].ID, tag.name)
		if err != nil {
			s.t.Error(err)
			continue
		}
		v, err := s.st.ViewAt(ctx, at.Timeline, at.Seq)
		if err != nil {
			s.t.Error(err)
			continue
		}
		if have, want := s.tree(ctx, v), tag.tree.show(); !maps.Equal(have, want) {
			s.t.Errorf("%s@%s: %s", tag.ws, tag.name, apart(have, want))
		}
	}
}

// logs checks that the log of each workspace has every command that left something, that every change in it is somebody's,
// and that blame gives every line to the command whose name it begins with.
func (s *survivors) logs(ctx context.Context, a *magent) {
	s.t.Helper()
	for name, tree := range a.live {
		v, err := s.st.ViewOf(ctx, s.rows[name])
		if err != nil {
			s.t.Error(err)
			continue
		}
		seen := map[string]bool{}
		if err := versions.Log(ctx, s.st, versions.LogQuery{View: v, Workspace: s.rows[name].ID}, func(e *versions.Entry) error {
			if e.Command != nil {
				seen[e.Command.Argv] = true
			} else if e.What != versions.Made && e.What != versions.Times && e.Path != "" {
				return fmt.Errorf("change %d of %q, %s %s, is nobody's", e.Seq, name, e.What, e.Path)
			}
			return nil
		}); err != nil {
			s.t.Errorf("log of %s: %v", name, err)
		}
		for _, cmd := range a.cmds[name] {
			if !seen[cmd] && !s.forgot { // or nothing is left that tells of it
				s.t.Errorf("the log of %s does not tell of %s", name, a.story(cmd))
			}
		}
		for n, p := range tree.paths("f") {
			if n%4 == a.n%4 {
				s.blame(ctx, v, name, p, tree.nodes[tree.names[p]].data)
			}
		}
	}
}

func (s *survivors) blame(ctx context.Context, v *store.View, ws, p, text string) {
	s.t.Helper()
	if text == "" || text[0] == 0 {
		return
	}
	ver, err := versions.Find(ctx, v, p, false)
	if err != nil {
		s.t.Errorf("%s in %s: %v", p, ws, err)
		return
	}
	b, err := versions.Blame(ctx, s.st, ver, versions.BlameRange{})
	if err != nil {
		s.t.Errorf("blame of %s in %s: %v", p, ws, err)
		return
	}
	for i, o := range b.Owners {
		want, _, _ := strings.Cut(string(b.Lines[i]), " ")
		if o.Unknown != "" || s.forgot && o.Command == nil {
			continue // of a fork that was dropped and collected only the states remain that others stand on
		}
		if o.Command == nil || o.Command.Argv != want {
			got := "nobody"
			if o.Command != nil {
				got = o.Command.Argv
			}
			s.t.Errorf("blame gives line %d of %s in %s to %s %s, it is of %s", i+1, p, ws, got, o.Unknown, want)
			return
		}
	}
}
