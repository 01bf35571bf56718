package blob

import (
	"bytes"
	"context"
	"encoding/binary"
	"testing"
)

func FuzzNode(f *testing.F) {
	f.Add([]byte(appendNode(nil, 1, []child{{Ref{1}, 70000}, {Ref{}, 131072}, {Ref{2}, 140000}})), 1, int64(140000))
	f.Add([]byte(appendNode(nil, 2, []child{{Ref{1}, windowSize}, {Ref{}, 5 * windowSize}, {Ref{2}, 5*windowSize + 1}})), 2, int64(5*windowSize+1))
	f.Add([]byte(appendNode(nil, 7, []child{{Ref{}, 1<<63 - 1}})), 7, int64(1<<63-1))
	f.Fuzz(func(t *testing.T, b []byte, level int, size int64) {
		if level < 1 || level > maxLevel || size < 1 {
			return
		}
		n, err := parseNode(b, level, size)
		if err != nil {
			return
		}
		var list []child
		for i := range n.count() {
			if j := n.find(n.start(i)); j != i {
				t.Errorf("byte %d is found in child %d, it is in %d", n.start(i), j, i)
			}
			if j := n.find(n.end(i) - 1); j != i {
				t.Errorf("byte %d is found in child %d, it is in %d", n.end(i)-1, j, i)
			}
			list = append(list, child{n.ref(i), n.end(i)})
		}
		if again := appendNode(nil, level, list); !bytes.Equal(again, b) {
			t.Errorf("encoded again %x, it was %x", again, b)
		}
	})
}

func FuzzRecord(f *testing.F) {
	for _, data := range [][]byte{[]byte("x"), bytes.Repeat([]byte("abc"), 100)} {
		b := append(appendRecordHeader(nil), data...)
		finishRecord(b, 0, Sum(data), Raw, len(data))
		f.Add(b)
	}
	f.Add(appendPackHeader(nil, 7))
	f.Fuzz(func(t *testing.T, b []byte) {
		_ = checkPackHeader(b, 7)
		r, err := parseRecord(b)
		if err != nil {
			return
		}
		if r.size > maxStored || r.stored > r.size {
			t.Errorf("a record of %d bytes, %d stored", r.size, r.stored)
		}
		if int64(len(b)) != recordHeader+r.stored || r.check(b, b[recordHeader:]) != nil {
			return
		}
		again := append(appendRecordHeader(nil), b[recordHeader:]...)
		finishRecord(again, 0, r.ref, r.encoding, int(r.size))
		if !bytes.Equal(again, b) {
			t.Errorf("encoded again %x, it was %x", again, b)
		}
	})
}

// FuzzDecode gives any bytes to the decompressors: no panic, no more memory than asked for, and never a byte behind.
func FuzzDecode(f *testing.F) {
	c, err := newCodec()
	if err != nil {
		f.Fatal(err)
	}
	defer c.close()
	for _, how := range []Encoding{Zstd, S2} {
		data := bytes.Repeat([]byte("some text that compresses "), 50)
		b, e := c.appendEncoded(nil, data, how)
		f.Add(b, byte(e), len(data))
	}
	f.Fuzz(func(t *testing.T, b []byte, e byte, size int) {
		if size < 0 || size > maxStored {
			return
		}
		buf := bytes.Repeat([]byte{0xA5}, size+64)
		_ = c.decode(buf[:size], b, Encoding(e))
		for i, x := range buf[size:] {
			if x != 0xA5 {
				t.Fatalf("decoding %d bytes wrote byte %d", size, size+i)
			}
		}
	})
}

