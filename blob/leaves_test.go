package blob

import (
	"bytes"
	"testing"
)

func TestLeavesAreBounded(t *testing.T) {
	l := NewLeaves(1000)
	for i := range 50 {
		data := bytes.Repeat([]byte{byte(i)}, 90)
		l.put(Sum(data), data)
		l.put(Sum(data), data)
		clear(data) // it has its own
		if l.bytes > 1000 || len(l.data) != len(l.order) {
			t.Fatalf("%d bytes in %d leaves, %d in order", l.bytes, len(l.data), len(l.order))
		}
	}
	for i := range 50 {
		data := bytes.Repeat([]byte{byte(i)}, 90)
		got := make([]byte, 60)
		if n := l.read(Sum(data), got, 30); (n == 90) != (i >= 39) || n != 0 && !bytes.Equal(got, data[30:]) {
			t.Errorf("leaf %d: %d, %v", i, n, got)
		}
	}
	// What is used stays, in whatever buffers the others come and go.
	first := bytes.Repeat([]byte{49}, 90)
	for i := range 200 {
		data := bytes.Repeat([]byte{byte(i)}, 50+i%7*20)
		l.put(Sum(data), data)
		if k := l.data[Sum(data)]; k == nil || !bytes.Equal(k.data, data) {
			t.Fatalf("leaf %d is kept as %v", i, k)
		}
		got := make([]byte, 90)
		if n := l.read(Sum(first), got, 0); n != 90 || !bytes.Equal(got, first) {
			t.Fatalf("after %d: %d, %v", i, n, got)
		}
	}
	large := make([]byte, 1001)
	if l.put(Sum(large), large); l.read(Sum(large), large, 0) != 0 || l.bytes > 1000 {
		t.Error("it keeps what is larger than all of it")
	}
	var none *Leaves
	none.put(Ref{1}, []byte("x"))
	if none.read(Ref{1}, nil, 0) != 0 {
		t.Error("nil keeps something")
	}
}
