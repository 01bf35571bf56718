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
		if got := l.get(Sum(data)); (got != nil) != (i >= 39) || got != nil && !bytes.Equal(got, data) {
			t.Errorf("leaf %d: %v", i, got)
		}
	}
	var none *Leaves
	none.put(Ref{1}, []byte("x"))
	if none.get(Ref{1}) != nil {
		t.Error("nil keeps something")
	}
}