// FuzzEncode: what was encoded decodes to itself.
func FuzzEncode(f *testing.F) {
	c, err := newCodec()
	if err != nil {
		f.Fatal(err)
	}
	defer c.close()
	f.Add([]byte("abc"), uint16(1))
	f.Add(bytes.Repeat([]byte{0}, 100), uint16(1000))
	f.Fuzz(func(t *testing.T, unit []byte, times uint16) {
		data := bytes.Repeat(unit, int(times)%512+1)
		if len(data) == 0 || len(data) > maxStored {
			return
		}
		for _, how := range []Encoding{Zstd, S2} {
			b, e := c.appendEncoded([]byte("before"), data, how)
			if string(b[:6]) != "before" || len(b)-6 > len(data) {
				t.Fatalf("%v: %d bytes became %d", how, len(data), len(b)-6)
			}
			got := make([]byte, len(data))
			if err := c.decode(got, b[6:], e); err != nil || !bytes.Equal(got, data) {
				t.Fatalf("%v: %v", how, err)
			}
		}
	})
}

// expand makes megabytes out of a few fuzzed bytes: each three say how much of what comes next.
func expand(prog []byte, limit int) (out []byte) {
	for len(prog) >= 3 && len(out) < limit {
		n := int(binary.LittleEndian.Uint16(prog[1:])) * 5
		switch prog[0] % 4 {
		case 0:
			out = append(out, make([]byte, n)...)
		case 1:
			out = append(out, unlike(prog[0], n)...)
		case 2:
			out = append(out, bytes.Repeat([]byte{prog[0]}, n)...)
		case 3:
			out = append(out, bytes.Repeat(unlike(prog[0], 1+n%9000), 1+n/9000)...)
		}
		prog = prog[3:]
	}
	return out[:min(len(out), limit)]
}

// FuzzCut: chunks have sane sizes, and the cut does not depend on what comes after it.
func FuzzCut(f *testing.F) {
	f.Add([]byte{1, 255, 255, 2, 255, 255, 0, 255, 255, 3, 255, 255}, uint16(3))
	f.Fuzz(func(t *testing.T, prog []byte, where uint16) {
		data := expand(prog, 1<<20)
		start := int64(where) * 977
		for off := 0; off < len(data); {
			n, found := cut(data[off:], start+int64(off))
			rest := len(data) - off
			if n < 1 || n > maxChunk || n > rest || found && n < minChunk || !found && n != rest {
				t.Fatalf("chunk of %d bytes (%v) where %d are left", n, found, rest)
			}
			if m, ok := cut(data[off:off+n], start+int64(off)); found && (m != n || !ok) {
				t.Fatalf("chunk of %d bytes (%v) seen alone is %d (%v)", n, found, m, ok)
			}
			off += n
		}
	})
}

// FuzzEdit: an edit gives the content and the Ref that making it at once gives.
func FuzzEdit(f *testing.F) {
	f.Add([]byte{1, 255, 255, 0, 255, 255, 2, 255, 255, 0, 255, 255}, []byte{1, 9, 9}, uint32(70000), uint32(600000))
	f.Add([]byte{0, 255, 255, 1, 255, 255}, []byte{0, 255, 255}, uint32(327680), uint32(1))
	f.Fuzz(func(t *testing.T, prog, patch []byte, off, size uint32) {
		ctx := context.Background()
		s, err := Open(t.TempDir(), memIndex{}, Options{Workers: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close() //nolint:errcheck // nothing was written that matters
		base := expand(prog, 5<<20)
		piece := expand(patch, 1<<20)
		next := make([]byte, size%(5<<20))
		copy(next, base)
		x := Extent{Off: int64(off % (5 << 20))}
		if x.Off < int64(len(next)) {
			x.Len = int64(copy(next[x.Off:], piece))
		}
		at := func(data []byte, x Extent) Content {
			t.Helper()
			st, _, err := s.Edit(ctx, Content{}, int64(len(data)), []Extent{{0, int64(len(data))}}, bytes.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			return st.Content
		}
		st, _, err := s.Edit(ctx, at(base, x), int64(len(next)), []Extent{x}, bytes.NewReader(next))
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(next))
		if n, _ := s.ReadAt(ctx, st.Content, got, 0); n != len(next) || !bytes.Equal(got, next) {
			t.Fatalf("read %d of %d bytes, or other ones", n, len(next))
		}
		if want := at(next, x); want != st.Content {
			t.Fatalf("edited %v, at once %v", st.Content, want)
		}
	})
}
