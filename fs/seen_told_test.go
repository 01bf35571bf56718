package fs_test

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"wsfs/fs"
	"wsfs/store"
)

// told are ways to replace what a file has that are noticed, but end in an open conflict where saves are merged.
var told = map[string]func(p *party, name, text string) error{
	"unlink and link": func(p *party, name, text string) error {
		if err := p.creates(name+".tmp", text); err != nil {
			return err
		}
		if err := p.fs.Unlink(p.c, store.RootIno, name); err != nil {
			return err
		}
		if _, err := p.fs.Link(p.c, p.walk(name+".tmp").ID, store.RootIno, name); err != nil {
			return err
		}
		return p.fs.Unlink(p.c, store.RootIno, name+".tmp")
	},
}

func TestTold(t *testing.T) {
	const text, zero = "one\ntwo\nthree\n", "zero\none\ntwo\nthree\n"
	for how, save := range told {
		t.Run(how, func(t *testing.T) {
			w := newWorld(t)
			a, b := w.party("a"), w.party("b")
			w.fs.Expect("a")
			w.fs.Expect("b")
			w.must(saves["in place"](a.made("f"), "f", text))
			b.reads("f")
			w.must(save(b, "f", text+"four\n")) // nobody was in between
			w.must(saves["in place"](a, "f", zero))
			w.must(save(b, "f", text+"five\n"))
			want := []string{fmt.Sprintf("stale merged %q %q %q", text, text+"four\n", zero), fmt.Sprintf("stale %q %q %q", text+"four\n", zero+"four\n", text+"five\n")}
			if got := w.conflicts(); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("conflicts %q, want %q", got, want)
			}
		})
	}
}

// A name that was removed is refused to what would replace what had it.
func TestRefusedByName(t *testing.T) {
	for how, save := range map[string]func(*party, string, string) error{
		"unlink and rename": saves["unlink and rename"], "move away and rename": saves["move away and rename"], "unlink and link": told["unlink and link"],
	} {
		t.Run(how, func(t *testing.T) {
			w := newWorld(t)
			a, b := w.party("a"), w.party("b")
			w.fs.Expect("a")
			w.fs.Expect("b")
			b.c.Rules = &fs.Rules{Paths: []fs.PathRule{{Pattern: "f", Policy: fs.PolicyReject}}}
			w.must(saves["in place"](a.made("f"), "f", "one\n"))
			b.reads("f")
			w.must(saves["in place"](a, "f", "zero\none\n"))
			if err := save(b, "f", "uno\n"); !errors.Is(err, syscall.EBUSY) {
				t.Errorf("it returns %v", err)
			}
			want := fmt.Sprint([]string{fmt.Sprintf("stale %q %q %q", "one\n", "zero\none\n", "uno\n")})
			if got := w.conflicts(); fmt.Sprint(got) != want {
				t.Errorf("conflicts %q, want %q", got, want)
			}
			if got := w.read("f.tmp"); got != "uno\n" {
				t.Errorf("the temporary has %q", got)
			}
		})
	}
}
