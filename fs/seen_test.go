package fs_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"wsfs/blob"
	"wsfs/fs"
	"wsfs/store"
)

// party is a session of a world.
type party struct {
	*world
	c   *fs.Call
	who store.Attribution
}

var parties uint32

func (w *world) party(name string) *party {
	s := &store.Session{ID: w.st.NewSessionID(), Name: name, Workspace: w.ws.ID, StartedAt: 1}
	return w.partyOf(s)
}

func (w *world) partyOf(s *store.Session) *party {
	p := &party{world: w, who: store.Attribution{Session: s, Command: &store.Command{ID: w.st.NewCommandID(), Session: s.ID, N: 1, Argv: s.Name}}}
	parties++
	p.c = &fs.Call{UID: 1, GID: 1, PID: 1000 + parties, Who: func() store.Attribution { return p.who }}
	return p
}

// again is the party after the world was opened again: the same session.
func (p *party) again() *party { return p.partyOf(p.who.Session) }

func (p *party) reads(name string) string {
	p.t.Helper()
	h, err := p.fs.Open(p.c, p.walk(name).ID, syscall.O_RDONLY)
	p.must(err)
	defer h.Release(p.c, 1)
	buf := make([]byte, 1<<21)
	n, err := h.ReadAt(p.c, buf, 0)
	p.must(err)
	p.must(h.Flush(p.c, 1))
	return string(buf[:n])
}

// ends is the end of a handle that wrote text at off.
func (p *party) ends(h *fs.Handle, text string, off int64) error {
	if text != "" {
		if _, err := h.WriteAt(p.c, []byte(text), off, false); err != nil {
			h.Release(p.c, 1)
			return err
		}
	}
	err := h.Flush(p.c, 1)
	h.Release(p.c, 1)
	return err
}

// creates makes a file, with text in it.
func (p *party) creates(name, text string) error {
	_, h, err := p.fs.Create(p.c, store.RootIno, name, 0o644, syscall.O_WRONLY|syscall.O_EXCL)
	if err != nil {
		return err
	}
	return p.ends(h, text, 0)
}

// replaces saves by a temporary file and a rename.
func (p *party) replaces(name, text string) error {
	if err := p.creates(name+".tmp", text); err != nil {
		return err
	}
	return p.fs.Rename(p.c, store.RootIno, name+".tmp", store.RootIno, name, 0)
}

// saves are the ways in which programs replace what a file has.
var saves = map[string]func(p *party, name, text string) error{
	"in place": func(p *party, name, text string) error {
		h, err := p.fs.Open(p.c, p.walk(name).ID, syscall.O_WRONLY|syscall.O_TRUNC)
		if err != nil {
			return err
		}
		return p.ends(h, text, 0)
	},
	"rename": (*party).replaces,
	"create": func(p *party, name, text string) error {
		if err := p.fs.Unlink(p.c, store.RootIno, name); err != nil {
			return err
		}
		return p.creates(name, text)
	},
	"rename with a backup": func(p *party, name, text string) error {
		if err := p.fs.Unlink(p.c, store.RootIno, name+"~"); err != nil && !errors.Is(err, syscall.ENOENT) {
			return err
		}
		if _, err := p.fs.Link(p.c, p.walk(name).ID, store.RootIno, name+"~"); err != nil {
			return err
		}
		return p.replaces(name, text)
	},
	"rename of what was synced": func(p *party, name, text string) error { // it has a version of its own before it gets its name
		if err := p.creates(name+".tmp", text[:len(text)/2]); err != nil {
			return err
		}
		h, err := p.fs.Open(p.c, p.walk(name+".tmp").ID, syscall.O_WRONLY|syscall.O_TRUNC)
		if err != nil {
			return err
		}
		if err := p.ends(h, text, 0); err != nil {
			return err
		}
		return p.fs.Rename(p.c, store.RootIno, name+".tmp", store.RootIno, name, 0)
	},
	"unlink and rename": func(p *party, name, text string) error {
		if err := p.creates(name+".tmp", text); err != nil {
			return err
		}
		if err := p.fs.Unlink(p.c, store.RootIno, name); err != nil {
			return err
		}
		return p.fs.Rename(p.c, store.RootIno, name+".tmp", store.RootIno, name, 0)
	},
	"move away and rename": func(p *party, name, text string) error {
		if err := p.creates(name+".tmp", text); err != nil {
			return err
		}
		if err := p.fs.Rename(p.c, store.RootIno, name, store.RootIno, name+".old", 0); err != nil {
			return err
		}
		if err := p.fs.Rename(p.c, store.RootIno, name+".tmp", store.RootIno, name, 0); err != nil {
			return err
		}
		return p.fs.Unlink(p.c, store.RootIno, name+".old")
	},
	"rename while open": func(p *party, name, text string) error {
		_, h, err := p.fs.Create(p.c, store.RootIno, name+".tmp", 0o644, syscall.O_WRONLY|syscall.O_EXCL)
		if err != nil {
			return err
		}
		defer h.Release(p.c, 1)
		if _, err := h.WriteAt(p.c, []byte(text), 0, false); err != nil {
			return err
		}
		if err := p.fs.Rename(p.c, store.RootIno, name+".tmp", store.RootIno, name, 0); err != nil {
			return err
		}
		return h.Flush(p.c, 1)
	},
	"move away and write": func(p *party, name, text string) error {
		if err := p.fs.Rename(p.c, store.RootIno, name, store.RootIno, name+"~", 0); err != nil {
			return err
		}
		return p.creates(name, text)
	},
	"mapping": func(p *party, name, text string) error { // all pages come back after the close
		h, err := p.fs.Open(p.c, p.walk(name).ID, syscall.O_RDWR)
		if err != nil {
			return err
		}
		size := int64(len(text))
		if _, err := p.fs.SetAttr(p.c, h.ID(), h, fs.SetAttr{Size: &size}); err != nil {
			return err
		}
		if err := h.Flush(p.c, 1); err != nil {
			return err
		}
		_, err = h.WriteCached(&fs.Call{}, []byte(text), 0)
		h.Release(&fs.Call{}, 1)
		return err
	},
}

