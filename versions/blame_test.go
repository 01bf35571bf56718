package versions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"

	"wsfs/blob"
	"wsfs/internal/diff"
	"wsfs/store"
)

// recreate is what `rm path; cat > path` leads to.
func (w *world) recreate(path, content string) store.Seq {
	last := w.nodes[w.paths[path]].ID
	w.remove(path)
	p, name := w.at(path)
	ino := w.st.NewIno()
	w.paths[path] = ino
	return w.append(&store.Op{
		Kind: store.OpCreate, Names: []store.Name{{Parent: p, Name: name, Ino: ino, Type: syscall.S_IFREG}},
		Versions: []store.Version{{
			Ino: ino, Mode: syscall.S_IFREG | 0o644, Nlink: 1, Size: int64(len(content)), Content: blob.Sum([]byte(content)), Replaced: last,
		}},
		Items:    []store.Item{{Op: store.OpCreate, Ino: ino, Parent: p, Name: name}},
		Contents: []blob.Staged{w.st.Blobs().StageSmall([]byte(content))},
	})
}

// replace is a save by temporary file and rename; the result is the seq of the temporary file's bytes.
func (w *world) replace(path, content string) store.Seq {
	dir, name := split2(path)
	tmp := join(dir, "."+name+".tmp")
	seq := w.create(tmp, content)
	w.rename(tmp, path)
	return seq
}

func (w *world) blame(v *store.View, path string, r BlameRange) *Blamed {
	w.t.Helper()
	ver, err := Find(context.Background(), v, path, true)
	if err != nil {
		w.t.Fatal(err)
	}
	b, err := Blame(context.Background(), w.st, ver, r)
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

// seqs is the owners as short text: `seq command text`.
func (w *world) seqs(b *Blamed) []string {
	var out []string
	for i, o := range b.Owners {
		who := "?"
		if o.Command != nil {
			who = o.Command.Argv
		}
		out = append(out, fmt.Sprintf("%d %s %s", o.Version.Seq, who, strings.TrimSuffix(string(b.Lines[b.First+i]), "\n")))
	}
	return out
}

func TestBlame(t *testing.T) {
	w := newWorld(t)
	w.command("s", "first")
	one := w.create("f", "alpha\n\nbeta\n\ngamma\n")
	w.command("s", "edit")
	two := w.write("f", "alpha\n\nBETA\n\ngamma\n\ndelta")
	past := w.view()
	w.command("s", "move")
	w.rename("f", "g")
	w.command("s", "vim")
	three := w.replace("g", "ALPHA\n\nBETA\n\ngamma\n\ndelta")
	w.chmod("g", 0o755)
	w.command("s", "rm and cat")
	four := w.recreate("g", "ALPHA\n\nBETA\n\ngamma\n\ndelta\n")
	line := func(seq store.Seq, who, text string) string { return fmt.Sprintf("%d %s %s", seq, who, text) }
	want := []string{
		line(three, "vim", "ALPHA"), line(one, "first", ""), line(two, "edit", "BETA"), line(one, "first", ""),
		line(one, "first", "gamma"), line(two, "edit", ""), line(four, "rm and cat", "delta"),
	}
	if got := w.seqs(w.blame(w.view(), "g", BlameRange{})); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if got := w.seqs(w.blame(w.view(), "g", BlameRange{3, 4})); !slices.Equal(got, want[2:4]) {
		t.Errorf("lines 3 to 4: %q", got)
	}
	if got := w.seqs(w.blame(past, "f", BlameRange{First: 7})); !slices.Equal(got, []string{line(two, "edit", "delta")}) {
		t.Errorf("the past: %q", got)
	}
	w.create("empty", "")
	if got := w.seqs(w.blame(w.view(), "empty", BlameRange{})); len(got) != 0 {
		t.Errorf("an empty file: %q", got)
	}
}

func TestBlameRefuses(t *testing.T) {
	w := newWorld(t)
	w.create("bin", "a\x00b")
	w.create("f", "x\n")
	w.mkdir("d")
	for path, r := range map[string]BlameRange{"bin": {}, "d": {}, "f": {1, 2}} {
		ver, err := Find(context.Background(), w.view(), path, true)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Blame(context.Background(), w.st, ver, r); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("blame of %s: %v", path, err)
		}
	}
}

