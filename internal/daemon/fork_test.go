package daemon

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"wsfs/fs"
	"wsfs/store"
	"wsfs/versions"
)

// pen writes to a workspace of a client that answers in this process.
type pen struct {
	t    *testing.T
	f    *fs.FS
	call *fs.Call
}

// write makes fn a user of the workspace's live file system.
func write(t *testing.T, c *Client, workspace string, fn func(p *pen)) {
	t.Helper()
	_, f, release, err := c.local.acquire(context.Background(), workspace)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	fn(&pen{t, f, &fs.Call{UID: 0, GID: 0}})
}

// file makes or overwrites a file in the root directory.
func (p *pen) file(name, content string) {
	p.t.Helper()
	h := p.open(name)
	if _, err := h.WriteAt(p.call, []byte(content), 0, false); err != nil {
		p.t.Fatal(err)
	}
	if err := h.Flush(p.call, 1); err != nil {
		p.t.Fatal(err)
	}
	h.Release(p.call, 1)
}

func (p *pen) open(name string) *fs.Handle {
	p.t.Helper()
	_ = p.f.Unlink(p.call, store.RootIno, name)
	_, h, err := p.f.Create(p.call, store.RootIno, name, 0o644, syscall.O_WRONLY)
	if err != nil {
		p.t.Fatal(err)
	}
	return h
}