// conflicts are those of the workspace, oldest first, as "why base met wrote" with the contents.
func (w *world) conflicts() (list []string) {
	w.t.Helper()
	ctx := context.Background()
	w.must(w.fs.Sync(ctx))
	rows, err := w.st.Conflicts(ctx, store.ConflictQuery{Workspace: w.ws.ID, Resolved: true})
	w.must(err)
	text := func(id store.VersionID) string {
		if id == 0 {
			return "-"
		}
		past, err := w.st.PastOf(ctx, id, 1)
		w.must(err)
		if len(past) == 0 {
			return "?"
		}
		b := make([]byte, past[0].Content.Size)
		if len(b) > 0 {
			_, err = w.st.Blobs().ReadAt(ctx, past[0].Content, b, 0)
			w.must(err)
		}
		return string(b)
	}
	for _, r := range rows {
		state := ""
		if r.Resolved {
			state = " merged"
		}
		wrote := "-"
		if !r.Content.IsZero() {
			size, err := w.st.Blobs().SizeOf(ctx, r.Content)
			w.must(err)
			b := make([]byte, size)
			w.must(readAll(w, r, b))
			wrote = string(b)
		}
		list = append([]string{fmt.Sprintf("%s%s %q %q %q", r.Why, state, text(r.Base), text(r.Head), wrote)}, list...)
	}
	return list
}

func readAll(w *world, r store.ConflictRow, b []byte) error {
	_, err := w.st.Blobs().Reader(context.Background(), blob.Content{Ref: r.Content, Size: int64(len(b))}).ReadAt(b, 0)
	return err
}

const (
	packageJSON = "{\n  \"name\": \"x\",\n  \"scripts\": {\n    \"test\": \"t\"\n  },\n  \"private\": true,\n  \"dependencies\": {\n    \"a\": \"1\"\n  }\n}\n"
	oneAdds     = "    \"a\": \"1\",\n    \"b\": \"2\"\n"
	otherAdds   = "    \"build\": \"b\",\n    \"test\": \"t\"\n"
)

func withDependency(s string) string { return strings.Replace(s, "    \"a\": \"1\"\n", oneAdds, 1) }
func withScript(s string) string     { return strings.Replace(s, "    \"test\": \"t\"\n", otherAdds, 1) }