// An unknown writer is nobody, not the next one that is known.
func TestBlameUnknown(t *testing.T) {
	w := newWorld(t)
	w.create("f", "by nobody\n")
	w.command("s", "cmd")
	w.write("f", "by nobody\nby cmd\n")
	b := w.blame(w.view(), "f", BlameRange{})
	if o := b.Owners[0]; o.Command != nil || o.Session != nil || o.At == 0 || o.Unknown != "" {
		t.Errorf("%+v", o)
	}
	if b.Owners[1].Command == nil {
		t.Errorf("%+v", b.Owners[1])
	}
	// A version whose parent is gone, as after a collection.
	v := *b.Version
	v.Parent = 1 << 40
	c, err := Blame(context.Background(), w.st, &v, BlameRange{})
	if err != nil || c.Owners[0].Unknown == "" || c.Owners[0].Version.ID != v.ID {
		t.Errorf("%v %+v", err, c.Owners[0])
	}
}

// A command that empties a file and fills it again, in place or in a new inode, brings only what is new.
func TestBlameRefill(t *testing.T) {
	w := newWorld(t)
	w.command("s", "first")
	one := w.create("f", "a\nb\nc\n")
	w.command("s", "refill")
	w.write("f", "new\n")
	w.write("f", "new\na\n")
	w.write("f", "new\na\nb\nc\n")
	w.command("s", "again")
	w.recreate("f", "newer\n")
	w.write("f", "newer\nnew\na\nb\nc\n")
	got := w.seqs(w.blame(w.view(), "f", BlameRange{}))
	want := []string{
		fmt.Sprintf("%d again newer", one+5), fmt.Sprintf("%d refill new", one+1), fmt.Sprintf("%d first a", one),
		fmt.Sprintf("%d first b", one), fmt.Sprintf("%d first c", one),
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A merge has two parents; lines of both keep their owners.
func TestBlameMerge(t *testing.T) {
	w := newWorld(t)
	base := w.create("f", "1\n2\n3\n4\n5\n")
	mine := w.write("f", "one\n2\n3\n4\n5\n")
	theirs := w.create("theirs", "1\n2\n3\n4\nfive\n")
	other := w.nodes[w.paths["theirs"]].ID
	p, name := w.at("f")
	v := w.nodes[w.paths["f"]]
	text := []byte("one\n2\n3\n4\nfive\n")
	v.Content, v.Size, v.Merge = blob.Sum(text), int64(len(text)), other
	w.append(&store.Op{
		Kind: store.OpWrite, Versions: []store.Version{v}, Items: []store.Item{{Op: store.OpWrite, Ino: v.Ino, Parent: p, Name: name}},
		Contents: []blob.Staged{w.st.Blobs().StageSmall(text)},
	})
	var got []store.Seq
	for _, o := range w.blame(w.view(), "f", BlameRange{}).Owners {
		got = append(got, o.Version.Seq)
	}
	if want := []store.Seq{mine, base, base, base, theirs}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// modelLine is a line of the naive model: no two have the same text, and their order never changes.
type modelLine struct {
	key   float64
	text  string
	owner store.Seq
}

// Random edits in every style of saving against a model that keeps the owner with each line.
func TestBlameModel(t *testing.T) {
	for seed := range uint64(5) {
		r := rand.New(rand.NewPCG(seed, 3))
		w := newWorld(t)
		path := "f"
		var now []modelLine
		var all []modelLine
		type moment struct {
			view  *store.View
			path  string
			lines []modelLine
		}
		var moments []moment
		w.create(path, "")
		for n := range 80 {
			next := edit(r, &all, now, n)
			seq := w.save(r, &path, textOf(next))
			owner := map[string]store.Seq{}
			for _, l := range now {
				owner[l.text] = l.owner
			}
			for i := range next {
				next[i].owner = seq
				if was, ok := owner[next[i].text]; ok {
					next[i].owner = was
				}
			}
			now = next
			moments = append(moments, moment{w.view(), path, slices.Clone(now)})
		}
		cache := blameCache{dir: t.TempDir(), from: 1 + r.IntN(4)}
		for i, m := range append([]moment{moments[len(moments)-1], moments[r.IntN(len(moments))]}, moments...) {
			b := w.blame(m.view, m.path, BlameRange{})
			if i > 1 { // by what is kept of the ones before
				again := cache
				var err error
				if b, err = blame(context.Background(), w.st, b.Version, BlameRange{}, &again); err != nil {
					t.Fatal(err)
				}
			}
			if len(b.Owners) != len(m.lines) {
				t.Fatalf("seed %d: %d lines, want %d", seed, len(b.Owners), len(m.lines))
			}
			for i, l := range m.lines {
				if string(b.Lines[i]) != l.text || b.Owners[i].Version.Seq != l.owner {
					t.Fatalf("seed %d: line %d is %q of %d, want %q of %d", seed, i+1, b.Lines[i], b.Owners[i].Version.Seq, l.text, l.owner)
				}
			}
		}
	}
}

// edit takes some lines away, adds new ones, and now and then brings old ones back.
func edit(r *rand.Rand, all *[]modelLine, now []modelLine, n int) []modelLine {
	next := slices.DeleteFunc(slices.Clone(now), func(modelLine) bool { return r.IntN(12) == 0 })
	for i := range r.IntN(6) {
		l := modelLine{key: r.Float64(), text: fmt.Sprintf("line %d of edit %d\n", i, n)}
		*all = append(*all, l)
		next = append(next, l)
	}
	if r.IntN(5) == 0 && len(*all) > 0 {
		l := (*all)[r.IntN(len(*all))]
		if !slices.ContainsFunc(next, func(o modelLine) bool { return o.text == l.text }) {
			next = append(next, l)
		}
	}
	slices.SortFunc(next, func(a, b modelLine) int { return cmp.Compare(a.key, b.key) })
	return next
}

func textOf(lines []modelLine) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l.text)
	}
	return b.String()
}

