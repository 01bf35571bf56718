package storetest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"wsfs/store"
)

// backupSwapped puts links and FIFOs in the place of what a backup works with, at a moment of each phase: nothing outside changes, nobody waits,
// and what is not whole under its names is not called done.
func backupSwapped(t *testing.T, drv store.Driver, o store.Options) {
	st := New(t, drv, o)
	Populate(t, st, 27, 20)
	outside := t.TempDir()
	for _, name := range []string{"packs", "next"} {
		if err := os.Mkdir(filepath.Join(outside, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{drv.File, "backup.json", "lock", "packs/00000001.pack", "next/" + drv.File, "next/backup.json"} {
		if err := os.WriteFile(filepath.Join(outside, name), []byte("outside"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	was := listing(t, outside)
	// What is written anew later, or only locked, may be swapped before.
	harmless := map[string]bool{"backup.json": true, "lock": true}
	for _, phase := range []string{"database", "packs", "verify"} {
		for _, name := range []string{".", "packs", "next", "next/" + drv.File, "packs/00000001.pack", "backup.json", "lock"} {
			if name == "packs/00000001.pack" && phase == "database" {
				continue // there is none yet
			}
			for _, fifo := range []bool{false, true} {
				what := fmt.Sprintf("%s swapped in %s, for a FIFO: %v", name, phase, fifo)
				dest := filepath.Join(t.TempDir(), "copy")
				n := 0
				err := inTime(t, what, func() error {
					_, err := st.Backup(t.Context(), dest, store.BackupOptions{Progress: func(p string, _, _ int64) {
						if p != phase {
							return
						}
						if n++; n > 1 {
							return
						}
						path := filepath.Join(dest, name)
						err := os.Rename(path, filepath.Join(filepath.Dir(dest), "was"))
						if err == nil && fifo {
							err = syscall.Mkfifo(path, 0o600)
						} else if err == nil {
							err = os.Symlink(filepath.Join(outside, name), path)
						}
						if err != nil {
							t.Errorf("%s: %v", what, err)
						}
					}})
					return err
				})
				if n == 0 || (err == nil) != harmless[name] {
					t.Errorf("%s, after %d moments of that phase: %v", what, n, err)
				}
				if is := listing(t, outside); is != was {
					t.Fatalf("%s: outside there is now\n%swhere there was\n%s", what, is, was)
				}
			}
		}
	}
}

// inTime fails the test if fn waits for good.
func inTime(t *testing.T, what string, fn func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- fn() }()
	select {
	case err := <-done:
		return err
	case <-time.After(time.Minute):
		t.Fatalf("%s: it waits for good", what)
		return nil
	}
}

// listing is all that is below dir: names, types, permissions, times of change and texts.
func listing(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s %v %v", path, st.Mode(), st.ModTime().UnixNano())
		if st.Mode().IsRegular() {
			text, e := os.ReadFile(path)
			err = errors.Join(err, e)
			fmt.Fprintf(&b, " %q", text)
		}
		b.WriteByte('\n')
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}
