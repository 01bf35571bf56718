package store

import (
	"bytes"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"wsfs/blob"
)

// opMaker makes random ops. All of its values are extreme now and then: the codec must not judge.
type opMaker struct{ r *rand.Rand }

func newOpMaker(seed uint64) opMaker { return opMaker{rand.New(rand.NewPCG(seed, 1))} }

func (m opMaker) int() int64 {
	switch m.r.IntN(4) {
	case 0:
		return 0
	case 1:
		return int64(m.r.Uint64()) // any bits
	case 2:
		return []int64{1, -1, math.MaxInt64, math.MinInt64}[m.r.IntN(4)]
	}
	return m.r.Int64N(1 << 20)
}

func (m opMaker) uint32() uint32 { return uint32(m.int()) }

func (m opMaker) bytes(n int) []byte {
	b := make([]byte, m.r.IntN(n+1))
	for i := range b {
		b[i] = byte(m.r.Uint32())
	}
	if len(b) == 0 {
		return nil
	}
	return b
}

func (m opMaker) str(n int) string { return string(m.bytes(n)) }

func (m opMaker) ref() (r blob.Ref) {
	if m.r.IntN(3) > 0 {
		copy(r[:], m.bytes(len(r)))
	}
	return r
}

func (m opMaker) version() Version {
	v := Version{
		Ino: Ino(m.int()), Seq: Seq(m.int()), ID: VersionID(m.int()), Parent: VersionID(m.int()), Replaced: VersionID(m.int()),
		Merge: VersionID(m.int()), Origin: TimelineID(m.int()), Mode: m.uint32(), UID: m.uint32(), GID: m.uint32(),
		Nlink: m.uint32(), Rdev: m.uint32(), Size: m.int(), Holes: m.int(), Mtime: m.int(), Ctime: m.int(), Atime: m.int(),
		Content: m.ref(), Target: m.str(20),
	}
	for range m.r.IntN(3) {
		if v.Xattrs == nil {
			v.Xattrs = map[string][]byte{}
		}
		v.Xattrs[m.str(10)] = append([]byte{}, m.bytes(30)...)
	}
	return v
}

func (m opMaker) staged() blob.Staged {
	st := blob.Staged{Content: blob.Content{Ref: m.ref(), Size: m.int()}, Small: m.bytes(5000), Patch: m.r.IntN(4) == 0}
	for range m.r.IntN(3) {
		st.Packed = append(st.Packed, blob.Location{
			Ref: m.ref(), Size: m.int(), Encoding: blob.Encoding(m.r.Uint32()), Data: m.bytes(20),
			Pack: m.uint32(), Offset: m.int(), Length: m.int(),
		})
	}
	return st
}

