package store

import (
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTornHeader(t *testing.T) {
	junk := []byte{1, 2, 3, 4, 5}
	// spoil leaves nothing of a segment but what head says.
	spoil := func(t *testing.T, path string, head []byte) {
		if err := os.WriteFile(path, head, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name string
		down bool                                   // the machine went down in between
		do   func(t *testing.T, files []string)     // to a journal of 300 changes, none of them synced
		want func(t *testing.T, files []string) int // how many are there; -1: it refuses
		says string
		kept int // put aside; -1: all
	}{
		{name: "one byte wrong", do: func(t *testing.T, f []string) { patch(t, f[1], 35, 0xee) }, says: "its checksum says what it was"},
		{name: "many bytes wrong, records whole", do: func(t *testing.T, f []string) { patch(t, f[1], 20, junk...) }, says: "going on behind it"},
		{name: "many bytes wrong in the first", do: func(t *testing.T, f []string) { patch(t, f[0], 20, junk...) }, says: "going on behind it"},
		{name: "many bytes wrong in the last, after a power cut", down: true, do: func(t *testing.T, f []string) { patch(t, f[len(f)-1], 20, junk...) }, says: "going on behind it"},
		{name: "the last one lost", do: func(t *testing.T, f []string) { spoil(t, f[len(f)-1], junk) }, want: func(*testing.T, []string) int { return -1 }},
		{name: "the last one torn by a power cut", down: true, kept: 1,
			do: func(t *testing.T, f []string) { spoil(t, f[len(f)-1], []byte("w")) }, says: "nothing in it was ever synced",
			want: func(t *testing.T, f []string) int {
				_, recs, _ := recordsOf(t, f[len(f)-2])
				return int(recs[len(recs)-1].position)
			}},
		{name: "one in the middle torn by a power cut", down: true, kept: -1,
			do: func(t *testing.T, f []string) { spoil(t, f[1], []byte("wsfs-w")) }, says: "never synced",
			want: func(t *testing.T, f []string) int {
				_, recs, _ := recordsOf(t, f[0])
				return int(recs[len(recs)-1].position)
			}},
		{name: "one in the middle lost", do: func(t *testing.T, f []string) { spoil(t, f[1], []byte("wsfs-w")) }, want: func(*testing.T, []string) int { return -1 }},
		{name: "the first one torn by a power cut", down: true, kept: -1,
			do: func(t *testing.T, f []string) { spoil(t, f[0], []byte("wsfs-w")) }, says: "never synced",
			want: func(*testing.T, []string) int { return 0 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			files := leave(t, dir, 300, 1000)
			if len(files) < 4 {
				t.Fatalf("only %d segments", len(files))
			}
			if c.down {
				elsewhere(t, files...)
			}
			want := 300
			if c.want != nil {
				want = c.want(t, files)
			}
			c.do(t, files)
			db := newFakeDB()
			p, err := tryPipe(t, dir, db, quick())
			if want < 0 {
				if !errors.Is(err, ErrCorrupt) {
					t.Fatalf("got %v", err)
				}
				if left := segments(t, dir); len(left) != len(files) {
					t.Fatalf("it refuses, and %d of %d segments are left", len(left), len(files))
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer p.abandon()
			wantSeqs(t, db, want)
			if !strings.Contains(p.log.String(), c.says) {
				t.Errorf("log: %s", p.log)
			}
			kept, _ := filepath.Glob(filepath.Join(dir, "*"+cutSuffix))
			if c.kept < 0 {
				c.kept += len(files) + 1
			}
			if len(kept) != c.kept {
				t.Errorf("%d are kept aside, want %d", len(kept), c.kept)
			}
		})
	}
}

// Nothing but the records of the only segment can say whether some of them were synced.
func TestTornHeaderAlone(t *testing.T) {
	for _, synced := range []bool{false, true} {
		dir := t.TempDir()
		p := startPipe(t, dir, newFakeDB(), never())
		for i := range 10 {
			p.mustWait(p.mustPut(int64(i+1), 100))
			if synced && i == 5 {
				if err := p.sync(6); err != nil {
					t.Fatal(err)
				}
			}
		}
		p.abandon()
		file := segments(t, dir)[0]
		patch(t, file, 16, []byte("this is not a header")...)
		db := newFakeDB()
		p, err := tryPipe(t, dir, db, quick())
		if synced {
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "position 1 to 6") {
				t.Fatalf("changes up to 6 were synced: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		wantSeqs(t, db, 0)
		if _, err := os.Stat(file + cutSuffix); err != nil || !strings.Contains(p.log.String(), "no beginning") {
			t.Fatalf("%v, log: %s", err, p.log)
		}
		p.abandon()
	}
}

func TestChecksumBackwards(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		b := make([]byte, r.IntN(40))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		seed := r.Uint32()
		if got := crcBack(crc32.Update(seed, castagnoli, b), b); got != seed {
			t.Fatalf("got %x, want %x", got, seed)
		}
	}
}
