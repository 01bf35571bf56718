package fs_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"wsfs/fs"
	"wsfs/store"
)

// past is the contents that name had, newest first, as far as its version leads back.
func (w *world) past(name string) (list []string) {
	w.t.Helper()
	ctx := context.Background()
	w.must(w.fs.Sync(ctx))
	view, err := w.st.ViewOf(ctx, w.fs.Workspace())
	w.must(err)
	n, err := view.Lookup(ctx, store.RootIno, name)
	w.must(err)
	v, err := view.Version(ctx, n.Ino)
	w.must(err)
	past, err := w.st.PastOf(ctx, v.ID, 8)
	w.must(err)
	for _, p := range past {
		b := make([]byte, p.Content.Size)
		if len(b) > 0 {
			_, err = w.st.Blobs().ReadAt(ctx, p.Content, b, 0)
			w.must(err)
		}
		list = append(list, string(b))
	}
	return list
}

const five = "one\ntwo\nthree\nfour\nfive\n"

// Under the name there is never what was written without what was met.
func TestMergedInTheSave(t *testing.T) {
	for how, save := range saves {
		if how == "mapping" {
			continue
		}
		t.Run(how, func(t *testing.T) {
			w := newWorld(t)
			a, b := w.party("a"), w.party("b")
			w.fs.Expect("b")
			w.must(saves["in place"](a.made("f"), "f", five))
			b.reads("f")
			w.must(saves["in place"](a, "f", "zero\n"+five))
			w.must(save(b, "f", five+"six\n"))
			if got := w.past("f"); len(got) < 2 || got[0] != "zero\n"+five+"six\n" || got[1] != "zero\n"+five {
				t.Errorf("the file was %q", got)
			}
			for _, c := range w.conflicts() {
				if !strings.HasPrefix(c, "stale merged") {
					t.Error(c)
				}
			}
		})
	}
}

// A child that ends closes the file, too: who writes on does so where he was.
func TestWriterGoesOn(t *testing.T) {
	for _, step := range []struct {
		name string
		fn   func(a, b *party, h *fs.Handle) error
		want string
	}{
		{"writes", func(a, b *party, h *fs.Handle) error {
			_, err := h.WriteAt(b.c, []byte("six\n"), int64(len(five)), false)
			return err
		}, "zero\n" + five + "six\n"},
		{"truncates", func(a, b *party, h *fs.Handle) error {
			size := int64(len("one\ntwo\nthree\nfour\n"))
			_, err := b.fs.SetAttr(b.c, h.ID(), h, fs.SetAttr{Size: &size})
			return err
		}, "zero\none\ntwo\nthree\nfour\n"},
		{"writes after somebody else did", func(a, b *party, h *fs.Handle) error {
			a.reads("f")
			if err := saves["in place"](a, "f", "zero\none\n2\nthree\nfour\nfive\n"); err != nil {
				return err
			}
			_, err := h.WriteAt(b.c, []byte("six\n"), int64(len(five)), false)
			return err
		}, "zero\none\n2\nthree\nfour\nfive\nsix\n"},
	} {
		for _, killed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, killed before: %v", step.name, killed), func(t *testing.T) { writerGoesOn(t, step.fn, step.want, killed) })
		}
	}
}

// writerGoesOn: fn writes on behind a merged close, in the process that merged or, with killed, in the next one.
func writerGoesOn(t *testing.T, fn func(a, b *party, h *fs.Handle) error, want string, killed bool) {
	w, l := keptWorld(t)
	a, b := w.party("a"), w.party("b")
	w.fs.Expect("b")
	w.must(saves["in place"](a.made("f"), "f", "1\n2\n3\n"))
	w.must(saves["in place"](a, "f", strings.Replace(five, "five", "5", 1)))
	b.reads("f")
	w.must(saves["in place"](a, "f", "zero\n"+strings.Replace(five, "five", "5", 1)))
	flags := uint32(syscall.O_WRONLY | syscall.O_TRUNC)
	h, err := w.fs.Open(b.c, w.walk("f").ID, flags)
	w.must(err)
	w.fs.Opened(b.c, h, 1, 7, flags, 0)
	_, err = h.WriteAt(b.c, []byte(five), 0, false)
	w.must(err)
	w.must(h.Flush(b.c, 1))
	if got := w.read("f"); got != "zero\n"+five {
		t.Fatalf("closed by the child, f is %q", got)
	}
	if killed {
		w.takeOver(l)
		a, b = a.again(), b.again()
		list := w.fs.Restored(1)
		if len(list) != 1 || list[0].Fh != 7 {
			t.Fatalf("open in the next process: %+v", list)
		}
		h = list[0].Handle
	}
	w.must(fn(a, b, h))
	w.must(h.Flush(b.c, 1))
	h.Release(b.c, 1)
	if got := w.read("f"); got != want {
		t.Errorf("f is %q, want %q", got, want)
	}
	for _, c := range w.conflicts() {
		if !strings.HasPrefix(c, "stale merged") {
			t.Error(c)
		}
	}
}

