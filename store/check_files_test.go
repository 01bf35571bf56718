package store_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"wsfs/store"
	"wsfs/store/sqlite"
	"wsfs/store/storetest"
)

// Each rule about the files of a store has something that breaks it.
func TestCheckFiles(t *testing.T) {
	st := storetest.New(t, sqlite.Driver(), store.Options{})
	storetest.Populate(t, st, 35, 40)
	dest := filepath.Join(t.TempDir(), "copy")
	if _, err := st.Backup(t.Context(), dest, store.BackupOptions{}); err != nil {
		t.Fatal(err)
	}
	pack := filepath.Join(dest, "packs", "00000001.pack")
	data, err := os.ReadFile(pack)
	if err != nil {
		t.Fatal(err)
	}
	manifest := filepath.Join(dest, "backup.json")
	text, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	check := func() (rules []int) {
		t.Helper()
		ro, err := store.Open(t.Context(), dest, sqlite.Driver(), store.Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		defer ro.Close()
		if err := ro.CheckFiles(t.Context(), func(p store.Problem) { rules = append(rules, p.Rule) }); err != nil {
			t.Fatal(err)
		}
		return rules
	}
	if rules := check(); len(rules) > 0 {
		t.Fatalf("a good backup breaks %v", rules)
	}
	tested := map[int]bool{}
	for _, b := range []struct {
		rule        int
		name        string
		spoil, mend func() error
	}{
		{60, "open directory", func() error { return os.Chmod(dest, 0o750) }, func() error { return os.Chmod(dest, 0o700) }},
		{60, "writable pack", func() error { return os.Chmod(pack, 0o620) }, func() error { return os.Chmod(pack, 0o600) }},
		{61, "no header", func() error { return os.WriteFile(pack, append(make([]byte, 16), data[16:]...), 0o600) }, func() error { return os.WriteFile(pack, data, 0o600) }},
		{61, "no name", func() error { return os.WriteFile(pack[:len(pack)-6]+"x.pack", data, 0o600) }, func() error { return os.Remove(pack[:len(pack)-6] + "x.pack") }},
		{62, "short pack", func() error { return os.Truncate(pack, int64(len(data)/2)) }, func() error { return os.WriteFile(pack, data, 0o600) }},
		{62, "no pack", func() error { return os.Remove(pack) }, func() error { return os.WriteFile(pack, data, 0o600) }},
		{62, "another database", func() error {
			return os.WriteFile(manifest, bytes.Replace(text, []byte(`"blake3": "`), []byte(`"blake3": "0`), 1), 0o600)
		}, func() error { return os.WriteFile(manifest, text, 0o600) }},
		{62, "no manifest", func() error { return os.WriteFile(manifest, []byte("{"), 0o600) }, func() error { return os.WriteFile(manifest, text, 0o600) }},
	} {
		tested[b.rule] = true
		if err := b.spoil(); err != nil {
			t.Fatal(err)
		}
		if rules := check(); !slices.Contains(rules, b.rule) {
			t.Errorf("%s: rules %v, want %d", b.name, rules, b.rule)
		}
		if err := b.mend(); err != nil {
			t.Fatal(err)
		}
	}
	if rules := check(); len(rules) > 0 {
		t.Errorf("mended it breaks %v", rules)
	}
	for _, rule := range store.FileRules() {
		if !tested[rule] {
			t.Errorf("no test breaks rule %d", rule)
		}
	}
}
