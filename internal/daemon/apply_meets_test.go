package daemon

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"wsfs/fs"
	"wsfs/store"
)

// What somebody writes, makes or removes in the directory while an apply has everything staged is not replaced: nothing is changed, and it is said.
func TestApplyMeetsAWriter(t *testing.T) {
	for name, somebody := range map[string]func(dir string) error{
		"writes": func(dir string) error { return os.WriteFile(dir+"/changed", []byte("theirs\n"), 0o644) },
		"saves by rename": func(dir string) error {
			return errors.Join(os.WriteFile(dir+"/t", []byte("same"), 0o644), os.Rename(dir+"/t", dir+"/changed"))
		},
		"makes":                        func(dir string) error { return os.WriteFile(dir+"/new", []byte("theirs\n"), 0o644) },
		"removes":                      func(dir string) error { return os.Remove(dir + "/changed") },
		"writes what is to be removed": func(dir string) error { return os.WriteFile(dir+"/gone", []byte("theirs\n"), 0o644) },
		"nothing":                      nil,
	} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			dir := t.TempDir()
			for _, f := range []string{"changed", "gone"} {
				if err := os.WriteFile(filepath.Join(dir, f), []byte("was\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			c := local(t, newStore(t))
			if _, err := c.Import(ctx, ImportRequest{Workspace: "main", Dir: Path(dir)}, func(ImportLine) {}); err != nil {
				t.Fatal(err)
			}
			_, f, release, err := c.local.acquire(ctx, "main")
			if err != nil {
				t.Fatal(err)
			}
			p := &dirPen{t, f, &fs.Call{}}
			p.write(store.RootIno, "changed", "ours\n")
			p.write(store.RootIno, "new", "ours\n")
			p.must(f.Unlink(p.c, store.RootIno, "gone"))
			release()
			staged := 0
			c.local.o.crashPoint = func(point string) {
				if point == "staged" && somebody != nil {
					if staged++; staged == 1 {
						p.must(somebody(dir))
					}
				}
			}
			look := func() string {
				var all []string
				for _, name := range []string{"changed", "gone", "new"} {
					b, err := os.ReadFile(filepath.Join(dir, name))
					if err != nil && !errors.Is(err, os.ErrNotExist) {
						t.Fatal(err)
					}
					all = append(all, string(b))
				}
				return strings.Join(all, "|")
			}
			_, err = c.Apply(ctx, ApplyRequest{Workspace: "main", Dir: Path(dir)})
			if somebody == nil {
				if err != nil || look() != "ours\n||ours\n" {
					t.Fatal(look(), err)
				}
				return
			}
			if staged == 0 || !errors.Is(err, syscall.EAGAIN) || !strings.Contains(err.Error(), "nothing was changed") {
				t.Fatalf("apply beside somebody: %v", err)
			}
			if got := look(); !strings.Contains(got, "theirs") && !strings.Contains(got, "same") && name != "removes" || strings.Contains(got, "ours") {
				t.Errorf("the directory has %q", got)
			}
		})
	}
}