// listing is "name=content ..." of the root directory at a revision.
func listing(t *testing.T, c *Client, revision string) string {
	t.Helper()
	ctx := context.Background()
	if _, err := c.Sync(ctx, SyncRequest{}); err != nil {
		t.Fatal(err)
	}
	rev, err := versions.Parse(revision, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	r, err := versions.Resolve(ctx, c.Local(), rev, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	err = versions.List(ctx, r.View, "", func(e versions.DirEntry) error {
		rd, _, err := versions.Open(ctx, c.Local(), r.View, e.Name)
		if err != nil {
			return err
		}
		b := make([]byte, e.Version.Size)
		n, _ := rd.Read(b)
		out = append(out, e.Name+"="+string(b[:n]))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(out, " ")
}

func rows(t *testing.T, c *Client) map[string]int64 {
	t.Helper()
	if _, err := c.Sync(context.Background(), SyncRequest{}); err != nil {
		t.Fatal(err)
	}
	st, err := c.Local().Stats(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return st.Rows
}

func mustFork(t testing.TB, c *Client, revision, name string) ForkReply {
	t.Helper()
	res, err := c.Fork(context.Background(), ForkRequest{Revision: revision, Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// withMain is a store with a workspace in which f was "one" at seq 2 and is "two".
func withMain(t *testing.T) *Client {
	t.Helper()
	c := local(t, newStore(t))
	if err := c.CreateWorkspace(context.Background(), "main"); err != nil {
		t.Fatal(err)
	}
	write(t, c, "main", func(p *pen) { p.file("f", "one") })
	write(t, c, "main", func(p *pen) { p.file("f", "two") })
	return c
}

func same(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func TestForkIsOneRow(t *testing.T) {
	c := withMain(t)
	before := rows(t, c)
	res := mustFork(t, c, "main", "exp")
	after := rows(t, c)
	for table, n := range after {
		want := before[table]
		switch table {
		case "workspace", "workspace_ref":
			want++
		case "session", "process", "process_unread", "command", "journal": // who forked, and that it could not be read in time
			continue
		}
		if n != want {
			t.Errorf("table %s has %d rows, had %d", table, n, before[table])
		}
	}
	if res.Parent != "main" || res.Workspace != "exp" || res.BaseSeq != 4 {
		t.Errorf("fork: %+v", res)
	}
	// Separate in both directions; a fork of a fork, before and after that has a timeline of its own.
	mustFork(t, c, "exp", "exp2")
	write(t, c, "exp", func(p *pen) { p.file("mine", "exp") })
	write(t, c, "main", func(p *pen) { p.file("f", "three") })
	mustFork(t, c, "exp", "exp3")
	write(t, c, "exp3", func(p *pen) { p.file("f", "exp3") })
	same(t, "main", listing(t, c, "main"), "f=three")
	same(t, "exp", listing(t, c, "exp"), "f=two mine=exp")
	same(t, "exp2", listing(t, c, "exp2"), "f=two")
	same(t, "exp3", listing(t, c, "exp3"), "f=exp3 mine=exp")
}

// A revision of the past belongs to the timeline that wrote it, whichever workspace names it.
func TestForkOfThePast(t *testing.T) {
	ctx := context.Background()
	c := withMain(t)
	mustFork(t, c, "main", "exp")
	write(t, c, "exp", func(p *pen) { p.file("mine", "exp") })
	res := mustFork(t, c, "exp@2", "old")
	same(t, "old", listing(t, c, "old"), "f=one")
	main, err := c.Local().Workspace(ctx, "main")
	if err != nil {
		t.Fatal(err)
	}
	old, err := c.Local().Workspace(ctx, "old")
	if err != nil || old.Base != main.Timeline || old.BaseSeq != 2 || old.Timeline != 0 {
		t.Errorf("old is based on %+v, want seq 2 of timeline %d, %v", old, main.Timeline, err)
	}
	if res.Parent != "exp" || res.BaseSeq != 2 {
		t.Errorf("fork: %+v", res)
	}
	write(t, c, "old", func(p *pen) { p.file("f", "other") })
	same(t, "old", listing(t, c, "old"), "f=other")
	same(t, "exp", listing(t, c, "exp"), "f=two mine=exp")
}

// What is open and dirty in a live workspace is in its fork, and what is written after it is not; a past point of it is
// not amended any more either.
func TestForkOfALiveWorkspace(t *testing.T) {
	c := withMain(t)
	write(t, c, "main", func(p *pen) {
		h := p.open("open")
		if _, err := h.WriteAt(p.call, []byte("unsaved"), 0, false); err != nil {
			t.Fatal(err)
		}
		mustFork(t, c, "main", "exp")
		if _, err := h.WriteAt(p.call, []byte("changed"), 0, false); err != nil {
			t.Fatal(err)
		}
		if err := h.Flush(p.call, 1); err != nil {
			t.Fatal(err)
		}
		if _, err := h.WriteAt(p.call, []byte("drafted"), 0, false); err != nil {
			t.Fatal(err)
		}
		mustFork(t, c, "main@0s", "exp2")
		if _, err := h.WriteAt(p.call, []byte("too late"), 0, false); err != nil {
			t.Fatal(err)
		}
		if err := h.Flush(p.call, 1); err != nil {
			t.Fatal(err)
		}
		h.Release(p.call, 1)
	})
	same(t, "exp", listing(t, c, "exp"), "f=two open=unsaved")
	same(t, "exp2", listing(t, c, "exp2"), "f=two open=drafted")
	same(t, "main", listing(t, c, "main"), "f=two open=too late")
}

func TestForkRefuses(t *testing.T) {
	ctx := context.Background()
	c := withMain(t)
	fork := func(revision, name string) error {
		_, err := c.Fork(ctx, ForkRequest{Revision: revision, Name: name})
		return err
	}
	wantExit(t, fork("main", "main"), ExitFailed, "there is one")
	wantExit(t, fork("main", "a/b"), ExitUsage, "workspace name")
	wantExit(t, fork("main@", "x"), ExitUsage, "nothing follows")
	wantExit(t, fork("main@99", "x"), ExitFailed, "newest change is 4")
	wantExit(t, fork("main@nope", "x"), ExitFailed, "no tag")
	wantExit(t, fork("mian", "x"), ExitFailed, `did you mean "main"`)
	if n := rows(t, c)["workspace"]; n != 1 {
		t.Errorf("%d workspaces after nothing but refusals", n)
	}
}

// Two that want one name at the same time: one gets it, the store lives.
func TestForkNameRace(t *testing.T) {
	c := withMain(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	made := 0
	for range 16 {
		wg.Go(func() {
			_, err := c.Fork(context.Background(), ForkRequest{Revision: "main", Name: "x"})
			if err != nil && !errors.Is(err, syscall.EEXIST) {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				made++
			}
		})
	}
	wg.Wait()
	if made != 1 || rows(t, c)["workspace"] != 2 {
		t.Errorf("%d forks were acknowledged, %d workspaces", made, rows(t, c)["workspace"])
	}
}

func TestDrop(t *testing.T) {
	ctx := context.Background()
	c := withMain(t)
	drop := func(name string, force bool) (DropReply, error) {
		return c.Drop(ctx, DropRequest{Workspace: name, Force: force})
	}
	mustFork(t, c, "main", "exp")
	if res, err := drop("exp", false); err != nil || res.OnlyHere != 0 {
		t.Errorf("drop of a fork without changes: %+v, %v", res, err)
	}
	if _, err := drop("exp", false); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("drop again: %v", err)
	}
	mustFork(t, c, "main", "exp") // the name is free
	write(t, c, "exp", func(p *pen) {
		p.file("a", "1")
		_, err := drop("exp", true)
		wantExit(t, err, ExitFailed, "another command works on it")
		p.file("b", "2")
	})
	_, err := drop("exp", false)
	wantExit(t, err, ExitDecision, "2 changes")
	mustFork(t, c, "exp@5", "half")
	_, err = drop("exp", false)
	wantExit(t, err, ExitDecision, "1 change of")
	mustFork(t, c, "exp", "whole")
	write(t, c, "whole", func(p *pen) { p.file("c", "3") })
	if res, err := drop("exp", false); err != nil || res.OnlyHere != 0 {
		t.Errorf("drop of what a fork has: %+v, %v", res, err)
	}
	same(t, "whole", listing(t, c, "whole"), "a=1 b=2 c=3 f=two")
	// A fork of a fork keeps its grandparent's changes reachable as well, a dropped one nobody's.
	mustFork(t, c, "whole", "grand")
	if _, err := drop("half", false); err != nil {
		t.Error(err)
	}
	if res, err := drop("whole", false); err != nil || res.OnlyHere != 0 {
		t.Errorf("drop of what a fork has: %+v, %v", res, err)
	}
	if _, err := c.Undrop(ctx, UndropRequest{Workspace: "exp"}); err != nil {
		t.Fatal(err)
	}
	if res, err := drop("exp", false); err != nil || res.OnlyHere != 0 {
		t.Errorf("drop of what a fork of a dropped fork has: %+v, %v", res, err)
	}
	// What a fork has from workspaces that are gone is lost with it, though it changed nothing itself.
	_, err = drop("grand", false)
	wantExit(t, err, ExitDecision, "3 changes")
	if _, err = drop("main", false); err != nil {
		t.Errorf("drop of what a fork has: %v", err)
	}
	if res, err := drop("grand", true); err != nil || res.OnlyHere != 6 {
		t.Errorf("forced drop: %+v, %v", res, err)
	}
}

func TestUndrop(t *testing.T) {
	ctx := context.Background()
	c := withMain(t)
	undrop := func(name, as string) error {
		_, err := c.Undrop(ctx, UndropRequest{Workspace: name, As: as})
		return err
	}
	wantExit(t, undrop("main", ""), ExitFailed, "was not dropped")
	wantExit(t, undrop("mian", ""), ExitFailed, "--dropped")
	for _, content := range []string{"first", "second"} {
		mustFork(t, c, "main", "exp")
		write(t, c, "exp", func(p *pen) { p.file("g", content) })
		if _, err := c.Drop(ctx, DropRequest{Workspace: "exp", Force: true}); err != nil {
			t.Fatal(err)
		}
	}
	if err := undrop("exp", ""); err != nil { // the newest
		t.Fatal(err)
	}
	same(t, "exp", listing(t, c, "exp"), "f=two g=second")
	wantExit(t, undrop("exp", ""), ExitFailed, "there is one")
	wantExit(t, undrop("exp", "a:b"), ExitUsage, "workspace name")
	if err := undrop("exp", "older"); err != nil {
		t.Fatal(err)
	}
	same(t, "older", listing(t, c, "older"), "f=two g=first")
	wantExit(t, undrop("exp", "older"), ExitFailed, "was not dropped")
	write(t, c, "older", func(p *pen) { p.file("g", "goes on") })
	same(t, "older", listing(t, c, "older"), "f=two g=goes on")
	refs, err := c.Local().RefLog(ctx, workspaceID(t, c, "older"))
	if err != nil {
		t.Fatal(err)
	}
	var why []string
	for _, r := range refs {
		why = append(why, r.Why)
	}
	same(t, "reflog", fmt.Sprint(why), "[undrop drop first write fork]")
}

func workspaceID(t *testing.T, c *Client, name string) store.WorkspaceID {
	t.Helper()
	ws, err := c.Local().Workspace(context.Background(), name)
	if err != nil {
		t.Fatal(err)
	}
	return ws.ID
}
