package store

import (
	"bytes"

	"wsfs/blob"
)

func appendStaged(b []byte, st *blob.Staged) []byte {
	b = append(b, st.Content.Ref[:]...)
	b = putInt(b, st.Content.Size)
	b = putBytes(b, st.Small)
	b = putUint(b, uint64(len(st.Packed)))
	for i := range st.Packed {
		l := &st.Packed[i]
		b = append(b, l.Ref[:]...)
		b = putInt(b, l.Size)
		b = append(b, byte(l.Encoding))
		b = putUint(b, uint64(l.Pack))
		b = putInt(b, l.Offset)
		b = putInt(b, l.Length)
		b = putBytes(b, l.Data)
	}
	return b
}

func decodeStaged(d *decoder, st *blob.Staged) {
	copy(st.Content.Ref[:], d.raw("content's ref", len(blob.Ref{})))
	st.Content.Size = d.int("content's size")
	st.Small = bytes.Clone(d.bytes("content's bytes")) // it will outlive the record, in the cache
	st.Packed = list(d, "locations", len(blob.Ref{})+6, func(d *decoder, l *blob.Location) {
		copy(l.Ref[:], d.raw("blob's ref", len(blob.Ref{})))
		l.Size = d.int("blob's size")
		l.Encoding = blob.Encoding(d.byte("blob's encoding"))
		l.Pack = d.uint32("blob's pack")
		l.Offset = d.int("blob's offset")
		l.Length = d.int("blob's length")
		l.Data = bytes.Clone(d.bytes("blob's bytes"))
	})
}

func isPatch(st blob.Staged) bool { return st.Patch }

// appendPatches says of each content whether it is provisional.
func appendPatches(b []byte, contents []blob.Staged) []byte {
	for i := range contents {
		b = putBool(b, contents[i].Patch)
	}
	return b
}

func decodePatches(d *decoder, contents []blob.Staged) {
	for i := range contents {
		contents[i].Patch = d.bool("provisional content")
	}
}

func appendPointer(b []byte, p *Pointer) []byte {
	w := &p.Workspace
	b = putUint(b, uint64(w.ID))
	b = putString(b, w.Name)
	b = putUint(b, uint64(w.Timeline))
	b = putUint(b, uint64(w.Base))
	b = putInt(b, int64(w.BaseSeq))
	b = putInt(b, w.Generation)
	b = putBool(b, w.ReadOnly)
	b = putUint(b, uint64(w.Parent))
	b = putString(b, w.OriginPath)
	b = putInt(b, w.CreatedAt)
	b = putInt(b, w.DroppedAt)
	b = putString(b, p.Why)
	t := p.NewTimeline
	b = putBool(b, t != nil)
	if t == nil {
		return b
	}
	b = putUint(b, uint64(t.ID))
	b = putUint(b, uint64(t.Parent))
	b = putInt(b, int64(t.ParentSeq))
	b = putInt(b, int64(t.Head))
	b = putInt(b, int64(t.GCSeq))
	b = putInt(b, t.Epoch)
	b = putBool(b, t.Hidden)
	b = putUint(b, uint64(len(t.Chain)))
	for _, s := range t.Chain {
		b = putUint(b, uint64(s.Timeline))
		b = putInt(b, int64(s.Cut))
	}
	return b
}

func decodePointer(d *decoder) *Pointer {
	p := &Pointer{}
	w := &p.Workspace
	w.ID = WorkspaceID(d.uint("workspace"))
	w.Name = d.string("workspace's name")
	w.Timeline = TimelineID(d.uint("workspace's timeline"))
	w.Base = TimelineID(d.uint("base"))
	w.BaseSeq = Seq(d.int("base seq"))
	w.Generation = d.int("generation")
	w.ReadOnly = d.bool("read-only")
	w.Parent = WorkspaceID(d.uint("parent workspace"))
	w.OriginPath = d.string("origin")
	w.CreatedAt = d.int("created at")
	w.DroppedAt = d.int("dropped at")
	p.Why = d.string("why")
	if !d.bool("timeline") {
		return p
	}
	t := &Timeline{}
	p.NewTimeline = t
	t.ID = TimelineID(d.uint("timeline"))
	t.Parent = TimelineID(d.uint("parent timeline"))
	t.ParentSeq = Seq(d.int("parent seq"))
	t.Head = Seq(d.int("head"))
	t.GCSeq = Seq(d.int("gc seq"))
	t.Epoch = d.int("epoch")
	t.Hidden = d.bool("hidden")
	t.Chain = list(d, "chain", 2, func(d *decoder, s *Segment) {
		s.Timeline = TimelineID(d.uint("chain's timeline"))
		s.Cut = Seq(d.int("cut"))
	})
	return p
}

func putBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}
