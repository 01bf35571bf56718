package store

import (
	"maps"
	"slices"

	"wsfs/blob"
)

// opFormat is the first byte of an encoded op. A change of the encoding takes a new number; the decoder keeps the old.
const opFormat = 1

// Bits of an encoded op.
const (
	opAmend = 1 << iota
	opPointer
	opFresh
	opTags
	opPins
	opUndoes
	opMore // more of the rows of opFresh
	opEnded
	opPatches // some contents are provisional
	opElide
	opConflicts // or what was seen
	opMerged
	opReviews
	opFlags = iota // how many
)

// appendOp appends the encoding of op to b. Of the attribution it writes the ids, and the rows in fresh (may be nil).
func appendOp(b []byte, op *Op, fresh *attributionRows) []byte {
	var flags uint64
	if op.Amend {
		flags |= opAmend
	}
	if op.Pointer != nil {
		flags |= opPointer
	}
	if fresh != nil {
		flags |= opFresh
	}
	if len(op.Tags) > 0 {
		flags |= opTags
	}
	if len(op.Pins) > 0 {
		flags |= opPins
	}
	if len(op.Undoes) > 0 {
		flags |= opUndoes
	}
	if fresh.more() {
		flags |= opMore
	}
	if len(op.Ended) > 0 {
		flags |= opEnded
	}
	if slices.ContainsFunc(op.Contents, isPatch) {
		flags |= opPatches
	}
	if op.Elide != nil {
		flags |= opElide
	}
	if op.conflicting() {
		flags |= opConflicts
	}
	if op.Merged != nil {
		flags |= opMerged
	}
	if len(op.Reviews) > 0 {
		flags |= opReviews
	}
	b = append(b, opFormat, byte(op.Kind))
	b = putUint(b, flags)
	b = putUint(b, uint64(op.Timeline))
	b = putUint(b, uint64(op.Workspace))
	b = putInt(b, int64(op.Seq))
	b = putInt(b, op.At)
	var s SessionID
	var c CommandID
	var p ProcessID
	if op.Who.Session != nil {
		s = op.Who.Session.ID
	}
	if op.Who.Command != nil {
		c = op.Who.Command.ID
	}
	if op.Who.Process != nil {
		p = op.Who.Process.ID
	}
	b = putUint(b, uint64(s))
	b = putUint(b, uint64(c))
	b = putUint(b, uint64(p))
	if fresh != nil {
		b = appendRows(b, fresh)
	}
	b = putUint(b, uint64(len(op.Names)))
	for i := range op.Names {
		n := &op.Names[i]
		b = putUint(b, uint64(n.Parent))
		b = putString(b, n.Name)
		b = putUint(b, uint64(n.Ino))
		b = putUint(b, uint64(n.Type))
	}
	b = putUint(b, uint64(len(op.Versions)))
	for i := range op.Versions {
		b = appendVersion(b, op, &op.Versions[i])
	}
	b = putUint(b, uint64(len(op.Items)))
	for i := range op.Items {
		it := &op.Items[i]
		b = append(b, byte(it.Op))
		b = putUint(b, uint64(it.Ino))
		b = putUint(b, uint64(it.Parent))
		b = putString(b, it.Name)
		b = putUint(b, uint64(it.FromParent))
		b = putString(b, it.FromName)
	}
	b = putUint(b, uint64(len(op.Contents)))
	for i := range op.Contents {
		b = appendStaged(b, &op.Contents[i])
	}
	if op.Pointer != nil {
		b = appendPointer(b, op.Pointer)
	}
	if len(op.Tags) > 0 {
		b = appendTags(b, op.Tags)
	}
	if len(op.Pins) > 0 {
		b = appendPins(b, op.Pins)
	}
	if len(op.Undoes) > 0 {
		b = appendUndoes(b, op.Undoes)
	}
	if flags&opMore != 0 {
		b = appendMore(b, fresh)
	}
	if len(op.Ended) > 0 {
		b = appendEnded(b, op.Ended)
	}
	if flags&opPatches != 0 {
		b = appendPatches(b, op.Contents)
	}
	if op.Elide != nil {
		b = appendElided(b, op)
	}
	if flags&opConflicts != 0 {
		b = appendConflicts(b, op)
	}
	if op.Merged != nil {
		b = appendMerged(b, op.Merged)
	}
	if len(op.Reviews) > 0 {
		b = appendReviews(b, op.Reviews)
	}
	return b
}