// save writes the text in one of the ways programs do, and sometimes moves the file; the seq is that of the bytes.
func (w *world) save(r *rand.Rand, path *string, text string) (seq store.Seq) {
	w.command("s", fmt.Sprint("save ", w.seq))
	switch r.IntN(5) {
	case 0, 1:
		seq = w.write(*path, text)
	case 2:
		seq = w.replace(*path, text)
	case 3:
		seq = w.recreate(*path, text)
	case 4: // a backup first, as some editors do: the old inode goes on under another name
		backup := *path + "~"
		if _, ok := w.paths[backup]; ok {
			w.remove(backup)
		}
		w.link(*path, backup)
		seq = w.replace(*path, text)
	}
	switch r.IntN(6) {
	case 0:
		w.chmod(*path, 0o600)
	case 1:
		to := fmt.Sprint("f", w.seq)
		w.rename(*path, to)
		*path = to
	}
	return seq
}

// Whatever the texts are, what is not a change pairs equal lines.
func TestLineChangesPairEqualLines(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for range 1500 {
		var a []string
		for range r.IntN(120) {
			a = append(a, fmt.Sprintf("%d\n", r.IntN(1+r.IntN(200))))
		}
		b := slices.Clone(a)
		for range r.IntN(5) {
			i := r.IntN(len(b) + 1)
			if r.IntN(2) == 0 {
				b = slices.Delete(b, i, min(len(b), i+r.IntN(40)))
				continue
			}
			for range r.IntN(40) {
				b = slices.Insert(b, i, fmt.Sprintf("%d\n", r.IntN(200)))
			}
		}
		if r.IntN(3) == 0 {
			b = append(b, "no end")
		}
		x, y := 0, 0
		for _, c := range append(lineChanges([]byte(strings.Join(a, "")), []byte(strings.Join(b, ""))), diff.Change{A: len(a), B: len(b)}) {
			if c.A-x != c.B-y || c.A < x || !slices.Equal(a[x:c.A], b[y:c.B]) {
				t.Fatalf("%q\n%q: lines %d to %d and %d to %d are no pairs", a, b, x, c.A, y, c.B)
			}
			x, y = c.A+c.ALen, c.B+c.BLen
		}
		if x != len(a) || y != len(b) {
			t.Fatalf("%q\n%q: ends at %d and %d", a, b, x, y)
		}
	}
}
