package blob

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"testing"
)

// TestGoldenRefs pins the format: were one of these Refs another one, content stored before would not be found again.
func TestGoldenRefs(t *testing.T) {
	s, err := Open(t.TempDir(), memIndex{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // nothing was written that matters
	island := make([]byte, 9<<20)
	copy(island[5<<20:], unlike(5, 200<<10))
	for _, c := range []struct {
		name string
		data []byte
		ref  string
	}{
		{"empty", nil, "0000000000000000000000000000000000000000000000000000000000000000"},
		{"abc", []byte("abc"), "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85"}, // BLAKE3's own
		{"largest blob", unlike(1, MaxBlob), "3fe54d24561fd4814b14221ad39f5e5ca7d0382c66f946f8ac0f97ca4e7084f3"},
		{"smallest tree", unlike(1, MaxBlob+1), "0bac6f11796bbb09d1081d5789d6d06b4e7ed79fd1c701a3cbb6c63ee8000547"},
		{"one window", unlike(2, 4<<20), "6a501941c39e2294e86bce06ce6b9e13435b63f1c2d022c82c015d7bcd06bc62"},
		{"two windows", unlike(3, 4<<20+1), "78325086fdc26b9f88cd213157bf4b1d4fd5017ea17bf748b2a85d9eda712827"},
		{"constant", bytes.Repeat([]byte("A"), 1<<20), "4d518aa71cdacff76e19c2ed67ee0731cef43b2bbb941ed7f80dbbd8762b34c1"},
		{"zeros", make([]byte, 1<<20), "093d9d7157338d184b0e79951f9788f457bf3f540e0e549e41d3b9c8e88abd25"},
		{"island", island, "9b1bea6d4a6c7870695edd1c2cb0c5a84c6fea069d298c251e500e5b0b47134b"},
	} {
		st, _, err := s.Edit(context.Background(), Content{}, int64(len(c.data)), []Extent{{0, int64(len(c.data))}}, bytes.NewReader(c.data))
		if err != nil {
			t.Fatal(err)
		}
		if got := st.Content.Ref.String(); got != c.ref {
			t.Errorf("{%q, %s}", c.name, got)
		}
	}
	st, _, err := s.Edit(context.Background(), Content{}, 1<<62, []Extent{{1 << 50, 4}}, readerAt(func(p []byte, _ int64) (int, error) { return copy(p, "data"), nil }))
	if err != nil {
		t.Fatal(err)
	}
	if got := st.Content.Ref.String(); got != "69673cfa4f398658e7bedd1ea546d1d43e037be838bde84f140c3f7efd951e7d" {
		t.Errorf("sparse %s", got)
	}
}

// TestGoldenChunks pins where random-looking bytes are cut.
func TestGoldenChunks(t *testing.T) {
	data := unlike(7, 2<<20)
	var ends []int
	for off := 0; off < len(data); {
		n, _ := cut(data[off:], int64(off))
		off += n
		ends = append(ends, off)
	}
	if got := fmt.Sprint(ends); got != "[18139 94394 217858 300815 390172 420049 513287 607055 686162 706339 774285 847716 921476 968933 1044198 1109784 1186889 1285294 1329410 1418496 1492837 1565658 1639562 1749740 1815375 1875309 1953422 2022817 2093446 2097152]" {
		t.Error(got)
	}
	if got := fmt.Sprintf("%016x %016x %016x", gear[0], gear[1], gear[255]); got != "a51f07f38b93c0d2 d86b1bf15d40db61 4f37aa17ab16c050" {
		t.Error(got)
	}
}

// TestGoldenBytes pins the encodings byte by byte.
func TestGoldenBytes(t *testing.T) {
	node := appendNode(nil, 2, []child{{Sum([]byte("a")), windowSize}, {Ref{}, 3 * windowSize}})
	record := append(appendRecordHeader(nil), "stored"...)
	finishRecord(record, 0, Sum([]byte("a")), Zstd, 1000)
	for _, c := range []struct {
		name, got, want string
	}{
		{"node", hex.EncodeToString(node), "77736e31020002000000c0000000000017762fddd969a453925d65717ac3eea21320b66b54342fde15128d6caf21215f000040000000000000000000000000000000000000000000000000000000000000000000000000000000c00000000000"},
		{"record", hex.EncodeToString(record), "7773626c01000000e80300000600000017762fddd969a453925d65717ac3eea21320b66b54342fde15128d6caf21215fcae3e3f773746f726564"},
		{"pack", hex.EncodeToString(appendPackHeader(nil, 258)), "7773706b0100000002010000fa2ea7bc"},
	} {
		if c.got != c.want {
			t.Errorf("{%q, %q}", c.name, c.got)
		}
	}
}

// TestAverageChunk: content that looks random is cut into about 64 KiB.
func TestAverageChunk(t *testing.T) {
	data := unlike(9, 16<<20)
	n := 0
	for off := 0; off < len(data); n++ {
		size, _ := cut(data[off:], int64(off))
		off += size
	}
	if avg := len(data) / n; avg < 56<<10 || avg > 76<<10 {
		t.Errorf("chunks of %d bytes on average", avg)
	}
}
