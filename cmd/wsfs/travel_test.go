package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestTravel runs commands at random on a live mount, takes them back, makes them again and rolls back, and wants the
// tree to be what a picture of it says, every time: names, types, modes, links, attributes, bytes. Files that were open
// go on with the bytes that they had, and everything can be created everywhere.
func TestTravel(t *testing.T) {
	for seed := range uint64(2) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			travel(t, seed, 25)
		})
	}
}

// traveller is the state of one run of TestTravel.
type traveller struct {
	*mountedStore
	t    *testing.T
	r    *rand.Rand
	log  []string
	now  []string     // the picture of the present
	undo []travelStep // what can be taken back, the newest last
	redo []travelStep
	held []heldFile
}

// travelStep is a command with the picture on its other side.
type travelStep struct {
	other   []string
	command string // "" of a rollback
}

type heldFile struct {
	f    *os.File
	text []byte
	mem  []byte // mapped
}

func travel(t *testing.T, seed uint64, steps int) {
	w := &traveller{t: t, r: rand.New(rand.NewPCG(seed, 3))}
	w.mountedStore = newMountedStore(t, func(s *mountedStore) {
		for _, p := range []string{"a", "b", "d1/c", "d1/d2/e"} {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(s.src, p)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(s.src, p), []byte(strings.Repeat(p+" line\n", 10)), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	})
	w.now = w.look()
	marks := []travelStep{{w.now, w.seq()}}
	for range steps {
		switch n := w.r.IntN(100); {
		case n < 55:
			w.run()
		case n < 80 && len(w.undo) > 0:
			last := w.undo[len(w.undo)-1]
			w.undo, w.redo = w.undo[:len(w.undo)-1], append(w.redo, travelStep{w.now, last.command})
			w.move(last.other, "undo")
		case n < 88 && len(w.redo) > 0:
			last := w.redo[len(w.redo)-1]
			w.redo, w.undo = w.redo[:len(w.redo)-1], append(w.undo, travelStep{w.now, last.command})
			w.move(last.other, "redo")
		case n < 95:
			to := marks[w.r.IntN(len(marks))]
			if slices.Equal(to.other, w.now) {
				continue
			}
			w.undo, w.redo = append(w.undo, travelStep{w.now, ""}), nil
			w.move(to.other, "rollback main "+to.command)
		default:
			marks = append(marks, travelStep{w.now, w.seq()})
		}
	}
	for _, m := range marks[max(0, len(marks)-3):] {
		dir := filepath.Join(t.TempDir(), "then")
		w.wsfs(0, "export", "main@"+m.command, dir)
		w.same("export of "+m.command, m.other, undated(picture(t, dir)))
	}
}

// run runs one to three operations as one command.
func (w *traveller) run() {
	var script []string
	for range 1 + w.r.IntN(3) {
		script = append(script, w.operation())
	}
	text := strings.Join(script, "\n")
	w.log = append(w.log, text)
	before := w.seq()
	w.command(w.mnt, "travel", nil, "sh", "-c", `timeout 5 bash -c "$0" 2> /dev/null; true`, text)
	now := w.look()
	if slices.Equal(now, w.now) {
		if w.seq() != before {
			w.redo = nil
		}
		return // what changes nothing is not there to be taken back
	}
	type entry struct{ Command string }
	w.undo, w.redo = append(w.undo, travelStep{w.now, objects[entry](w.t, w.wsfs(0, "commands", "--json", "-n", "1"))[0].Command}), nil
	w.now = now
}

// operation is a line of bash that changes something, or fails.
func (w *traveller) operation() string {
	var all []string
	dirs := []string{"."}
	for _, line := range w.now[1:] {
		var name string
		if _, err := fmt.Sscanf(line, "%q", &name); err != nil {
			w.t.Fatalf("%v in %q", err, line)
		}
		all = append(all, name)
		if fi, err := os.Lstat(filepath.Join(w.mnt, name)); err == nil && fi.IsDir() {
			dirs = append(dirs, name)
		}
	}
	quote := func(s string) string { return "'" + s + "'" }
	names := []string{"a", "b", "c", "d1", "d2", "e", "f g", "n\nl", "\xff"}
	n := quote(filepath.Join(dirs[w.r.IntN(len(dirs))], names[w.r.IntN(len(names))]))
	p := n
	if len(all) > 0 {
		p = quote(all[w.r.IntN(len(all))])
	}
	x := w.r.IntN(1_000_000)
	ops := []string{
		fmt.Sprintf("echo %d > %s", x, n), fmt.Sprintf("echo %d >> %s", x, p), "mkdir -p " + n + "/x/y", "rm -rf " + p, "mv " + p + " " + n,
		"mv -T " + p + " " + n, "ln " + p + " " + n, "ln -sfn " + p + " " + n, "cp -a " + p + " " + n, fmt.Sprintf("sed -i 3s/.*/%d/ %s", x, p),
		fmt.Sprintf("echo %d > t.%d; mv -T t.%d %s", x, x, x, n), "chmod 600 " + p, "chmod 755 " + p, fmt.Sprintf("setfattr -n user.note -v %d %s", x, p),
		"truncate -s 5 " + p, "truncate -s 200000 " + p, "mkfifo " + n, fmt.Sprintf("rm %s; echo %d > %s", p, x, p),
		"mv " + p + " T; mkdir " + p + "; mv T " + p + "/in", "cp -a " + p + " " + n + "; rm -rf " + p + "; cp -a " + n + " " + p,
	}
	return ops[w.r.IntN(len(ops))]
}

// move is an undo, redo or rollback, after which the tree has to be as want says.
func (w *traveller) move(want []string, verb string) {
	w.t.Helper()
	w.hold()
	code, out, errOut := w.command(w.mnt, "travel", nil, "sh", "-c", "wsfs "+verb+" --yes; exit $?")
	w.log = append(w.log, fmt.Sprintf("%s: %d %s%s", verb, code, out, errOut))
	w.release()
	w.now = want
	w.same(verb, want, w.look())
	for _, line := range want {
		var name string
		if _, err := fmt.Sscanf(line, "%q", &name); err != nil {
			w.t.Fatal(err)
		}
		dir := filepath.Join(w.mnt, name)
		if fi, err := os.Lstat(dir); err != nil || !fi.IsDir() {
			continue
		}
		probe := filepath.Join(dir, "probe")
		if err := os.Mkdir(probe, 0o755); err != nil {
			w.fail("%s: make something in %q: %v", verb, name, err)
		}
		if err := os.Remove(probe); err != nil {
			w.fail("%s: remove something in %q: %v", verb, name, err)
		}
	}
}

// hold opens some files, and maps some of them.
func (w *traveller) hold() {
	for _, line := range w.now {
		var name string
		if _, err := fmt.Sscanf(line, "%q", &name); err != nil || w.r.IntN(3) == 0 {
			continue
		}
		path := filepath.Join(w.mnt, name)
		if fi, err := os.Lstat(path); err != nil || !fi.Mode().IsRegular() {
			continue
		}
		f, err := os.Open(path)
		if err != nil {
			w.fail("open %q: %v", name, err)
		}
		h := heldFile{f: f, text: make([]byte, 1<<20)}
		n, _ := f.ReadAt(h.text, 0)
		h.text = h.text[:n]
		if n > 0 && w.r.IntN(2) == 0 {
			if h.mem, err = unix.Mmap(int(f.Fd()), 0, n, unix.PROT_READ, unix.MAP_SHARED); err != nil {
				w.fail("map %q: %v", name, err)
			}
		}
		w.held = append(w.held, h)
	}
}

// release wants of every open file the bytes that it had.
func (w *traveller) release() {
	for _, h := range w.held {
		b := make([]byte, 1<<20)
		n, _ := h.f.ReadAt(b, 0)
		if string(b[:n]) != string(h.text) || h.mem != nil && string(h.mem) != string(h.text) {
			w.fail("an open file of %d bytes reads %d others: %s", len(h.text), n, h.f.Name())
		}
		if h.mem != nil {
			if err := unix.Munmap(h.mem); err != nil {
				w.t.Fatal(err)
			}
		}
		_ = h.f.Close()
	}
	w.held = nil
}

func (w *traveller) look() []string { return undated(picture(w.t, w.mnt)) }

func (w *traveller) seq() string {
	type entry struct{ Seq int }
	return fmt.Sprint(objects[entry](w.t, w.wsfs(0, "workspaces", "--json"))[0].Seq)
}

func (w *traveller) same(what string, want, got []string) {
	w.t.Helper()
	if d := differences(want, got); d != "" {
		w.fail("%s:\n%s", what, d)
	}
}

func (w *traveller) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf(format+"\nbefore that:\n%s", append(args, strings.Join(w.log[max(0, len(w.log)-12):], "\n"))...)
}