// A merged save that a kill cut off is in the ledger as it was written: the next process saves and merges it.
func TestMergedSaveCutOff(t *testing.T) {
	w, l := keptWorld(t)
	a, b := w.party("a"), w.party("b")
	w.fs.Expect("b")
	w.must(saves["in place"](a.made("f"), "f", five))
	b.reads("f")
	w.must(saves["in place"](a, "f", "zero\n"+five))
	flags := uint32(syscall.O_WRONLY | syscall.O_TRUNC)
	h, err := w.fs.Open(b.c, w.walk("f").ID, flags)
	w.must(err)
	w.fs.Opened(b.c, h, 1, 7, flags, 0)
	_, err = h.WriteAt(b.c, []byte(five+"six\n"), 0, false)
	w.must(err)
	w.breakJournal()
	if err := h.Flush(b.c, 1); err == nil {
		t.Fatal("the close was acknowledged, though the journal takes nothing")
	}
	w.takeOver(l)
	// The change that it should have been is another's now, and one more process ends.
	a = a.again()
	w.must(saves["in place"](a.made("g"), "g", "other\n"))
	list := w.fs.Restored(1)
	if len(list) != 1 {
		t.Fatalf("open in the next process: %+v", list)
	}
	w.takeOver(l)
	b = b.again()
	if list = w.fs.Restored(1); len(list) != 1 {
		t.Fatalf("open in the process after that: %+v", list)
	}
	w.must(list[0].Handle.Flush(b.c, 1))
	list[0].Handle.Release(b.c, 1)
	if got, want := w.read("f"), "zero\n"+five+"six\n"; got != want {
		t.Errorf("f is %q, want %q", got, want)
	}
	for _, c := range w.conflicts() {
		if !strings.HasPrefix(c, "stale merged") {
			t.Error(c)
		}
	}
}

// Who reads a file that was replaced a moment ago, having looked its name up before, has seen what it was then.
func TestReadsWhatWasReplaced(t *testing.T) {
	w := newWorld(t)
	a, b := w.party("a"), w.party("b")
	w.fs.Expect("a")
	w.fs.Expect("b")
	w.must(saves["in place"](a.made("f"), "f", five))
	id := w.walk("f").ID
	for i := range 3 {
		w.must(saves["rename"](a, "f", fmt.Sprintf("zero %d\n", i)+five))
	}
	h, err := w.fs.Open(b.c, id, syscall.O_RDONLY)
	w.must(err)
	if got := w.text(h); got != five {
		t.Fatalf("it reads %q", got)
	}
	h.Release(b.c, 1)
	w.must(saves["rename"](b, "f", five+"six\n"))
	if got := w.read("f"); got != "zero 2\n"+five+"six\n" {
		t.Errorf("f is %q, conflicts %q", got, w.conflicts())
	}
}

// The same where the old file lives on under another name, as a backup: but who has read what is there since does not go back to it.
func TestReadsWhatWasReplacedAndKept(t *testing.T) {
	for _, since := range []bool{false, true} {
		t.Run(fmt.Sprintf("having read the new one: %v", since), func(t *testing.T) {
			w := newWorld(t)
			a, b := w.party("a"), w.party("b")
			w.fs.Expect("a")
			w.fs.Expect("b")
			w.must(saves["in place"](a.made("f"), "f", "ONE\n"+five))
			b.reads("f")
			w.must(saves["rename"](a, "f", five))
			id, want := w.walk("f").ID, five
			_, err := w.fs.Link(a.c, id, store.RootIno, "f~")
			w.must(err)
			w.must(saves["rename"](a, "f", "zero\n"+five))
			if since {
				want = "zero\n" + five
				if got := b.reads("f"); got != want {
					t.Fatalf("it reads %q", got)
				}
			}
			h, err := w.fs.Open(b.c, id, syscall.O_RDONLY)
			w.must(err)
			if got := w.text(h); got != five {
				t.Fatalf("it reads %q", got)
			}
			h.Release(b.c, 1)
			w.must(saves["rename"](b, "f", want+"six\n"))
			if got, conflicts := w.read("f"), w.conflicts(); got != "zero\n"+five+"six\n" || since && len(conflicts) != 0 {
				t.Errorf("f is %q, conflicts %q", got, conflicts)
			}
		})
	}
}

