package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"wsfs/blob"
)

// Damage in the middle is an error that names the place, and loses nothing.
func TestDamageInTheMiddle(t *testing.T) {
	dir := t.TempDir()
	files := leave(t, dir, 300, 1000)
	offs, _, data := recordsOf(t, files[1])
	patch(t, files[1], offs[3]+100, data[offs[3]+100]^1)
	db := newFakeDB()
	_, err := tryPipe(t, dir, db, quick())
	if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), files[1]) || !strings.Contains(err.Error(), fmt.Sprint("offset ", offs[3])) {
		t.Fatalf("got %v", err)
	}
	if got := segments(t, dir); len(got) != len(files) {
		t.Fatalf("segments before %v, after %v", files, got)
	}
	// Mended, everything is there.
	patch(t, files[1], offs[3]+100, data[offs[3]+100])
	p := startPipe(t, dir, db, quick())
	wantSeqs(t, db, 300)
	p.stopClean()
}

// What the database has already may be damaged.
func TestDamageBelowApplied(t *testing.T) {
	dir := t.TempDir()
	files := leave(t, dir, 300, 1000)
	offs, _, data := recordsOf(t, files[0])
	patch(t, files[0], offs[3]+30, data[offs[3]+30]^1)
	db := newFakeDB()
	for i := range 10 {
		db.ops = append(db.ops, numbered(int64(i+1), 0))
	}
	db.applied[1] = 10
	p := startPipe(t, dir, db, quick())
	wantSeqs(t, db, 300)
	if !strings.Contains(p.log.String(), "going on behind it") {
		t.Fatalf("log: %s", p.log)
	}
	p.stopClean()
}

// After a power cut the disk may have a later page and not an earlier one. What was never synced ends there, and what
// was readable behind it is kept aside.
func TestHoleAfterPowerCut(t *testing.T) {
	dir := t.TempDir()
	files := leave(t, dir, 300, 1000)
	elsewhere(t, files...)
	offs, recs, _ := recordsOf(t, files[1])
	patch(t, files[1], offs[3], make([]byte, recs[3].end-offs[3])...)
	db := newFakeDB()
	p := startPipe(t, dir, db, quick())
	wantSeqs(t, db, int(recs[2].position))
	if !strings.Contains(p.log.String(), "power cut") || !strings.Contains(p.log.String(), files[1]) {
		t.Fatalf("log: %s", p.log)
	}
	kept, _ := filepath.Glob(filepath.Join(dir, "*"+cutSuffix))
	if len(kept) != len(files)-1 {
		t.Fatalf("kept %v of %v", kept, files)
	}
	for _, k := range kept {
		if err := os.Remove(k); err != nil {
			t.Fatal(err)
		}
	}
	p.stopClean()
}

// What a sync had acknowledged may not be missing, power cut or not.
func TestDamageOfSynced(t *testing.T) {
	dir := t.TempDir()
	p := startPipe(t, dir, newFakeDB(), never())
	for i := range 10 {
		p.mustPut(int64(i+1), 100)
	}
	if err := p.sync(10); err != nil {
		t.Fatal(err)
	}
	p.mustWait(p.mustPut(11, 100)) // its record says that 10 are durable
	p.abandon()
	files := segments(t, dir)
	elsewhere(t, files...)
	offs, recs, _ := recordsOf(t, files[0])
	patch(t, files[0], offs[4], make([]byte, recs[4].end-offs[4])...)
	if _, err := tryPipe(t, dir, newFakeDB(), quick()); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("got %v", err)
	}
}

// Content in a pack may be lost by a power cut although the record that names it is not.
func TestContentLostByPowerCut(t *testing.T) {
	for _, synced := range []bool{false, true} {
		dir := t.TempDir()
		p := startPipe(t, dir, newFakeDB(), never())
		for i := range 10 {
			op := numbered(int64(i+1), 10)
			op.Contents[0].Packed = []blob.Location{{Pack: uint32(i + 1)}}
			slot, err := p.append(op)
			if err != nil {
				t.Fatal(err)
			}
			if p.mustWait(slot); synced && i == 7 {
				if err := p.sync(slot); err != nil {
					t.Fatal(err)
				}
			}
		}
		p.abandon()
		elsewhere(t, segments(t, dir)...)
		db := newFakeDB()
		o := quick()
		cs := &fakeContents{verify: func(loc blob.Location) error {
			if loc.Pack == 5 {
				return blob.ErrCorrupt
			}
			return nil
		}}
		o.fill()
		if _, _, err := replay(context.Background(), dir, db, cs, &o); err != nil {
			t.Fatal(err)
		}
		kept, _ := filepath.Glob(filepath.Join(dir, "*"+cutSuffix))
		if want := map[bool]int{false: 4, true: 10}[synced]; len(db.ops) != want || (len(kept) == 1) != !synced {
			t.Fatalf("synced %v: %d ops applied, want %d; kept %v", synced, len(db.ops), want, kept)
		}
	}
}

func TestDamagedHeader(t *testing.T) {
	t.Run("newer", func(t *testing.T) {
		dir := t.TempDir()
		file := leave(t, dir, 3, 10)[0]
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		b[8]++
		clear(b[12:16])
		binary.LittleEndian.PutUint32(b[12:], crcOf(b[:segHeader]))
		write(t, dir, 1, b)
		if _, err := tryPipe(t, dir, newFakeDB(), quick()); err == nil || !strings.Contains(err.Error(), "format 2") {
			t.Fatalf("got %v", err)
		}
	})
	t.Run("zero, records readable", func(t *testing.T) {
		dir := t.TempDir()
		files := leave(t, dir, 300, 1000)
		patch(t, files[1], 0, make([]byte, segHeader)...)
		db := newFakeDB()
		p := startPipe(t, dir, db, quick())
		wantSeqs(t, db, 300)
		p.stopClean()
	})
	t.Run("first one zero", func(t *testing.T) {
		dir := t.TempDir()
		file := leave(t, dir, 3, 10)[0]
		patch(t, file, 0, make([]byte, segHeader)...)
		db := newFakeDB()
		p := startPipe(t, dir, db, quick())
		wantSeqs(t, db, 0)
		if _, err := os.Stat(file + cutSuffix); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(file + cutSuffix); err != nil {
			t.Fatal(err)
		}
		p.stopClean()
	})
}

func TestMissingSegment(t *testing.T) {
	for i := range 3 {
		dir := t.TempDir()
		files := leave(t, dir, 300, 1000)
		if err := os.Remove(files[i]); err != nil {
			t.Fatal(err)
		}
		if _, err := tryPipe(t, dir, newFakeDB(), quick()); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("without segment %d: %v", i, err)
		}
	}
}
