package versions

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"wsfs/blob"
	"wsfs/store"
)

// agedFile is a workspace with a file that 30 commands have changed.
func agedFile(t testing.TB) *world {
	w := newWorld(t)
	lines := make([]string, 40)
	for i := range lines {
		lines[i] = fmt.Sprint("line ", i)
	}
	w.command("first", "make f")
	w.create("f", strings.Join(lines, "\n")+"\n")
	for i := range 30 {
		w.command(fmt.Sprint("s", i%3), fmt.Sprint("edit\x00", i))
		lines[(7*i)%len(lines)] = fmt.Sprint("edited ", i)
		w.write("f", strings.Join(lines, "\n")+"\n")
	}
	return w
}

func (w *world) find(path string) *store.Version {
	w.t.Helper()
	v, err := Find(context.Background(), w.view(), path, true)
	if err != nil {
		w.t.Fatal(err)
	}
	return v
}

// told is everything that a blame tells.
func told(t *testing.T, b *Blamed, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for i, o := range b.Owners {
		fmt.Fprintf(&out, "%d %q %+v %d", b.First+i, b.Lines[b.First+i], *o.Version, o.At)
		for s := o.Session; s != nil; s = s.Parent {
			q := *s
			q.Parent = nil
			fmt.Fprintf(&out, " %+v", q)
		}
		if o.Command != nil {
			fmt.Fprintf(&out, " %+v", *o.Command)
		}
		for p := o.Process; p != nil; p = p.Parent {
			q := *p
			q.Parent = nil
			fmt.Fprintf(&out, " %+v", q)
		}
		out.WriteString(o.Unknown + "\n")
	}
	return out.String()
}

// What is kept says the same as what is found out, for the same version and as the start for a newer one.
func TestBlameKept(t *testing.T) {
	ctx := context.Background()
	w := agedFile(t)
	v := w.find("f")
	b, err := blame(ctx, w.st, v, BlameRange{}, &blameCache{})
	want := told(t, b, err)
	if !strings.Contains(want, "edit\x00") || !strings.Contains(want, "s2") {
		t.Fatalf("the text does not tell who:\n%s", want)
	}
	b, err = Blame(ctx, w.st, v, BlameRange{})
	if got := told(t, b, err); got != want {
		t.Errorf("the first time:\n%s\nwant\n%s", got, want)
	}
	file := filepath.Join(w.st.Dir(), blameCacheDir, fmt.Sprintf("%016x", int64(v.ID)))
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if owners, err := decodeBlame(data, v); err != nil || len(owners) != len(b.Lines) {
		t.Fatalf("what was kept has %d lines, %v", len(owners), err)
	}
	b, err = Blame(ctx, w.st, v, BlameRange{})
	if got := told(t, b, err); got != want {
		t.Errorf("the second time:\n%s\nwant\n%s", got, want)
	}
	b, err = Blame(ctx, w.st, v, BlameRange{First: 3, Last: 5})
	if got, lines := told(t, b, err), strings.SplitAfter(want, "\n"); got != strings.Join(lines[2:5], "") {
		t.Errorf("lines 3 to 5:\n%s\nwant\n%s", got, strings.Join(lines[2:5], ""))
	}

	w.command("later", "one more edit")
	w.write("f", strings.Replace(contentText(t, w, v), "line 39", "LINE 39", 1))
	v = w.find("f")
	b, err = blame(ctx, w.st, v, BlameRange{}, &blameCache{})
	want = told(t, b, err)
	counted := &blameCache{dir: filepath.Join(w.st.Dir(), blameCacheDir), from: 3}
	b, err = blame(ctx, w.st, v, BlameRange{}, counted)
	if got := told(t, b, err); got != want {
		t.Errorf("one edit later:\n%s\nwant\n%s", got, want)
	}
	if _, err := os.Stat(counted.path(v.ID)); err == nil {
		t.Error("a newer version was gone back from by more than one step, though the one before was kept")
	}
}