// decodeOp decodes one op, which does not alias data. The attribution's pointers lead to the rows in known where it has
// them, and to stubs with nothing but an id otherwise; rows that came with the op are added to known (may be nil) and
// are op.fresh.
func decodeOp(data []byte, known *knownRows) (*Op, error) {
	d := &decoder{b: data}
	if f := d.byte("format"); d.err == nil && f != opFormat {
		d.fail("format %d is not known to this program; a newer one wrote it", f)
	}
	op := &Op{Kind: OpKind(d.byte("kind"))}
	flags := d.uint("flags")
	if flags>>opFlags != 0 {
		d.fail("unknown flags %#x", flags)
	}
	op.Amend = flags&opAmend != 0
	op.Timeline = TimelineID(d.uint("timeline"))
	op.Workspace = WorkspaceID(d.uint("workspace"))
	op.Seq = Seq(d.int("seq"))
	op.At = d.int("time")
	s := SessionID(d.uint("session"))
	c := CommandID(d.uint("command"))
	p := ProcessID(d.uint("process"))
	if known == nil {
		known = &knownRows{}
	}
	if flags&opFresh != 0 {
		op.fresh = decodeRows(d, known)
	}
	op.Who = Attribution{Session: known.session(s), Command: known.command(c), Process: known.process(p)}
	op.Names = list(d, "names", 4, func(d *decoder, n *Name) {
		n.Parent = Ino(d.uint("name's parent"))
		n.Name = d.string("name")
		n.Ino = Ino(d.uint("name's inode"))
		n.Type = d.uint32("name's type")
	})
	op.Versions = list(d, "versions", 11, func(d *decoder, v *Version) { decodeVersion(d, op, v) })
	op.Items = list(d, "items", 6, func(d *decoder, it *Item) {
		it.Op = OpKind(d.byte("item"))
		it.Ino = Ino(d.uint("item's inode"))
		it.Parent = Ino(d.uint("item's parent"))
		it.Name = d.string("item's name")
		it.FromParent = Ino(d.uint("item's old parent"))
		it.FromName = d.string("item's old name")
	})
	op.Contents = list(d, "contents", len(blob.Ref{})+3, decodeStaged)
	if flags&opPointer != 0 {
		op.Pointer = decodePointer(d)
	}
	if flags&opTags != 0 {
		op.Tags = list(d, "tags", 5, decodeTag)
	}
	if flags&opPins != 0 {
		op.Pins = list(d, "pins", 6, decodePin)
	}
	if flags&opUndoes != 0 {
		op.Undoes = list(d, "undone", 6, decodeUndone)
	}
	if flags&opMore != 0 {
		decodeMore(d, op.fresh, known)
	}
	if flags&opEnded != 0 {
		op.Ended = list(d, "ended", 4, decodeEnded)
	}
	if flags&opPatches != 0 {
		decodePatches(d, op.Contents)
	}
	if flags&opElide != 0 {
		op.Elide = decodeElided(d, op)
	}
	if flags&opConflicts != 0 {
		decodeConflicts(d, op)
	}
	if flags&opMerged != 0 {
		op.Merged = decodeMerged(d)
	}
	if flags&opReviews != 0 {
		op.Reviews = decodeReviews(d)
	}
	if d.err == nil && len(d.b) != 0 {
		d.fail("%d bytes too many", len(d.b))
	}
	if d.err != nil {
		return nil, d.err
	}
	return op, nil
}

// Bits of an encoded version: which of the rarely used fields follow.
const (
	verReplaced = 1 << iota
	verMerge
	verOrigin
	verRdev
	verSize
	verHoles
	verAtime
	verContent
	verTarget
	verXattrs
)

