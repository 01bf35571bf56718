package store

func appendTags(b []byte, tags []TagChange) []byte {
	b = putUint(b, uint64(len(tags)))
	for i := range tags {
		t := &tags[i]
		b = putUint(b, uint64(t.Workspace))
		b = putString(b, t.Name)
		b = putUint(b, uint64(t.Timeline))
		b = putInt(b, int64(t.Seq))
		b = putBool(b, t.Remove)
	}
	return b
}

func decodeTag(d *decoder, t *TagChange) {
	t.Workspace = WorkspaceID(d.uint("tag's workspace"))
	t.Name = d.string("tag's name")
	t.Timeline = TimelineID(d.uint("tag's timeline"))
	t.Seq = Seq(d.int("tag's seq"))
	t.Remove = d.bool("tag removed")
}

func appendPins(b []byte, pins []PinChange) []byte {
	b = putUint(b, uint64(len(pins)))
	for i := range pins {
		p := &pins[i]
		b = putUint(b, uint64(p.Timeline))
		b = putInt(b, int64(p.Seq))
		b = putString(b, p.Kind)
		b = putString(b, p.Ref)
		b = putInt(b, p.Expires)
		b = putBool(b, p.Remove)
	}
	return b
}

func decodePin(d *decoder, p *PinChange) {
	p.Timeline = TimelineID(d.uint("pin's timeline"))
	p.Seq = Seq(d.int("pin's seq"))
	p.Kind = d.string("pin's kind")
	p.Ref = d.string("pin's ref")
	p.Expires = d.int("pin's end")
	p.Remove = d.bool("pin removed")
}