func (m opMaker) op() *Op {
	op := &Op{
		Kind: OpKind(m.r.Uint32()), Timeline: TimelineID(m.int()), Workspace: WorkspaceID(m.int()), Seq: Seq(m.int()),
		At: m.int(), Amend: m.r.IntN(2) == 0,
	}
	for range m.r.IntN(4) {
		op.Names = append(op.Names, Name{Parent: Ino(m.int()), Name: m.str(300), Ino: Ino(m.int()), Type: m.uint32()})
	}
	for range m.r.IntN(4) {
		op.Versions = append(op.Versions, m.version())
	}
	for range m.r.IntN(4) {
		op.Items = append(op.Items, Item{
			Op: OpKind(m.r.Uint32()), Ino: Ino(m.int()), Parent: Ino(m.int()), Name: m.str(300),
			FromParent: Ino(m.int()), FromName: m.str(20),
		})
	}
	for range m.r.IntN(3) {
		op.Contents = append(op.Contents, m.staged())
	}
	if m.r.IntN(3) == 0 {
		op.Pointer = &Pointer{Why: m.str(10), Workspace: Workspace{
			ID: WorkspaceID(m.int()), Name: m.str(9), Timeline: TimelineID(m.int()), Base: TimelineID(m.int()),
			BaseSeq: Seq(m.int()), Generation: m.int(), ReadOnly: m.r.IntN(2) == 0, Parent: WorkspaceID(m.int()),
			OriginPath: m.str(40), CreatedAt: m.int(), DroppedAt: m.int(),
		}}
		if m.r.IntN(2) == 0 {
			t := &Timeline{
				ID: TimelineID(m.int()), Parent: TimelineID(m.int()), ParentSeq: Seq(m.int()), Head: Seq(m.int()),
				GCSeq: Seq(m.int()), Epoch: m.int(), Hidden: m.r.IntN(2) == 0,
			}
			for range m.r.IntN(3) {
				t.Chain = append(t.Chain, Segment{Timeline: TimelineID(m.int()), Cut: Seq(m.int())})
			}
			op.Pointer.NewTimeline = t
		}
	}
	for range m.r.IntN(3) {
		op.Tags = append(op.Tags, TagChange{Remove: m.r.IntN(2) == 0, Tag: Tag{
			Workspace: WorkspaceID(m.int()), Name: m.str(20), Timeline: TimelineID(m.int()), Seq: Seq(m.int()),
		}})
	}
	for range m.r.IntN(3) {
		op.Pins = append(op.Pins, PinChange{Remove: m.r.IntN(2) == 0, Pin: Pin{
			Timeline: TimelineID(m.int()), Seq: Seq(m.int()), Kind: m.str(9), Ref: m.str(20), Expires: m.int(),
		}})
	}
	for range m.r.IntN(3) {
		op.Undoes = append(op.Undoes, Undone{
			Command: CommandID(m.int()), Timeline: TimelineID(m.int()), From: Seq(m.int()), To: Seq(m.int()), Ref: m.int(),
			Partial: m.r.IntN(2) == 0,
		})
	}
	for range m.r.IntN(3) {
		op.Ended = append(op.Ended, CommandEnd{
			Command: CommandID(m.int()), State: CommandState(m.r.IntN(4)), Exit: m.r.IntN(257) - 1, At: m.int(),
		})
	}
	for range m.r.IntN(3) {
		op.Conflicts = append(op.Conflicts, Conflict{
			ID: ConflictID(m.int()), Why: m.str(9), Timeline: TimelineID(m.int()), Ino: Ino(m.int()), Parent: Ino(m.int()), Name: m.str(20),
			Base: VersionID(m.int()), Head: VersionID(m.int()), Content: m.ref(), Resolved: m.r.IntN(2) == 0,
		})
	}
	for range m.r.IntN(3) {
		op.Resolves = append(op.Resolves, ConflictID(m.int()))
	}
	for range m.r.IntN(3) {
		op.Seen = append(op.Seen, SeenRow{Session: SessionID(m.int()), Ino: Ino(m.int()), Version: VersionID(m.int())})
	}
	if m.r.IntN(3) == 0 {
		op.Merged = &Merged{TimelineID(m.int()), Seq(m.int())}
	}
	for range m.r.IntN(3) {
		r := Review{Workspace: WorkspaceID(m.int()), Timeline: TimelineID(m.int()), Seq: Seq(m.int()), Path: m.str(20), Verdict: m.str(9)}
		for range m.r.IntN(3) {
			r.Hunks = append(r.Hunks, m.str(10))
		}
		op.Reviews = append(op.Reviews, r)
	}
	if m.r.IntN(3) == 0 {
		op.Elide = &Elided{Ino: Ino(m.int()), Kind: OpKind(m.r.Uint32()), Parent: Ino(m.int()), Name: m.str(20), Over: VersionID(m.int())}
		for range m.r.IntN(4) {
			op.Elide.Seqs = append(op.Elide.Seqs, Seq(m.int()))
		}
	}
	return op
}

func (m opMaker) who() Attribution {
	s := &Session{ID: SessionID(m.r.Int64N(50) + 1), Name: m.str(9), Workspace: 3, Agent: m.str(9), StartedAt: m.int()}
	for range m.r.IntN(3) {
		s = &Session{ID: s.ID + 1000, Name: m.str(9), StartedAt: m.int(), Parent: s, Meta: m.str(30), Home: WorkspaceID(m.r.IntN(3))}
	}
	p := &Process{ID: ProcessID(m.r.Int64N(1000) + 1), Session: s.ID, PID: int(m.int()), StartTicks: uint64(m.int()), Comm: m.str(15), Argv: m.str(100), Cwd: m.str(40), UID: m.uint32(), Unread: m.r.IntN(3) == 0}
	for range m.r.IntN(3) {
		c := *p
		c.ID += 1000
		c.Parent = p
		p = &c
	}
	c := &Command{ID: CommandID(m.r.Int64N(50) + 1), Session: s.ID, N: int(m.int()), Argv: m.str(50), Cwd: m.str(9), StartedAt: m.int()}
	return Attribution{Session: s, Process: p, Command: c}
}

// roundTrip encodes op the way Append does and decodes it.
func roundTrip(t *testing.T, op *Op, fresh *attributionRows, known *knownRows) *Op {
	t.Helper()
	enc := appendOp(nil, op, fresh)
	got, err := decodeOp(enc, known)
	if err != nil {
		t.Fatalf("decode: %v\nop: %+v", err, op)
	}
	return got
}

func TestOpRoundTrip(t *testing.T) {
	for seed := range uint64(3000) {
		op := newOpMaker(seed).op()
		got := roundTrip(t, op, nil, nil)
		if !reflect.DeepEqual(op, got) {
			t.Fatalf("seed %d: op changed on its way\nfrom %+v\nto   %+v", seed, op, got)
		}
	}
}

