package blobtest

import (
	"bytes"
	"errors"
	"syscall"

	"wsfs/blob"
)

// putMany: each content is stored once, whatever is stored, staged or twice in the list.
func putMany(e *env) {
	old, waiting := prose(1, 3000), noise(2, 4000)
	e.stored(old)
	first, err := e.s.PutPacked(waiting)
	if err != nil {
		e.Fatal(err)
	}
	list := [][]byte{old, waiting, nil, []byte("x"), prose(3, 257), noise(4, 5000), prose(5, blob.MaxBlob), noise(4, 5000), []byte("x")}
	for i := range 30 { // more than one write
		list = append(list, noise(byte(10+i), blob.MaxBlob))
	}
	buf := bytes.Clone(bytes.Join(list, nil))
	data := make([][]byte, len(list))
	at := 0
	for i, d := range list {
		data[i] = buf[at : at+len(d)]
		at += len(d)
	}
	staged, err := e.s.PutMany(e.ctx, data)
	if err != nil || len(staged) != len(list) {
		e.Fatalf("PutMany staged %d, %v", len(staged), err)
	}
	clear(buf) // it is the caller's
	for i, st := range staged {
		if st.Small != nil || st.Content.Ref != blob.Sum(list[i]) || st.Content.Size != int64(len(list[i])) {
			e.Fatalf("content %d is staged as %v, with %d small bytes", i, st.Content, len(st.Small))
		}
		want := 1
		if i == 0 || len(list[i]) == 0 {
			want = 0
		}
		if len(st.Packed) != want {
			e.Errorf("content %d has %d locations", i, len(st.Packed))
		}
		e.want(st.Content, list[i])
	}
	if staged[1].Packed[0].Offset != first.Packed[0].Offset {
		e.Error("what was staged is stored once more")
	}
	if a, b := staged[5].Packed[0], staged[7].Packed[0]; a.Pack != b.Pack || a.Offset != b.Offset {
		e.Error("what is in the list twice is stored twice")
	}
	e.apply(append(staged, first)...)
	rows := len(e.x.All())
	if want := len(list) - 3; rows != want { // nil and two that are there twice
		e.Errorf("%d rows, want %d", rows, want)
	}
	e.reopen()
	for i, st := range staged {
		e.want(st.Content, list[i])
	}
	if _, err := e.s.PutMany(e.ctx, [][]byte{make([]byte, blob.MaxBlob+1)}); !errors.Is(err, syscall.EINVAL) {
		e.Fatalf("PutMany of too much: %v", err)
	}
}