// Two sessions, one file, every way to save on both sides: both edits are there in the end, the log has all, nothing is open.
func TestBothEditsStay(t *testing.T) {
	full := os.Getenv("WSFS_TEST_FULL") != ""
	if !full {
		t.Log("half of the pairs, each way on both sides; WSFS_TEST_FULL: all")
	}
	styles := slices.Sorted(maps.Keys(saves))
	for i, theirs := range styles {
		first := saves[theirs]
		for k, ours := range styles {
			if !full && (i+k)%2 != 0 {
				continue
			}
			second := saves[ours]
			t.Run(theirs+" then "+ours, func(t *testing.T) {
				w := newWorld(t)
				setup, a, b := w.party("setup"), w.party("a"), w.party("b")
				w.fs.Expect("a")
				w.must(saves["in place"](setup.made("package.json"), "package.json", packageJSON))
				if a.reads("package.json") != packageJSON || b.reads("package.json") != packageJSON {
					t.Fatal("not what was written")
				}
				w.must(first(b, "package.json", withDependency(packageJSON)))
				if got := w.conflicts(); len(got) != 0 {
					t.Errorf("the first one met %v", got)
				}
				w.must(second(a, "package.json", withScript(packageJSON)))
				want := withScript(withDependency(packageJSON))
				if ours == "mapping" { // who maps a file has read it: it took out on purpose what was added, for all that is known
					revert := fmt.Sprintf("revert %q %q %q", packageJSON, withDependency(packageJSON), withScript(packageJSON))
					if list := w.conflicts(); len(list) != 1 || list[0] != revert {
						t.Errorf("conflicts %v, want %s", list, revert)
					}
					return
				}
				if got := w.read("package.json"); got != want {
					t.Errorf("%s\nwant\n%s", got, want)
				}
				list := w.conflicts()
				if want := fmt.Sprintf("stale merged %q %q %q", packageJSON, withDependency(packageJSON), withScript(packageJSON)); len(list) != 1 || list[0] != want {
					t.Errorf("conflicts %v, want %s", list, want)
				}
				// It goes on from what it wrote itself: what was merged into that is foreign still.
				more := strings.Replace(withScript(packageJSON), "\"x\"", "\"y\"", 1)
				w.must(second(a, "package.json", more))
				if got, want := w.read("package.json"), strings.Replace(want, "\"x\"", "\"y\"", 1); got != want {
					t.Errorf("after a second save\n%s\nwant\n%s", got, want)
				}
				w.reopen()
				if got, want := w.read("package.json"), strings.Replace(want, "\"x\"", "\"y\"", 1); got != want {
					t.Errorf("opened again\n%s\nwant\n%s", got, want)
				}
			})
		}
	}
}

// made makes an empty file.
func (p *party) made(name string) *party {
	p.t.Helper()
	_, h, err := p.fs.Create(p.c, store.RootIno, name, 0o644, syscall.O_WRONLY)
	p.must(err)
	p.must(p.ends(h, "", 0))
	return p
}