// Rows come once per journal and are found again by every later op that names them.
func TestAttributionRoundTrip(t *testing.T) {
	m := newOpMaker(7)
	var e emitted
	var known knownRows
	seen := map[any]bool{}
	whos := make([]Attribution, 20)
	for i := range whos {
		whos[i] = m.who()
		for s, n := whos[i].Session, 1; s != nil; s, n = s.Parent, n+1 {
			s.ID = SessionID(10*i + n)
		}
		whos[i].Command.ID = CommandID(i + 1)
		for p, n := whos[i].Process, 1; p != nil; p, n = p.Parent, n+1 {
			p.ID = ProcessID(10*i + n)
		}
	}
	whos = append(whos, Attribution{}, Attribution{Session: whos[0].Session}, Attribution{Process: whos[3].Process.Parent})
	for range 500 {
		op := m.op()
		op.Who = whos[m.r.IntN(len(whos))]
		fresh := e.missing(op.Who)
		e.note(op.Who, fresh)
		op.fresh = fresh
		got := roundTrip(t, op, fresh, &known)
		if !reflect.DeepEqual(op, got) {
			t.Fatalf("op changed on its way\nfrom %+v\nto   %+v", op, got)
		}
		if fresh == nil {
			continue
		}
		for _, p := range fresh.processes {
			if seen[p.ID] {
				t.Fatalf("process %d written twice", p.ID)
			}
			if p.Parent != nil && !seen[p.Parent.ID] {
				t.Fatalf("process %d comes before its parent", p.ID)
			}
			seen[p.ID] = true
		}
		for _, s := range fresh.sessions {
			if seen[s.ID] {
				t.Fatalf("session %d written twice", s.ID)
			}
			if s.Parent != nil && !seen[s.Parent.ID] {
				t.Fatalf("session %d comes before its parent", s.ID)
			}
			seen[s.ID] = true
		}
	}
}

// A decoder that has not seen the rows gives stubs with the ids.
func TestAttributionStubs(t *testing.T) {
	op := newOpMaker(1).op()
	op.Who = newOpMaker(2).who()
	got := roundTrip(t, op, nil, nil)
	want := Attribution{Session: &Session{ID: op.Who.Session.ID}, Process: &Process{ID: op.Who.Process.ID}, Command: &Command{ID: op.Who.Command.ID}}
	if !reflect.DeepEqual(got.Who, want) || got.fresh != nil {
		t.Fatalf("got %+v, fresh %+v", got.Who, got.fresh)
	}
}

func TestEmittedForgets(t *testing.T) {
	var e emitted
	for i := range 2*maxEmitted + 10 {
		w := Attribution{Process: &Process{ID: ProcessID(i + 1), Parent: &Process{ID: 1 << 40}}}
		r := e.missing(w)
		if r == nil {
			t.Fatalf("process %d is not new", i)
		}
		e.note(w, r)
		if n := len(e.processes); n > maxEmitted+2 {
			t.Fatalf("%d processes remembered", n)
		}
	}
}

// The encoding is a format on disk: it may not change without a new opFormat.
func TestOpGolden(t *testing.T) {
	s := &Session{ID: 4, Name: "s", Workspace: 2, Agent: "sh", StartedAt: 5}
	p := &Process{ID: 9, Session: 4, Parent: &Process{ID: 8}, PID: 77, StartTicks: 6, Comm: "cp", Argv: "cp\x00a", Cwd: "/", UID: 1000}
	c := &Command{ID: 3, Session: 4, N: 1, Argv: "cp\x00a", Cwd: "/", StartedAt: 5}
	op := &Op{
		Kind: OpCreate, Timeline: 1, Workspace: 2, Seq: 10, At: 1000, Amend: true,
		Who:   Attribution{Session: s, Process: p, Command: c},
		Names: []Name{{Parent: 1, Name: "a", Ino: 12, Type: 0o100000}},
		Versions: []Version{{
			Ino: 12, Seq: 10, ID: 20, Parent: 19, Replaced: 18, Mode: 0o100644, UID: 1, GID: 2, Nlink: 1, Size: 2, Holes: 1,
			Mtime: 1000, Ctime: 1000, Atime: 999, Content: blob.Ref{1, 2}, Xattrs: map[string][]byte{"user.b": []byte("v"), "user.a": nil},
		}},
		Items:    []Item{{Op: OpCreate, Ino: 12, Parent: 1, Name: "a", FromParent: 2, FromName: "b"}},
		Contents: []blob.Staged{{Content: blob.Content{Ref: blob.Ref{1, 2}, Size: 2}, Small: []byte("hi"), Packed: []blob.Location{{Ref: blob.Ref{3}, Size: 7, Encoding: 1, Pack: 2, Offset: 16, Length: 5}}}},
		Pointer: &Pointer{
			Workspace: Workspace{ID: 2, Name: "w", Timeline: 1, Base: 1, BaseSeq: 9, Generation: 1, ReadOnly: true, Parent: 1, OriginPath: "/o", CreatedAt: 3},
			Why:       "fork", NewTimeline: &Timeline{ID: 1, Parent: 5, ParentSeq: 9, Head: 9, Epoch: 1, Chain: []Segment{{Timeline: 5, Cut: 9}}},
		},
	}
	enc := appendOp(nil, op, &attributionRows{sessions: []*Session{s}, processes: []*Process{p}, commands: []*Command{c}})
	const want = "010107010214d00f04030901040173020273680a010904089a01060263700463700061012fe807010304020463700061012f0a01010161" +
		"0c80800201f1050c001413a483020102010000120402010102000000000000000000000000000000000000000000000000000000000000" +
		"0206757365722e610006757365722e62017601010c01016102016201010200000000000000000000000000000000000000000000000000" +
		"0000000000040268690103000000000000000000000000000000000000000000000000000000000000000e0102200a0002017701011202" +
		"0101022f6f060004666f726b0101051212000200010512"
	if got := hex.EncodeToString(enc); got != want {
		t.Errorf("encoding changed:\n got %s\nwant %s", got, want)
	}
}