// A temporary file that has versions of its own, under a name whose last file was saved over f: when it is renamed over f, what others have
// seen of f counts, and not what they had seen of that file.
func TestTemporaryOfAnOldName(t *testing.T) {
	w := newWorld(t)
	a, b := w.party("a"), w.party("b")
	w.fs.Expect("a")
	w.fs.Expect("b")
	w.must(saves["in place"](a.made("f"), "f", five))
	saves := func(p *party, text string) {
		w.must(p.creates("t", "of an earlier run\n"))
		w.must(w.fs.Sync(t.Context()))
		w.must(saves["in place"](p, "t", text))
		w.must(w.fs.Rename(p.c, store.RootIno, "t", store.RootIno, "f", 0))
	}
	saves(b, b.reads("f")+"b 0\n")
	for i := 1; i < 4; i++ {
		w.must(a.replaces("f", fmt.Sprintf("a %d\n", i)+a.reads("f")))
		was := a.reads("f")
		saves(b, b.reads("f")+fmt.Sprintf("b %d\n", i))
		w.must(a.replaces("f", "A"+was[1:]))
		if got, want := w.read("f"), "A"+was[1:]+fmt.Sprintf("b %d\n", i); got != want {
			t.Fatalf("save %d: f is %q, want %q; conflicts %q", i, got, want, w.conflicts())
		}
	}
	for _, c := range w.conflicts() {
		if !strings.HasPrefix(c, "stale merged") {
			t.Error(c)
		}
	}
}

// What waits for the last writer to be merged is not lost with the file that it is in.
func TestMergeWaitsAndMoves(t *testing.T) {
	w := newWorld(t)
	a, b, c := w.party("a"), w.party("b"), w.party("c")
	w.fs.Expect("b")
	w.must(saves["in place"](a.made("f"), "f", five))
	b.reads("f")
	w.must(saves["in place"](a, "f", "zero\n"+five))
	other, err := w.fs.Open(c.c, w.walk("f").ID, syscall.O_WRONLY) // it may write
	w.must(err)
	w.must(saves["in place"](b, "f", five+"six\n"))
	if got := w.read("f"); got != five+"six\n" {
		t.Errorf("with two writers f is %q", got)
	}
	c.reads("f")
	w.must(saves["rename"](c, "f", five+"six\nseven\n"))
	other.Release(c.c, 1)
	if got := w.read("f"); got != "zero\n"+five+"six\nseven\n" {
		t.Errorf("f is %q", got)
	}
	for _, c := range w.conflicts() {
		if !strings.HasPrefix(c, "stale merged") {
			t.Error(c)
		}
	}
}

