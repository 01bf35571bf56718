package daemon

import (
	"context"
	"errors"
	"syscall"
	"testing"
)

func TestTag(t *testing.T) {
	ctx := context.Background()
	c := withMain(t)
	tag := func(req TagRequest) (TagReply, error) { return c.Tag(ctx, req) }
	must := func(req TagRequest) TagReply {
		t.Helper()
		res, err := tag(req)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	if res := must(TagRequest{Revision: "main@2", Name: "v1"}); res != (TagReply{"main", "v1", 2, 0}) {
		t.Errorf("%+v", res)
	}
	// A tag of a live workspace holds what is dirty, and what it holds is not amended any more.
	write(t, c, "main", func(p *pen) {
		h := p.open("open")
		if _, err := h.WriteAt(p.call, []byte("tagged"), 0, false); err != nil {
			t.Fatal(err)
		}
		must(TagRequest{Revision: "main", Name: "v2"})
		if _, err := h.WriteAt(p.call, []byte("later"), 0, false); err != nil {
			t.Fatal(err)
		}
		if err := h.Flush(p.call, 1); err != nil {
			t.Fatal(err)
		}
		h.Release(p.call, 1)
	})
	same(t, "v1", listing(t, c, "main@v1"), "f=one")
	same(t, "v2", listing(t, c, "main@v2"), "f=two open=tagged")
	same(t, "main", listing(t, c, "main"), "f=two open=laterd")
	mustFork(t, c, "main@v1", "exp")
	same(t, "exp", listing(t, c, "exp"), "f=one")
	// A tag of a fork that has changed nothing names its parent's timeline.
	must(TagRequest{Revision: "exp", Name: "base"})
	_, err := tag(TagRequest{Revision: "exp@v1", Name: "x"})
	wantExit(t, err, ExitFailed, `no tag "v1" in workspace "exp"`)

	_, err = tag(TagRequest{Revision: "main@2", Name: "v1"})
	wantExit(t, err, ExitNothing, "already")
	if _, err = tag(TagRequest{Revision: "main", Name: "v1"}); !errors.Is(err, syscall.EEXIST) {
		t.Errorf("a tag that exists: %v", err)
	}
	wantExit(t, err, ExitFailed, "main@2; --force")
	if res := must(TagRequest{Revision: "main@v2", Name: "v1", Force: true}); res.Was != 2 {
		t.Errorf("moved: %+v", res)
	}
	same(t, "v1", listing(t, c, "main@v1"), "f=two open=tagged")
	for _, name := range []string{"", "c12", "5m", "-x", "a@b", "a b", "1"} {
		_, err = tag(TagRequest{Revision: "main", Name: name})
		wantExit(t, err, ExitUsage, "tag name")
	}
	must(TagRequest{Revision: "main", Name: "v1", Delete: true})
	_, err = tag(TagRequest{Revision: "main", Name: "v1", Delete: true})
	wantExit(t, err, ExitFailed, `no tag "v1"`)
	_, err = tag(TagRequest{Revision: "main@2", Name: "v2", Delete: true})
	wantExit(t, err, ExitUsage, "name alone")
	if n := rows(t, c)["tag"]; n != 2 {
		t.Errorf("%d tags", n)
	}
	// They go and come with their workspace.
	if _, err := c.Drop(ctx, DropRequest{Workspace: "main", Force: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Undrop(ctx, UndropRequest{Workspace: "main", As: "again"}); err != nil {
		t.Fatal(err)
	}
	same(t, "v2", listing(t, c, "again@v2"), "f=two open=tagged")
}