// What is no lost update is no conflict.
func TestSilence(t *testing.T) {
	const text = "one\ntwo\nthree\nfour\nfive\n"
	two := func(name string, fn func(w *world, a, b *party)) {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a, b := w.party("a"), w.party("b")
			w.fs.Expect("a")
			w.fs.Expect("b")
			w.must(saves["in place"](a.made("f"), "f", text))
			fn(w, a, b)
			if list := w.conflicts(); len(list) > 0 {
				t.Errorf("conflicts %v", list)
			}
		})
	}
	for how, save := range saves {
		two("the same session, "+how, func(w *world, a, b *party) {
			a.reads("f")
			w.must(save(a, "f", "1\n"))
			w.must(save(a.again(), "f", "2\n"))
			w.must(save(a, "f", "3\n"))
		})
		two("the same bytes, "+how, func(w *world, a, b *party) {
			b.reads("f")
			w.must(save(a, "f", "1\n"))
			w.must(save(b, "f", "1\n"))
		})
		two("read again, "+how, func(w *world, a, b *party) {
			b.reads("f")
			w.must(save(a, "f", "1\n"))
			b.reads("f")
			w.must(save(b, "f", "1\n2\n"))
			a.reads("f")
			w.must(save(a, "f", "1\n2\n3\n"))
		})
		two("it has all that was added, "+how, func(w *world, a, b *party) {
			b.reads("f")
			w.must(save(a, "f", "zero\n"+text))
			w.must(save(b, "f", "zero\n"+text+"six\n"))
		})
		two("blind, and nothing is gone, "+how, func(w *world, a, b *party) {
			w.must(save(b, "f", text+"six\n"))
		})
		two("below .git, "+how, func(w *world, a, b *party) {
			d, err := w.fs.Mkdir(a.c, store.RootIno, ".git", 0o755)
			w.must(err)
			for _, p := range []*party{a, b, a} {
				_, h, err := p.fs.Create(p.c, d.ID, "index", 0o644, syscall.O_WRONLY|syscall.O_TRUNC)
				w.must(err)
				w.must(p.ends(h, p.who.Session.Name, 0))
				_, h, err = p.fs.Create(p.c, d.ID, "index.lock", 0o644, syscall.O_WRONLY|syscall.O_EXCL)
				w.must(err)
				w.must(p.ends(h, p.who.Session.Name+"2", 0))
				w.must(p.fs.Rename(p.c, d.ID, "index.lock", d.ID, "index", 0))
			}
		})
		two("only times, "+how, func(w *world, a, b *party) {
			b.reads("f")
			now := int64(12345)
			_, err := w.fs.SetAttr(a.c, w.walk("f").ID, nil, fs.SetAttr{Mtime: &now})
			w.must(err)
			mode := uint32(0o600)
			_, err = w.fs.SetAttr(a.c, w.walk("f").ID, nil, fs.SetAttr{Mode: &mode})
			w.must(err)
			w.must(save(b, "f", "b\n"))
		})
		two("what a login session left, "+how, func(w *world, a, b *party) {
			c := w.partyOf(&store.Session{ID: w.st.NewSessionID(), Name: "sh-1@x", Agent: store.AgentLogin, StartedAt: 1 << 62})
			w.must(save(c, "f", "c\n"))
			d := w.partyOf(&store.Session{ID: w.st.NewSessionID(), Name: "run-20260102-030405-abcd", StartedAt: 1 << 62})
			w.must(save(d, "f", "d\n"))
		})
		two("in node_modules, "+how, func(w *world, a, b *party) {
			d, err := w.fs.Mkdir(a.c, store.RootIno, "node_modules", 0o755)
			w.must(err)
			for _, p := range []*party{a, b} {
				_, h, err := p.fs.Create(p.c, d.ID, "x.js", 0o644, syscall.O_WRONLY|syscall.O_TRUNC)
				w.must(err)
				w.must(p.ends(h, p.who.Session.Name, 0))
			}
		})
	}
	two("removed by one, made by the other", func(w *world, a, b *party) {
		b.reads("f")
		w.must(a.fs.Unlink(a.c, store.RootIno, "f"))
		_, h, err := b.fs.Create(b.c, store.RootIno, "f", 0o644, syscall.O_WRONLY)
		w.must(err)
		w.must(b.ends(h, "b\n", 0))
	})
	two("appended by both", func(w *world, a, b *party) {
		ha, err := w.fs.Open(a.c, w.walk("f").ID, syscall.O_WRONLY|syscall.O_APPEND)
		w.must(err)
		hb, err := w.fs.Open(b.c, w.walk("f").ID, syscall.O_WRONLY|syscall.O_APPEND)
		w.must(err)
		want := text
		for i := range 10 {
			for _, p := range []struct {
				*party
				h *fs.Handle
			}{{a, ha}, {b, hb}} {
				line := fmt.Sprintln(p.who.Session.Name, i)
				want += line
				_, err := p.h.Append(p.c, []byte(line), false)
				w.must(err)
				if i%3 == 0 {
					w.must(p.h.Flush(p.c, 1))
				}
			}
		}
		ha.Release(a.c, 1)
		hb.Release(b.c, 1)
		if got := w.read("f"); got != want {
			w.t.Errorf("%q, want %q", got, want)
		}
	})
	two("a database that both have open", func(w *world, a, b *party) {
		page := strings.Repeat("\x00page", 1000)
		w.must(saves["in place"](a, "f", page))
		ha, err := w.fs.Open(a.c, w.walk("f").ID, syscall.O_RDWR)
		w.must(err)
		hb, err := w.fs.Open(b.c, w.walk("f").ID, syscall.O_RDWR)
		w.must(err)
		for i := range 6 {
			h, p := ha, a
			if i%2 > 0 {
				h, p = hb, b
			}
			_, err := h.WriteAt(p.c, fmt.Appendf(nil, "\x00%d", i), int64(i/2*100), false)
			w.must(err)
			w.must(h.Fsync(p.c, false))
		}
		ha.Release(a.c, 1)
		hb.Release(b.c, 1)
	})
}