// Many sessions save one file by renames, as fast as they can: each reads its own last counter, and at last all are there.
func TestSavesAtOnce(t *testing.T) {
	const sessions = 6
	rounds := 12
	w := newWorld(t)
	text := ""
	for i := range sessions {
		text += fmt.Sprintf("writer %d: 0\n#\n# apart\n#\n", i)
	}
	setup := w.party("setup")
	w.must(saves["in place"](setup.made("f"), "f", text))
	w.fs.Expect("other")
	read := func(p *party) (string, error) {
		e, err := p.fs.Lookup(p.c, store.RootIno, "f")
		if err != nil {
			return "", err
		}
		h, err := p.fs.Open(p.c, e.ID, syscall.O_RDONLY)
		if err != nil {
			return "", err
		}
		buf := make([]byte, 1<<16)
		n, err := h.ReadAt(p.c, buf, 0)
		h.Release(p.c, 1)
		return string(buf[:n]), err
	}
	var parties []*party
	for i := range sessions {
		parties = append(parties, w.party(fmt.Sprintf("s%d", i)))
	}
	var all sync.WaitGroup
	for i, p := range parties {
		all.Go(func() {
			mine := regexp.MustCompile(fmt.Sprintf(`(?m)^writer %d: (\d+)$`, i))
			for n := range rounds {
				text, err := read(p)
				if err != nil {
					t.Error(err)
					return
				}
				if m := mine.FindStringSubmatch(text); m == nil || m[1] != fmt.Sprint(n) {
					t.Errorf("writer %d saved %d and reads %v", i, n, m)
					return
				}
				tmp := fmt.Sprintf("f.%d", i)
				_, h, err := p.fs.Create(p.c, store.RootIno, tmp, 0o644, syscall.O_WRONLY|syscall.O_EXCL)
				if err == nil {
					err = p.ends(h, mine.ReplaceAllString(text, fmt.Sprintf("writer %d: %d", i, n+1)), 0)
				}
				if err == nil {
					err = p.fs.Rename(p.c, store.RootIno, tmp, store.RootIno, "f", 0)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	end := w.read("f")
	for i := range sessions {
		if line := fmt.Sprintf("writer %d: %d\n", i, rounds); !strings.Contains(end, line) {
			t.Errorf("%q is not there:\n%s", line, end)
		}
	}
	for _, c := range w.conflicts() {
		if !strings.HasPrefix(c, "stale merged") {
			t.Error(c)
		}
	}
}

// changes are ways of a program to change a part of a file: they get the line to put in.
var changes = map[string]func(p *party, name, line string) error{
	"append": func(p *party, name, line string) error {
		h, err := p.fs.Open(p.c, p.walk(name).ID, syscall.O_WRONLY|syscall.O_APPEND)
		if err != nil {
			return err
		}
		if _, err := h.Append(p.c, []byte(line), false); err != nil {
			return err
		}
		return p.ends(h, "", 0)
	},
	"sed -i": func(p *party, name, line string) error { return saves["rename"](p, name, line+p.reads(name)) },
	"in place, read again": func(p *party, name, line string) error {
		h, err := p.fs.Open(p.c, p.walk(name).ID, syscall.O_RDWR)
		if err != nil {
			return err
		}
		buf := make([]byte, 1<<16)
		n, err := h.ReadAt(p.c, buf, 0)
		if err != nil {
			return err
		}
		return p.ends(h, line+string(buf[:n]), 0)
	},
}

// Every way to save on both sides, three times in turn, against an oracle that knows no more than what each session read and wrote: no
// line vanishes unless a conflict that is not merged has it.
func TestPairsOfSaves(t *testing.T) {
	ways := map[string]func(p *party, text, line string) error{}
	for how, save := range saves {
		ways[how] = func(p *party, text, line string) error { return save(p, "f", text+line) }
	}
	ways["mapping"] = func(p *party, _, line string) error { return saves["mapping"](p, "f", p.reads("f")+line) } // who maps it has read it
	for how, change := range changes {
		ways[how] = func(p *party, text, line string) error { return change(p, "f", line) }
	}
	names := slices.Sorted(maps.Keys(ways))
	for i, first := range names {
		for k, second := range names {
			if os.Getenv("WSFS_TEST_FULL") == "" && (i+k)%3 != 0 {
				continue
			}
			w := newWorld(t)
			a, b := w.party("a"), w.party("b")
			w.fs.Expect("b")
			w.must(saves["in place"](a.made("f"), "f", five))
			has := [2]string{a.reads("f"), b.reads("f")} // what each takes for the file
			var lines []string
			for n := range 4 {
				who, p, how := n%2, a, second
				if who == 1 {
					p, how = b, first
				}
				line := fmt.Sprintf("<%s %d>\n", p.who.Session.Name, n)
				if err := ways[how](p, has[who], line); err != nil {
					t.Fatalf("%s, %s: %s: %v", first, second, how, err)
				}
				has[who] += line
				lines = append(lines, line)
			}
			end, told := w.read("f"), ""
			for _, c := range w.conflicts() {
				if !strings.HasPrefix(c, "stale merged") {
					told += c
				}
			}
			for _, line := range append(lines, strings.SplitAfter(strings.TrimSuffix(five, "\n"), "\n")...) {
				if !strings.Contains(end, strings.TrimSpace(line)) && !strings.Contains(told, strings.TrimSpace(line)) {
					t.Errorf("%s, %s: %q vanished: %q, told %s", first, second, line, end, told)
				}
			}
		}
	}
}
