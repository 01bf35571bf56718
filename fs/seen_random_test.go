package fs_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"strings"
	"syscall"
	"testing"

	"wsfs/store"
)

var seenSeeds = flag.Int("seen-seeds", 20, "how many random histories TestNothingVanishes makes; 300 by hand")

// Sessions read, write what they read some time ago with a line of their own, append and rename, in every way to save. None ever
// takes a line out. So each line that was ever written is there in the end, or a conflict that was not merged has a content with it.
func TestNothingVanishes(t *testing.T) {
	how := maps.Clone(saves)
	maps.Copy(how, told)
	styles := slices.Sorted(maps.Keys(how))
	styles = slices.DeleteFunc(styles, func(s string) bool { return s == "mapping" }) // it has read what is there, for all that is known
	for seed := range *seenSeeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewSource(int64(seed)))
			w := newWorld(t)
			parties := []*party{w.party("a"), w.party("b"), w.party("c")}
			for _, p := range parties {
				w.fs.Expect(p.who.Session.Name)
			}
			text := ""
			for i := range 30 {
				text += fmt.Sprintf("line %d\n", i)
			}
			w.must(saves["in place"](parties[0].made("f"), "f", text))
			last := make([]string, len(parties)) // what each has read, or written itself; "": nothing
			var lines, did []string
			for step := range 60 {
				i := r.Intn(len(parties))
				p := parties[i]
				mine := fmt.Sprintf("<%s %d>\n", p.who.Session.Name, step)
				switch n := r.Intn(12); {
				case n < 3 || last[i] == "":
					last[i] = p.reads("f")
					did = append(did, p.who.Session.Name+" reads")
				case n < 4:
					h, err := p.fs.Open(p.c, p.walk("f").ID, syscall.O_WRONLY|syscall.O_APPEND)
					w.must(err)
					_, err = h.Append(p.c, []byte(mine), false)
					w.must(err)
					w.must(p.ends(h, "", 0))
					lines, last[i] = append(lines, mine), ""
					did = append(did, "appends "+mine)
				case n < 5:
					w.must(p.fs.Rename(p.c, store.RootIno, "f", store.RootIno, "g", 0))
					w.must(p.fs.Rename(p.c, store.RootIno, "g", store.RootIno, "f", 0))
					did = append(did, p.who.Session.Name+" renames")
				case n < 6 && step%5 == 0:
					w.reopen()
					for j := range parties {
						parties[j] = parties[j].again()
					}
					did = append(did, "opened again")
				default:
					style := styles[r.Intn(len(styles))]
					all := strings.SplitAfter(strings.TrimSuffix(last[i], "\n"), "\n")
					all[len(all)-1] += "\n"
					last[i] = strings.Join(slices.Insert(all, r.Intn(len(all)+1), mine), "")
					w.must(how[style](p, "f", last[i]))
					lines = append(lines, mine)
					did = append(did, style+" "+mine)
				}
			}
			end := w.read("f")
			var lost, told []string
			for _, c := range w.conflicts() {
				if !strings.Contains(strings.SplitN(c, "\"", 2)[0], "merged") {
					told = append(told, c)
				}
			}
			for _, line := range lines {
				if !strings.Contains(end, line) && !slices.ContainsFunc(told, func(c string) bool { return strings.Contains(c, strings.TrimSpace(line)) }) {
					lost = append(lost, line)
				}
			}
			if len(lost) > 0 {
				t.Errorf("%q vanished\n%s\nend:\n%s", lost, strings.Join(did, "\n"), end)
			}
			t.Logf("%d lines, %d conflicts that were not merged", len(lines), len(told))
		})
	}
}
