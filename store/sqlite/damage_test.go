package sqlite_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"wsfs/store"
	"wsfs/store/sqlite"
)

// files are the contents of a directory, by name.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := make(map[string]string)
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if e.Type().IsRegular() {
			b, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			out[e.Name()] = string(b)
		}
	}
	return out
}

func initStore(t *testing.T) (dir, db string) {
	t.Helper()
	dir = t.TempDir()
	if err := store.Init(t.Context(), dir, sqlite.Driver()); err != nil {
		t.Fatal(err)
	}
	return dir, filepath.Join(dir, sqlite.File)
}

func pragma(t *testing.T, path, text string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(text); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// refused opens a store in both ways, expects an error that is want and says hint, and that no byte was changed.
func refused(t *testing.T, dir string, want error, hint string) {
	t.Helper()
	before := files(t, dir)
	for _, o := range []store.Options{{}, {ReadOnly: true}} {
		st, err := store.Open(t.Context(), dir, sqlite.Driver(), o)
		if err == nil {
			t.Errorf("read-only %v: the store opens", o.ReadOnly)
			if err := st.Close(); err != nil {
				t.Error(err)
			}
			return
		}
		if !errors.Is(err, want) || !strings.Contains(err.Error(), hint) || !strings.Contains(err.Error(), dir) {
			t.Errorf("read-only %v: %v, want %q with %q", o.ReadOnly, err, want, hint)
		}
	}
	if !maps.Equal(files(t, dir), before) {
		t.Error("a refused store was changed")
	}
}

func TestNewerSchemaIsLeftAlone(t *testing.T) {
	dir, db := initStore(t)
	pragma(t, db, fmt.Sprintf("PRAGMA user_version = %d", store.SchemaVersion+1))
	refused(t, dir, store.ErrNewerSchema, "nothing was changed")
}

func TestOlderSchemaIsNotRead(t *testing.T) {
	dir, db := initStore(t)
	pragma(t, db, fmt.Sprintf("PRAGMA user_version = %d", store.SchemaVersion-1))
	_, err := store.Open(t.Context(), dir, sqlite.Driver(), store.Options{ReadOnly: true})
	if !errors.Is(err, store.ErrOlderSchema) || !strings.Contains(err.Error(), "wsfs sync") {
		t.Errorf("read-only: %v", err)
	}
}

func TestForeignDatabaseIsLeftAlone(t *testing.T) {
	dir, db := initStore(t)
	pragma(t, db, "PRAGMA application_id = 77")
	refused(t, dir, store.ErrForeign, "application id 0x4d")
	if err := store.Init(t.Context(), dir, sqlite.Driver()); !errors.Is(err, store.ErrForeign) {
		t.Errorf("init over it: %v, want %v", err, store.ErrForeign)
	}
}

func TestWhatIsNoDatabase(t *testing.T) {
	for name, content := range map[string][]byte{
		"garbage": bytes.Repeat([]byte("no database at all\n"), 1000),
		"empty":   {},
		"zeros":   make([]byte, 16384),
	} {
		t.Run(name, func(t *testing.T) {
			dir, db := initStore(t)
			if err := os.WriteFile(db, content, 0o600); err != nil {
				t.Fatal(err)
			}
			refused(t, dir, store.ErrCorrupt, "backup")
		})
	}
}

// damaged has rows in many pages, then damage is done to the file.
func damaged(t *testing.T, do func(f *os.File, size int64)) string {
	t.Helper()
	dir, db := initStore(t)
	st, err := store.Open(t.Context(), dir, sqlite.Driver(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := store.Workspace{ID: st.NewWorkspaceID(), Name: "w", Timeline: st.NewTimelineID()}
	root := store.Version{Ino: store.RootIno, Seq: 1, ID: st.NewVersionID(), Mode: syscall.S_IFDIR | 0o755, Nlink: 2}
	append1 := func(op *store.Op) {
		if _, err := st.Append(op); err != nil {
			t.Fatal(err)
		}
	}
	append1(&store.Op{
		Kind: store.OpWorkspace, Timeline: w.Timeline, Seq: 1, Versions: []store.Version{root},
		Pointer: &store.Pointer{Workspace: w, NewTimeline: &store.Timeline{ID: w.Timeline}, Why: "init"},
	})
	for i := range 3000 {
		ino, seq := st.NewIno(), store.Seq(i+2)
		name := fmt.Sprintf("file number %d", i)
		append1(&store.Op{
			Kind: store.OpCreate, Timeline: w.Timeline, Seq: seq,
			Names:    []store.Name{{Parent: store.RootIno, Name: name, Ino: ino, Type: syscall.S_IFREG}},
			Versions: []store.Version{{Ino: ino, Seq: seq, ID: st.NewVersionID(), Mode: syscall.S_IFREG, Nlink: 1}},
			Items:    []store.Item{{Op: store.OpCreate, Ino: ino, Parent: store.RootIno, Name: name}},
		})
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(db, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	do(f, info.Size())
	return dir
}

// everything opens a store, reads and checks it, and returns every error and problem. It must neither panic nor hang.
func everything(t *testing.T, dir string) (errs []error, problems int) {
	t.Helper()
	ctx := context.Background()
	st, err := store.Open(ctx, dir, sqlite.Driver(), store.Options{})
	if err != nil {
		return []error{err}, 0
	}
	note := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	ws, err := st.Workspace(ctx, "w")
	note(err)
	if ws != nil {
		v, err := st.ViewOf(ctx, ws)
		note(err)
		if v != nil {
			note(v.ReadDir(ctx, store.RootIno, func(store.Name, *store.Version) error { return nil }))
			note(st.Changes(ctx, store.ChangeQuery{View: v}, func(*store.ChangeRow) error { return nil }))
		}
	}
	note(st.Check(ctx, func(p store.Problem) {
		problems++
		if p.Text == "" || p.Rule == 0 {
			t.Errorf("an empty problem: %+v", p)
		}
	}))
	note(st.Close())
	return errs, problems
}

func TestDamage(t *testing.T) {
	for name, do := range map[string]func(f *os.File, size int64){
		"cut in the middle": func(f *os.File, size int64) { _ = f.Truncate(size / 2) },
		"cut inside a page": func(f *os.File, size int64) { _ = f.Truncate(size/2 + 1234) },
		"one page left":     func(f *os.File, _ int64) { _ = f.Truncate(4096) },
		"zeros": func(f *os.File, size int64) {
			_, _ = f.WriteAt(make([]byte, size/3), size/3/4096*4096)
		},
		"garbage": func(f *os.File, size int64) {
			for off := int64(8192); off < size; off += 5 * 4096 {
				_, _ = f.WriteAt(bytes.Repeat([]byte{0xa5, byte(off >> 12)}, 600), off+13)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			errs, problems := everything(t, damaged(t, do))
			if len(errs)+problems == 0 {
				t.Fatal("nobody noticed")
			}
			for _, err := range errs {
				if !errors.Is(err, store.ErrCorrupt) || !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), "backup") {
					t.Errorf("%v: want ErrCorrupt, and what to do", err)
				}
			}
			t.Logf("%d problems; %v", problems, errors.Join(errs...))
		})
	}
}
