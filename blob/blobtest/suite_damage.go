package blobtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"wsfs/blob"
)

// flip changes one stored byte.
func (e *env) flip(l blob.Location, at int64) {
	e.Helper()
	path := e.pack(l)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		e.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // WriteAt was checked
	var b [1]byte
	if _, err := f.ReadAt(b[:], l.Offset+at); err != nil {
		e.Fatal(err)
	}
	b[0] ^= 0x20
	if _, err := f.WriteAt(b[:], l.Offset+at); err != nil {
		e.Fatal(err)
	}
}

// pack returns the file a blob is in.
func (e *env) pack(l blob.Location) string {
	for _, p := range e.packPaths() {
		if strings.TrimLeft(strings.TrimSuffix(filepath.Base(p), ".pack"), "0") == itoa(l.Pack) {
			return p
		}
	}
	e.Fatalf("no file of pack %d", l.Pack)
	return ""
}

func itoa(n uint32) string {
	var b []byte
	for ; n > 0; n /= 10 {
		b = append([]byte{byte('0' + n%10)}, b...)
	}
	return string(b)
}

// damage fails unless err is what reading a damaged blob must give.
func (e *env) damage(what string, err error, ref blob.Ref) {
	e.Helper()
	var bad *blob.CorruptError
	if !errors.Is(err, blob.ErrCorrupt) || !errors.Is(err, syscall.EIO) || !errors.As(err, &bad) || bad.Ref != ref {
		e.Errorf("%s: %v", what, err)
	}
}

// flippedByte: one byte wrong on the disk takes one blob, and is never read as something else.
func flippedByte(e *env) {
	big := prose(1, 700<<10)
	c := e.stored(big)
	smalls := map[blob.Ref]blob.Content{}
	for i := range 8 {
		st := e.s.StageSmall(prose(byte(i+2), 3000))
		e.apply(st)
		smalls[st.Content.Ref] = st.Content
	}
	for _, l := range e.x.All() {
		if l.Pack == 0 {
			continue
		}
		for _, at := range []int64{0, l.Length / 2, l.Length - 1} {
			e.flip(l, at)
			e.reopen()
			if err := e.s.Verify(e.ctx, l); err == nil {
				e.Fatalf("byte %d of %d of %v (%v) is wrong and Verify is content", at, l.Length, l.Ref, l.Encoding)
			} else {
				e.damage("Verify", err, l.Ref)
			}
			for ref, c := range smalls {
				_, err := e.s.ReadAt(e.ctx, c, make([]byte, 10), 0)
				if ref == l.Ref {
					e.damage("ReadAt of the damaged one", err, ref)
				} else if err != nil {
					e.Errorf("ReadAt of another one: %v", err)
				}
			}
			if _, ok := smalls[l.Ref]; ok {
				e.want(c, big)
			} else {
				e.damaged(c, big, l)
			}
			e.flip(l, at)
		}
	}
	e.reopen()
	e.want(c, big)
}

// damaged reads a tree with one blob damaged: all that does not need it is right.
func (e *env) damaged(c blob.Content, data []byte, l blob.Location) {
	e.Helper()
	bad := 0
	p := make([]byte, 10)
	for off := 0; off < len(data)-10; off += 10_000 {
		n, err := e.s.ReadAt(e.ctx, c, p, int64(off))
		switch {
		case err != nil:
			e.damage("ReadAt", err, l.Ref)
			bad++
		case n != 10 || !bytes.Equal(p, data[off:off+10]):
			e.Fatalf("wrong bytes at %d", off)
		}
	}
	if isNode := l.Size < 16<<10; bad == 0 || !isNode && bad > int(l.Size)/10_000+2 {
		e.Errorf("a damaged blob of %d bytes made %d of %d reads fail", l.Size, bad, len(data)/10_000)
	}
	whole := make([]byte, len(data))
	_, err := e.s.ReadAt(e.ctx, c, whole, 0)
	e.damage("ReadAt of all", err, l.Ref)
}

// tornTail: a crash leaves anything at the end of the last pack; what comes after is right all the same.
func tornTail(e *env) {
	a := e.stored(noise(1, 100<<10))
	for i, tail := range [][]byte{noise(9, 1000), make([]byte, 5000), []byte("wsbl")} {
		paths := e.packPaths()
		if err := e.s.Close(); err != nil {
			e.Fatal(err)
		}
		f, err := os.OpenFile(paths[len(paths)-1], os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			e.Fatal(err)
		}
		if _, err := f.Write(tail); err != nil {
			e.Fatal(err)
		}
		if err := f.Close(); err != nil {
			e.Fatal(err)
		}
		e.s = e.open(e.T, e.dir, e.x)
		b := e.stored(noise(byte(20+i), 100<<10))
		e.reopen()
		e.want(a, noise(1, 100<<10))
		e.want(b, noise(byte(20+i), 100<<10))
	}
	// A pack that was made but got no header: a new one is begun.
	empty := filepath.Join(e.dir, "packs", "00000077.pack")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		e.Fatal(err)
	}
	e.reopen()
	c := e.stored(noise(50, 100<<10))
	e.reopen()
	e.want(a, noise(1, 100<<10))
	e.want(c, noise(50, 100<<10))
	if st, err := os.Stat(empty); err != nil || st.Size() != 0 {
		e.Errorf("the pack without header has %d bytes, %v", st.Size(), err)
	}
}