// Marks came later than the golden op above, whose encoding they leave as it was.
func TestMarksGolden(t *testing.T) {
	op := &Op{
		Kind: OpWorkspace, Workspace: 2, At: 1000,
		Tags: []TagChange{{Tag: Tag{Workspace: 2, Name: "v1", Timeline: 3, Seq: 9}}, {Tag: Tag{Workspace: 2, Name: "old"}, Remove: true}},
		Pins: []PinChange{{Pin: Pin{Timeline: 3, Seq: 9, Kind: PinMount, Ref: "/m", Expires: 1}}},
	}
	const want = "011018000200d00f000000000000000202027631031200" + "02036f6c64000001" + "010312056d6f756e74022f6d0200"
	if got := hex.EncodeToString(appendOp(nil, op, nil)); got != want {
		t.Errorf("encoding changed:\n got %s\nwant %s", got, want)
	}
	if got := roundTrip(t, op, nil, nil); !reflect.DeepEqual(op, got) {
		t.Errorf("op changed on its way\nfrom %+v\nto   %+v", op, got)
	}
	enc := appendOp(nil, op, nil)
	enc = slices.Replace(enc, 2, 3, putUint(nil, 1<<opFlags)...)
	if _, err := decodeOp(enc, nil); err == nil || !strings.Contains(err.Error(), "unknown flags") {
		t.Errorf("a flag of tomorrow: %v", err)
	}
}

func TestDecodeRejects(t *testing.T) {
	good := appendOp(nil, newOpMaker(11).op(), nil)
	for n := range good {
		if _, err := decodeOp(good[:n], nil); err == nil {
			t.Fatalf("cut at %d of %d: no error", n, len(good))
		}
	}
	if _, err := decodeOp(append(bytes.Clone(good), 0), nil); err == nil {
		t.Fatal("a byte too many: no error")
	}
	newer := bytes.Clone(good)
	newer[0] = opFormat + 1
	if _, err := decodeOp(newer, nil); err == nil || !strings.Contains(err.Error(), "newer") {
		t.Fatalf("newer format: %v", err)
	}
}

// A count that lies must not decide how much is allocated.
func TestDecodeAllocation(t *testing.T) {
	head := append([]byte{opFormat, 1, 0}, make([]byte, 7)...)
	data := putUint(head, 40<<20/4)
	data = append(data, make([]byte, 1000)...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 100 {
		if _, err := decodeOp(data, nil); err == nil {
			t.Fatal("no error")
		}
	}
	runtime.ReadMemStats(&after)
	if n := (after.TotalAlloc - before.TotalAlloc) / 100; n > 1<<20 {
		t.Fatalf("%d bytes allocated for %d bytes of garbage", n, len(data))
	}
}

func FuzzOp(f *testing.F) {
	for seed := range uint64(20) {
		m := newOpMaker(seed)
		op := m.op()
		var e emitted
		op.Who = m.who()
		f.Add(appendOp(nil, op, e.missing(op.Who)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		op, err := decodeOp(data, &knownRows{})
		if err != nil {
			return
		}
		enc := appendOp(nil, op, op.fresh)
		again, err := decodeOp(enc, &knownRows{})
		if err != nil {
			t.Fatalf("what was decoded does not decode again: %v", err)
		}
		if !bytes.Equal(enc, appendOp(nil, again, again.fresh)) {
			t.Fatal("what was decoded changes on its way")
		}
	})
}