func contentText(t *testing.T, w *world, v *store.Version) string {
	t.Helper()
	text, err := contentOf(context.Background(), w.st, v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Whatever the file holds, the answer is right.
func TestBlameKeptIsNotTrusted(t *testing.T) {
	ctx := context.Background()
	w := agedFile(t)
	v := w.find("f")
	b, err := Blame(ctx, w.st, v, BlameRange{})
	want := told(t, b, err)
	cache := &blameCache{dir: filepath.Join(w.st.Dir(), blameCacheDir)}
	file := cache.path(v.ID)
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	signed := func(body []byte) []byte {
		sum := blob.Sum(body)
		return append(slices.Clone(body), sum[:]...)
	}
	body := good[:len(good)-blob.RefSize]
	later := append([]byte(blameCacheMagic[:7]+"3"), body[8:]...)
	other := slices.Clone(body)
	other[9] ^= 1 // of another content: the version was amended
	bad := map[string][]byte{
		"empty": {}, "short": good[:20], "cut": good[:len(good)-1], "longer": append(slices.Clone(good), 0), "noise": bytes.Repeat([]byte{0xa5}, 500),
		"a later format": signed(later), "another content": signed(other), "cut and signed": signed(body[:len(body)-3]),
		"more, signed": signed(append(slices.Clone(body), 1)),
	}
	for i := 0; i < len(good); i += 13 {
		data := slices.Clone(good)
		data[i] ^= 0x40
		bad[fmt.Sprint("byte ", i)] = data
	}
	for name, data := range bad {
		if _, err := decodeBlame(data, v); err == nil {
			t.Errorf("%s: taken for good", name)
		}
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		b, err := Blame(ctx, w.st, v, BlameRange{})
		if got := told(t, b, err); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
		if data, err := os.ReadFile(file); err != nil || !bytes.Equal(data, good) {
			t.Errorf("%s: not written again, %v", name, err)
		}
	}
	// In the place of another version's.
	if err := os.Rename(file, cache.path(v.Parent)); err != nil {
		t.Fatal(err)
	}
	b, err = Blame(ctx, w.st, v, BlameRange{})
	if got := told(t, b, err); got != want {
		t.Errorf("with a file of another name:\n%s\nwant\n%s", got, want)
	}
	// Where nothing can be kept.
	if err := os.RemoveAll(filepath.Join(w.st.Dir(), "cache")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.st.Dir(), "cache"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b, err = Blame(ctx, w.st, v, BlameRange{})
	if got := told(t, b, err); got != want {
		t.Errorf("without a place to keep it:\n%s\nwant\n%s", got, want)
	}
}

// Every field of who did it is kept: one that is new must be added to the format.
func TestBlameKeepsAllOfWho(t *testing.T) {
	v := &store.Version{ID: 9, Size: 3, Content: blob.Sum([]byte("x"))}
	s := &store.Session{Parent: &store.Session{}}
	p := &store.Process{Parent: &store.Process{}}
	c := &store.Command{}
	for i, who := range []any{s.Parent, s, p.Parent, p, c} {
		fill(t, reflect.ValueOf(who).Elem(), int64(i+1))
	}
	o := &LineOwner{Version: &store.Version{ID: 3, Ino: 4, Seq: 5, Origin: 6}, At: 7, Session: s, Process: p, Command: c}
	got, err := decodeBlame(encodeBlame(v, []*LineOwner{o, o}), v)
	if err != nil || len(got) != 2 || got[0] != got[1] || !reflect.DeepEqual(got[0], o) {
		t.Errorf("%v, %v, want %+v", got, err, o)
	}
}

// fill gives every field of a struct a value of its own.
func fill(t *testing.T, v reflect.Value, n int64) {
	t.Helper()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.Int, reflect.Int64:
			f.SetInt(100*n + int64(i))
		case reflect.Uint32, reflect.Uint64:
			f.SetUint(uint64(100*n) + uint64(i))
		case reflect.String:
			f.SetString(fmt.Sprint("field ", i, " of ", n))
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Pointer: // the parents, which the caller sets
		default:
			t.Fatalf("field %s is a %v: the test does not know how to fill it", v.Type().Field(i).Name, f.Kind())
		}
	}
}

// The oldest go when there are too many.
func TestBlameCacheIsBounded(t *testing.T) {
	c := &blameCache{dir: filepath.Join(t.TempDir(), "blame")}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	start := time.Now().Add(-time.Hour)
	for i := range blameCacheFiles {
		name := c.path(store.VersionID(i + 1))
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		at := start.Add(time.Duration(i) * time.Second)
		if err := os.Chtimes(name, at, at); err != nil {
			t.Fatal(err)
		}
	}
	v := &store.Version{ID: 1 << 40, Size: 10, Content: blob.Sum([]byte("x"))}
	c.save(v, []*LineOwner{{Version: &store.Version{ID: 7}}})
	entries, err := os.ReadDir(c.dir)
	if err != nil || len(entries) > blameCacheFiles*7/8+1 {
		t.Errorf("%d files, %v", len(entries), err)
	}
	if o := c.load(v); len(o) != 1 || o[0].Version.ID != 7 {
		t.Errorf("what was just kept: %v", o)
	}
	if _, err := os.Stat(c.path(1)); err == nil {
		t.Error("the oldest is still there")
	}
	if _, err := os.Stat(c.path(blameCacheFiles)); err != nil {
		t.Errorf("the youngest is gone: %v", err)
	}
}

func FuzzDecodeBlame(f *testing.F) {
	v := &store.Version{ID: 9, Size: 1 << 20, Content: blob.Sum([]byte("x"))}
	s := &store.Session{ID: 1, Name: "s"}
	p := &store.Process{ID: 2, Session: 1, Comm: "sh", Parent: &store.Process{ID: 1, Session: 1}}
	o := &LineOwner{Version: &store.Version{ID: 3, Seq: 4}, Session: s, Process: p, Command: &store.Command{ID: 5, Argv: "a\x00b"}}
	good := encodeBlame(v, []*LineOwner{o, o, {Version: &store.Version{ID: 4}}})
	head := len(blameCacheMagic) + blob.RefSize
	f.Add(good[head : len(good)-blob.RefSize])
	f.Fuzz(func(t *testing.T, data []byte) {
		body := append(slices.Clone(good[:head]), data...)
		sum := blob.Sum(body)
		owners, err := decodeBlame(append(body, sum[:]...), v)
		if err != nil {
			return
		}
		again, err := decodeBlame(encodeBlame(v, owners), v)
		if err != nil || len(again) != len(owners) {
			t.Errorf("%d owners became %d, %v", len(owners), len(again), err)
		}
	})
}