// appendVersion writes seq and times relative to the op: they are nearly always equal to its own.
func appendVersion(b []byte, op *Op, v *Version) []byte {
	var has uint64
	set := func(bit uint64, on bool) {
		if on {
			has |= bit
		}
	}
	set(verReplaced, v.Replaced != 0)
	set(verMerge, v.Merge != 0)
	set(verOrigin, v.Origin != 0)
	set(verRdev, v.Rdev != 0)
	set(verSize, v.Size != 0)
	set(verHoles, v.Holes != 0)
	set(verAtime, v.Atime != v.Mtime)
	set(verContent, v.Content != blob.Ref{})
	set(verTarget, v.Target != "")
	set(verXattrs, len(v.Xattrs) != 0)

	b = putUint(b, has)
	b = putUint(b, uint64(v.Ino))
	b = putInt(b, int64(v.Seq-op.Seq))
	b = putUint(b, uint64(v.ID))
	b = putUint(b, uint64(v.Parent))
	b = putUint(b, uint64(v.Mode))
	b = putUint(b, uint64(v.UID))
	b = putUint(b, uint64(v.GID))
	b = putUint(b, uint64(v.Nlink))
	b = putInt(b, v.Mtime-op.At)
	b = putInt(b, v.Ctime-v.Mtime)
	if has&verReplaced != 0 {
		b = putUint(b, uint64(v.Replaced))
	}
	if has&verMerge != 0 {
		b = putUint(b, uint64(v.Merge))
	}
	if has&verOrigin != 0 {
		b = putUint(b, uint64(v.Origin))
	}
	if has&verRdev != 0 {
		b = putUint(b, uint64(v.Rdev))
	}
	if has&verSize != 0 {
		b = putInt(b, v.Size)
	}
	if has&verHoles != 0 {
		b = putInt(b, v.Holes)
	}
	if has&verAtime != 0 {
		b = putInt(b, v.Atime-v.Mtime)
	}
	if has&verContent != 0 {
		b = append(b, v.Content[:]...)
	}
	if has&verTarget != 0 {
		b = putString(b, v.Target)
	}
	if has&verXattrs != 0 {
		b = putUint(b, uint64(len(v.Xattrs)))
		for _, k := range slices.Sorted(maps.Keys(v.Xattrs)) {
			b = putString(b, k)
			b = putBytes(b, v.Xattrs[k])
		}
	}
	return b
}

func decodeVersion(d *decoder, op *Op, v *Version) {
	has := d.uint("version")
	if has >= verXattrs<<1 {
		d.fail("version: unknown fields %#x", has)
	}
	v.Ino = Ino(d.uint("version's inode"))
	v.Seq = op.Seq + Seq(d.int("version's seq"))
	v.ID = VersionID(d.uint("version's id"))
	v.Parent = VersionID(d.uint("version's parent"))
	v.Mode = d.uint32("mode")
	v.UID = d.uint32("uid")
	v.GID = d.uint32("gid")
	v.Nlink = d.uint32("nlink")
	v.Mtime = op.At + d.int("mtime")
	v.Ctime = v.Mtime + d.int("ctime")
	v.Atime = v.Mtime
	if has&verReplaced != 0 {
		v.Replaced = VersionID(d.uint("replaced version"))
	}
	if has&verMerge != 0 {
		v.Merge = VersionID(d.uint("merged version"))
	}
	if has&verOrigin != 0 {
		v.Origin = TimelineID(d.uint("origin"))
	}
	if has&verRdev != 0 {
		v.Rdev = d.uint32("rdev")
	}
	if has&verSize != 0 {
		v.Size = d.int("size")
	}
	if has&verHoles != 0 {
		v.Holes = d.int("holes")
	}
	if has&verAtime != 0 {
		v.Atime += d.int("atime")
	}
	if has&verContent != 0 {
		copy(v.Content[:], d.raw("content", len(v.Content)))
	}
	if has&verTarget != 0 {
		v.Target = d.string("target")
	}
	if has&verXattrs != 0 {
		n := d.count("xattrs", 2)
		v.Xattrs = make(map[string][]byte, min(n, 64))
		for range n {
			k := d.string("xattr's name")
			val := d.bytes("xattr's value")
			if d.err != nil {
				return
			}
			v.Xattrs[k] = append([]byte{}, val...)
		}
	}
}
