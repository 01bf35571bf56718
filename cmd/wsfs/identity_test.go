package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const saves = 3 // of each style

// ownedLine is a line with the save that brought it; 0 is the import.
type ownedLine struct {
	text  string
	owner int
}

// oracle knows the texts that one path has one after the other, and by construction whose every line is. It knows of no
// inodes.
type oracle struct {
	style saveStyle
	dir   string
	texts [][]ownedLine // [0] is the imported one
	env   [][]string    // what the script of each save gets
}

func text(lines []ownedLine) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l.text + "\n")
	}
	return b.String()
}

// newOracle plans the saves of a style, and puts into out what its scripts read.
func newOracle(t *testing.T, style saveStyle, out string) *oracle {
	t.Helper()
	o := &oracle{style: style, dir: strings.ReplaceAll(style.name, " ", "-")}
	var now []ownedLine
	for i := range 16 {
		now = append(now, ownedLine{fmt.Sprintf("%s line %02d", o.dir, i), 0})
		if i%4 == 3 { // lines that look alike keep their owner too
			now = append(now, ownedLine{"}", 0}, ownedLine{"", 0})
		}
	}
	o.texts = append(o.texts, now)
	o.env = append(o.env, nil)
	work := filepath.Join(out, o.dir)
	write := func(name, content string) string {
		path := filepath.Join(work, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("texts/0", text(now))
	for r := 1; r <= saves; r++ {
		find := func(i int) int {
			return slices.IndexFunc(now, func(l ownedLine) bool { return l.text == fmt.Sprintf("%s line %02d", o.dir, i) })
		}
		mark := func(what string) ownedLine { return ownedLine{fmt.Sprintf("%s %s by %d", o.dir, what, r), r} }
		next := slices.Clone(now)
		change, put, gone, tail := find(3*r-2), find(3*r), find(11+r), mark("appended")
		to := mark("changed")
		var sed string
		switch style.edit {
		case anyEdit:
			sed = fmt.Sprintf("%ds/.*/%s/\n%di\\\n%s\n%dd\n$a\\\n%s\n", change+1, to.text, put+1, mark("put").text, gone+1, tail.text)
			next[change] = to
			next = append(slices.Delete(next, gone, gone+1), tail)
			next = slices.Insert(next, put, mark("put"))
		case oneLine:
			next[change] = to
		case sameSize:
			to.text = strings.ToUpper(now[change].text)
			next[change] = to
		case appended:
			next = append(next, tail)
		case cutOff:
			next = next[:len(next)-1]
		}
		o.env = append(o.env, []string{
			"NEW=" + write("texts/"+strconv.Itoa(r), text(next)), "FROM=" + now[change].text, "TO=" + to.text, "R=" + strconv.Itoa(r),
			"TAIL=" + write("tail"+strconv.Itoa(r), tail.text+"\n"), "OFF=" + strconv.Itoa(len(text(now[:change]))),
			"LINE=" + write("line"+strconv.Itoa(r), to.text), "SIZE=" + strconv.Itoa(len(text(next))), "OUT=" + work, "D=" + o.dir,
			"SED=" + write("sed"+strconv.Itoa(r), sed),
		})
		now = next
		o.texts = append(o.texts, now)
	}
	return o
}

// TestIdentity saves files in every way that programs have, and compares what the log, blame, diff, cat, undo and redo make
// of a path with an oracle that knows paths and texts only.
func TestIdentity(t *testing.T) {
	var all []*oracle
	s := newMountedStore(t, func(s *mountedStore) {
		for _, style := range saveStyles {
			if _, err := exec.LookPath(style.needs); style.needs != "" && err != nil {
				t.Logf("%s is not installed (scripts/test installs it): %q is not tried", style.needs, style.name)
				continue
			}
			o := newOracle(t, style, s.outside)
			all = append(all, o)
			dir := filepath.Join(s.src, o.dir)
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(dir+"/f", []byte(text(o.texts[0])), 0o644); err != nil {
				t.Fatal(err)
			}
			if style.setup != "" {
				code, out, errOut := s.command(dir, "", []string{"TEXTS=" + filepath.Join(s.outside, o.dir, "texts")}, "bash", "-euc", style.setup)
				if code != 0 {
					t.Fatalf("%s: setup: %s%s", style.name, out, errOut)
				}
			}
		}
	})
	for i, o := range all {
		t.Run(o.dir, func(t *testing.T) {
			s := *s
			s.t = t
			for r := 1; r <= saves; r++ {
				s.in(o.dir, o.dir, o.style.save, o.env[r]...)
				if b, err := os.ReadFile(filepath.Join(s.mnt, o.dir, "f")); err != nil || string(b) != text(o.texts[r]) {
					t.Fatalf("the style is wrong: after save %d the file holds\n%s%v\nwant\n%s", r, b, err, text(o.texts[r]))
				}
			}
			commands := checkLog(t, &s, o)
			// Of two thirds of the styles the last save only, whose blame has the owners of all.
			first := saves
			if i%3 == 0 || os.Getenv("WSFS_TEST_FULL") != "" {
				first = 1
			}
			for r := first; r <= saves; r++ {
				checkTexts(t, &s, o, r, commands[r])
				checkBlame(t, &s, o, r, commands)
				checkDiff(t, &s, o, r, commands[r])
			}
			checkUndo(t, &s, o, first)
		})
	}
}

// checkLog wants one command for each save, in order, in the log of the path, and returns them.
func checkLog(t *testing.T, s *mountedStore, o *oracle) []string {
	t.Helper()
	type entry struct {
		Command, Session, What, Path string
		Argv                         []string
		Size                         int
	}
	var commands []string
	size := map[string]int{}
	for _, e := range objects[entry](t, s.wsfs(0, "log", "--json", "main:"+o.dir+"/f")) {
		if len(commands) == 0 || commands[len(commands)-1] != e.Command {
			commands = append(commands, e.Command)
		}
		if _, newer := size[e.Command]; !newer && e.What != "deleted" {
			size[e.Command] = e.Size
		}
		if e.Session != o.dir && len(commands) <= saves {
			t.Errorf("the log knows of session %q, not %q: %+v", e.Session, o.dir, e)
		}
	}
	slices.Reverse(commands)
	if len(commands) != saves+1 {
		t.Fatalf("the log has %d commands for %d saves and an import:\n%s", len(commands), saves, s.wsfs(0, "log", "main:"+o.dir+"/f"))
	}
	for r, c := range commands {
		if size[c] != len(text(o.texts[r])) {
			t.Errorf("the log says that save %d left %d bytes, not %d:\n%s", r, size[c], len(text(o.texts[r])), s.wsfs(0, "log", "main:"+o.dir+"/f"))
		}
	}
	return commands
}

// checkTexts wants the texts before and after a save.
func checkTexts(t *testing.T, s *mountedStore, o *oracle, r int, command string) {
	t.Helper()
	revisions := map[string]string{command: text(o.texts[r-1]), command + "+": text(o.texts[r])}
	for rev, want := range revisions {
		if got := s.wsfs(0, "cat", "main@"+rev+":"+o.dir+"/f"); got != want {
			t.Errorf("save %d: at %s the file is\n%s\nwant\n%s", r, rev, got, want)
		}
	}
}

// checkBlame wants every line of the text after save r to be owned by the save that brought it.
func checkBlame(t *testing.T, s *mountedStore, o *oracle, r int, commands []string) {
	t.Helper()
	type line struct{ Text, Command string }
	got := objects[line](t, s.wsfs(0, "blame", "--json", "main@"+commands[r]+"+:"+o.dir+"/f"))
	if len(got) != len(o.texts[r]) {
		t.Fatalf("save %d: blame has %d lines, want %d", r, len(got), len(o.texts[r]))
	}
	for i, want := range o.texts[r] {
		if got[i].Text != want.text+"\n" || got[i].Command != commands[want.owner] {
			t.Errorf("save %d: blame gives line %d, %q, to %s; it is %q of save %d, %s", r, i+1, got[i].Text, got[i].Command, want.text, want.owner, commands[want.owner])
		}
	}
}

// checkDiff wants the difference that a save made to turn the text before it into the one after it.
func checkDiff(t *testing.T, s *mountedStore, o *oracle, r int, command string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, o.dir), 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, o.dir, "f")
	if err := os.WriteFile(file, []byte(text(o.texts[r-1])), 0o644); err != nil {
		t.Fatal(err)
	}
	patch := s.wsfs(0, "diff", "main@"+command, "main@"+command+"+", "--", o.dir+"/f")
	if err := os.WriteFile(dir+"/the.patch", []byte(patch), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, out, errOut := s.command(dir, "", nil, "git", "apply", "the.patch"); code != 0 {
		t.Errorf("save %d: git apply: %s%s\n%s", r, out, errOut, patch)
	} else if b, err := os.ReadFile(file); err != nil || string(b) != text(o.texts[r]) {
		t.Errorf("save %d: the patch makes\n%s%v\nwant\n%s\nfrom\n%s", r, b, err, text(o.texts[r]), patch)
	}
}