// packGone: a missing pack is damage, not a missing file.
func packGone(e *env) {
	c := e.stored(noise(1, 5000))
	l := e.x.All()[0]
	if err := os.Rename(e.pack(l), e.pack(l)+".away"); err != nil {
		e.Fatal(err)
	}
	e.reopen()
	_, err := e.s.ReadAt(e.ctx, c, make([]byte, 1), 0)
	e.damage("ReadAt", err, l.Ref)
	if errors.Is(err, os.ErrNotExist) {
		e.Errorf("to a reader the file would not exist: %v", err)
	}
	l.Offset += 1 << 30
	e.damage("Verify", e.s.Verify(e.ctx, l), l.Ref)
}

// movingIndex answers the first time with where a blob was, then with where it is.
type movingIndex struct {
	blob.Index
	was  blob.Location
	left int
}

func (m *movingIndex) Locate(ctx context.Context, ref blob.Ref) (blob.Location, error) {
	if ref == m.was.Ref && m.left > 0 {
		m.left--
		return m.was, nil
	}
	return m.Index.Locate(ctx, ref)
}

// moved: a blob that was moved between the look-up and the read is looked up once more.
func moved(e *env) {
	c := e.stored(noise(1, 5000))
	was := e.x.All()[0]
	was.Pack += 1000
	s := e.open(e.T, e.TempDir(), &movingIndex{e.x, was, 1})
	if err := s.Close(); err != nil {
		e.Fatal(err)
	}
	if err := e.s.Close(); err != nil {
		e.Fatal(err)
	}
	e.s = e.open(e.T, e.dir, &movingIndex{e.x, was, 1})
	e.want(c, noise(1, 5000))
	if err := e.s.Close(); err != nil {
		e.Fatal(err)
	}
	e.s = e.open(e.T, e.dir, &movingIndex{e.x, was, 2})
	_, err := e.s.ReadAt(e.ctx, c, make([]byte, 1), 0)
	e.damage("moved twice", err, c.Ref)
}

func verify(e *env) {
	e.stored(prose(1, 300<<10))
	e.apply(e.s.StageSmall([]byte("inline")), e.s.StageSmall(noise(2, 2000)))
	for _, l := range e.x.All() {
		if err := e.s.Verify(e.ctx, l); err != nil {
			e.Errorf("nothing is wrong: %v", err)
		}
		for what, change := range map[string]func(*blob.Location){
			"ref":      func(l *blob.Location) { l.Ref[5]++ },
			"size":     func(l *blob.Location) { l.Size++ },
			"no size":  func(l *blob.Location) { l.Size = 0 },
			"huge":     func(l *blob.Location) { l.Size = 1 << 50 },
			"encoding": func(l *blob.Location) { l.Encoding += 77 },
			"length":   func(l *blob.Location) { l.Length--; l.Data = l.Data[:max(0, len(l.Data)-1)] },
			"negative": func(l *blob.Location) { l.Length = -1; l.Data = nil },
			"offset":   func(l *blob.Location) { l.Offset = 3; l.Data = nil },
			"pack":     func(l *blob.Location) { l.Pack += 100 },
		} {
			bad := l
			change(&bad)
			if err := e.s.Verify(e.ctx, bad); !errors.Is(err, blob.ErrCorrupt) {
				e.Errorf("wrong %s of %v in pack %d: %v", what, l.Encoding, l.Pack, err)
			}
		}
	}
}

// ReadOnly checks a store that open opens for reading only, over the directory of another.
func ReadOnly(t *testing.T, s *blob.Store, c blob.Content, want []byte) {
	t.Helper()
	ctx := context.Background()
	got := make([]byte, c.Size)
	if n, err := s.ReadAt(ctx, c, got, 0); n != len(got) || err != nil && err != io.EOF || !bytes.Equal(got, want) {
		t.Errorf("ReadAt: %d, %v", n, err)
	}
	if _, err := s.PutPacked([]byte("x")); !errors.Is(err, blob.ErrReadOnly) || !errors.Is(err, syscall.EROFS) {
		t.Errorf("PutPacked: %v", err)
	}
	if _, err := s.PutReader(ctx, bytes.NewReader(want)); !errors.Is(err, blob.ErrReadOnly) {
		t.Errorf("PutReader: %v", err)
	}
	if _, _, err := s.Edit(ctx, c, c.Size+1, nil, nil); !errors.Is(err, blob.ErrReadOnly) {
		t.Errorf("Edit: %v", err)
	}
	if _, err := s.Settle(ctx, []blob.Staged{s.StageSmall([]byte("y"))}); !errors.Is(err, blob.ErrReadOnly) {
		t.Errorf("Settle: %v", err)
	}
	if err := s.Sync(); err != nil {
		t.Errorf("Sync: %v", err)
	}
}