// What a write would have lost is there, and told.
func TestMet(t *testing.T) {
	const text = "one\ntwo\nthree\nfour\nfive\n"
	for how, save := range saves {
		run := func(name string, fn func(w *world, a, b *party), want ...string) {
			t.Run(name+", "+how, func(t *testing.T) {
				w := newWorld(t)
				a, b := w.party("a"), w.party("b")
				w.fs.Expect("a")
				w.fs.Expect("b")
				w.must(saves["in place"](a.made("f"), "f", text))
				fn(w, a, b)
				if got := w.conflicts(); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("conflicts %q, want %q", got, want)
				}
			})
		}
		if how != "mapping" { // it has read the file
			run("never seen", func(w *world, a, b *party) { w.must(save(b, "f", "b\n")) },
				fmt.Sprintf("blind %q %q %q", "-", text, "b\n"))
			also := []string{fmt.Sprintf("stale %q %q %q", text, text+"b\n", "a\n"), fmt.Sprintf("blind %q %q %q", "-", "a\n", "c\n")}
			if how == "move away and write" { // its backup replaces that of another one, which it has not seen either
				also = slices.Insert(also, 1, fmt.Sprintf("blind %q %q %q", "-", text, "a\n"))
			}
			run("never seen, nor the time before", func(w *world, a, b *party) {
				w.must(save(b, "f", text+"b\n")) // all is there
				w.must(saves["in place"](a, "f", "a\n"))
				w.must(save(w.party("c"), "f", "c\n"))
			}, also...)
			run("the same lines", func(w *world, a, b *party) {
				b.reads("f")
				w.must(saves["in place"](a, "f", "ONE\n"))
				w.must(save(b, "f", "uno\n"))
				if got := w.read("f"); got != "uno\n" {
					w.t.Errorf("f is %q", got)
				}
			}, fmt.Sprintf("stale %q %q %q", text, "ONE\n", "uno\n"))
			run("over what both have a part in", func(w *world, a, b *party) {
				h, err := w.fs.Open(b.c, w.walk("f").ID, syscall.O_WRONLY|syscall.O_APPEND)
				w.must(err)
				_, err = h.Append(b.c, []byte("six\n"), false)
				w.must(err)
				w.must(b.ends(h, "", 0))
				w.must(save(b, "f", "b\n"))
			}, fmt.Sprintf("blind %q %q %q", "-", text+"six\n", "b\n"))
			for _, times := range []int{10, 70} { // of more than maxMoves nobody knows who brought it
				run(fmt.Sprintf("its writer has moved it away and back %d times, and the process is another one", times), func(w *world, a, b *party) {
					for range times {
						w.must(b.fs.Rename(b.c, store.RootIno, "f", store.RootIno, "g", 0))
						w.must(b.fs.Rename(b.c, store.RootIno, "g", store.RootIno, "f", 0))
					}
					w.reopen()
					w.must(save(b.again(), "f", "b\n"))
				}, fmt.Sprintf("blind %q %q %q", "-", text, "b\n"))
			}
			run("the process in between was another one", func(w *world, a, b *party) {
				b.reads("f")
				w.must(saves["in place"](a, "f", "zero\n"+text))
				w.reopen()
				w.must(save(b.again(), "f", text+"six\n"))
				if got := w.read("f"); got != "zero\n"+text+"six\n" {
					w.t.Errorf("f is %q", got)
				}
			}, fmt.Sprintf("stale merged %q %q %q", text, "zero\n"+text, text+"six\n"))
			run("no JSON after", func(w *world, a, b *party) {
				const was = "{\n\"a\": 1,\n\"b\": 2\n}\n"
				w.must(saves["in place"](a.made("x.json"), "x.json", was))
				b.reads("x.json")
				w.must(saves["in place"](a, "x.json", "{\n\"c\": 3,\n\"a\": 1,\n\"b\": 2\n}\n"))
				w.must(save(b, "x.json", "{\n\"a\": 1,\n\"b\": 2,\n\"c\": 4\n}\n"))
			}, fmt.Sprintf("stale %q %q %q", "{\n\"a\": 1,\n\"b\": 2\n}\n", "{\n\"c\": 3,\n\"a\": 1,\n\"b\": 2\n}\n", "{\n\"a\": 1,\n\"b\": 2,\n\"c\": 4\n}\n"))
			for name, c := range map[string]struct{ head, line string }{"x.toml": {"[t]\n", "c = 1\n"}, "x.yaml": {"t:\n", "  c: 1\n"}} {
				lines := strings.ReplaceAll(c.line, "c", "a") + strings.ReplaceAll(c.line, "c", "b")
				was, first, last := c.head+lines, c.head+c.line+lines, c.head+lines+c.line
				run("one key twice after, "+name, func(w *world, a, b *party) {
					w.must(saves["in place"](a.made(name), name, was))
					b.reads(name)
					w.must(saves["in place"](a, name, first))
					w.must(save(b, name, last))
				}, fmt.Sprintf("stale %q %q %q", was, first, last))
			}
		}
		run("brought back", func(w *world, a, b *party) {
			b.reads("f")
			w.must(saves["rename"](a, "f", "zero\n"+text))
			b.reads("f") // grep -r
			w.must(save(b, "f", text+"six\n"))
		}, fmt.Sprintf("revert %q %q %q", text, "zero\n"+text, text+"six\n"))
	}
}
