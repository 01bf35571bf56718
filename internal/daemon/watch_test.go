package daemon

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"wsfs/fs"
	"wsfs/store"
)

type watched struct {
	ID, Since, Event, Path, Session, What, Why, Error string
	Seq                                               int64
	Conflict                                          struct{ Why, Path string }
}

// watching reads at most n events after since and goes away; 0: until the one of path last.
func watching(t *testing.T, c *Client, since string, n int, last string) (list []watched) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	body, err := c.Watch(ctx, WatchRequest{Workspace: "main", Since: since})
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	in := bufio.NewScanner(body)
	for in.Scan() {
		var e watched
		if err := json.Unmarshal(in.Bytes(), &e); err != nil || e.Error != "" {
			t.Fatalf("%v: %s", err, in.Bytes())
		}
		if list = append(list, e); n > 0 && len(list) == n || last != "" && e.Path == last {
			return list
		}
	}
	t.Fatalf("after %d events: %v, %v", len(list), in.Err(), ctx.Err())
	return nil
}

// Several sessions write while whoever watches is cut off again and again, and goes on with --since.
func TestWatchLosesNothing(t *testing.T) {
	const sessions, each = 3, 40
	c := withMain(t)
	ctx := context.Background()
	from := watching(t, c, "now", 1, "")[0]
	if from.Event != "start" {
		t.Fatalf("it begins with %+v", from)
	}
	_, f, release, err := c.local.acquire(ctx, "main")
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	ws := f.Workspace()
	var writers sync.WaitGroup
	for s := range sessions {
		who := &store.Session{ID: c.local.st.NewSessionID(), Name: fmt.Sprintf("s%d", s), Workspace: ws.ID, StartedAt: 1}
		call := &fs.Call{PID: uint32(4000 + s), Who: func() store.Attribution { return store.Attribution{Session: who} }}
		writers.Go(func() {
			p := &pen{t, f, call}
			for i := range each {
				p.file(fmt.Sprintf("s%d-%d", s, i), who.Name)
			}
		})
	}
	go func() {
		writers.Wait()
		(&pen{t, f, &fs.Call{}}).file("last", "")
	}()
	seen, count, at, top := map[string]watched{}, map[string]int{}, from.Since, int64(0)
	for n := 2; ; n = n%17 + 2 { // the first is the start
		list := watching(t, c, at, n, "last")
		for _, e := range list {
			if old, ok := seen[e.ID]; ok && (old.Path != e.Path || old.Session != e.Session) && e.Event != "start" {
				t.Fatalf("%s was %+v and is %+v", e.ID, old, e)
			}
			seen[e.ID], at = e, e.Since
			if e.Event != "change" {
				continue
			}
			if e.Seq < top {
				t.Fatalf("%+v comes after %d", e, top)
			}
			top = e.Seq
			if strings.HasPrefix(e.Path, "s") && !strings.HasPrefix(e.Path, e.Session) {
				t.Fatalf("%+v is not its", e)
			}
			count[e.Path]++
		}
		if list[len(list)-1].Path == "last" {
			break
		}
	}
	for s := range sessions {
		for i := range each {
			if name := fmt.Sprintf("s%d-%d", s, i); count[name] == 0 {
				t.Errorf("%s was not told", name)
			}
		}
	}
}

// Amendments are changes of their own for who has read what they amend; moves of the workspace and conflicts are told.
func TestWatchTellsAll(t *testing.T) {
	c := withMain(t)
	ctx := context.Background()
	from := watching(t, c, "now", 1, "")[0].Since
	write(t, c, "main", func(p *pen) {
		h := p.open("grows")
		for i, want := range []string{"created", "written"} {
			if _, err := h.WriteAt(p.call, []byte("more"), int64(4*i), false); err != nil {
				t.Fatal(err)
			}
			if err := h.Flush(p.call, 1); err != nil {
				t.Fatal(err)
			}
			e := watching(t, c, from, 0, "grows")
			if got := e[len(e)-1]; got.What != want {
				t.Fatalf("%d: %+v, want %s", i, got, want)
			}
			from = e[len(e)-1].Since
		}
		h.Release(p.call, 1)
	})
	if _, err := c.Rollback(ctx, RollbackRequest{Workspace: "main", Revision: "2", Yes: true}, func(UndoReply) {}); err != nil {
		t.Fatal(err)
	}
	e := watching(t, c, from, 2, "")[1]
	if e.Event != "moved" || e.Why != "rollback" || e.Seq != 2 {
		t.Fatalf("%+v", e)
	}
	from = e.Since
	write(t, c, "main", func(p *pen) { p.file("after", "x") })
	if e := watching(t, c, from, 0, "after"); e[len(e)-1].What != "created" {
		t.Fatalf("%+v", e)
	}
	for _, bad := range []string{"x", "1.2", "1.-2.3"} {
		_, err := c.Watch(ctx, WatchRequest{Workspace: "main", Since: bad})
		wantExit(t, err, ExitUsage, "since")
	}
}
