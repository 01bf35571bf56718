package hosttree

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"wsfs/blob"
)

// Index says what the entries of a directory were when they were last equal to those of a workspace, by path.
type Index struct {
	// Full: a path that is not in it was not there. Else nothing is known about it.
	Full    bool
	Entries map[string]Entry
	// Moved are paths whose entries are newer than the state at which directory and workspace were last equal as a whole.
	Moved map[string]bool
	// Xattrs are the extended attributes of paths in Moved, as far as they have any.
	Xattrs map[string]map[string][]byte
	// Loaded is the State that the index was loaded with. It is saved with that of Set State alone: whoever changes an index
	// has another one.
	Loaded State
	state  State
}

// State is the point of a workspace whose tree an index as a whole describes, and the stat(2) of the directory itself.
type State struct {
	Timeline, Seq     int64 // 0: not known
	Mtime, Ctime, Ino uint64
}

// SetState says that the index, as it is saved next, describes all of a workspace at a point. st is the directory's, looked at
// before the index was made; now is when that was (ns).
func (x *Index) SetState(timeline, seq int64, st *syscall.Stat_t, now int64) {
	if e := FromStat(st, now); e.Ino != 0 {
		x.state = State{timeline, seq, uint64(e.Mtime), uint64(e.Ctime), e.Ino}
	}
}

// Whole notes that directory and workspace are equal as a whole.
func (x *Index) Whole() { x.Moved, x.Xattrs = nil, nil }

// MoveXattrs notes the extended attributes of a path that was moved.
func (x *Index) MoveXattrs(path string, attrs map[string][]byte) {
	if len(attrs) == 0 {
		delete(x.Xattrs, path)
		return
	}
	if x.Xattrs == nil {
		x.Xattrs = map[string]map[string][]byte{}
	}
	x.Xattrs[path] = attrs
}

// Move notes what a path is by itself: the rest of the directory and of the workspace need not be equal.
func (x *Index) Move(path string, e Entry) {
	x.Set(path, e)
	if x.Moved == nil {
		x.Moved = map[string]bool{}
	}
	x.Moved[path] = true
}

// Set notes what a path is. In an index that is not full, nothing being there is worth a line too.
func (x *Index) Set(path string, e Entry) {
	if !e.Exists() && x.Full {
		delete(x.Entries, path)
		return
	}
	x.Entries[path] = e
}

const magic = "wsfs index 1\n"

// ErrDamaged says that an index is not one, or not whole. It is a cache: go on without.
var ErrDamaged = errors.New("the index is damaged")

// Load reads an index. It wraps ENOENT if there is none.
func Load(file string) (*Index, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if len(b) < len(magic)+5 || string(b[:len(magic)]) != magic ||
		crc32.ChecksumIEEE(b[:len(b)-4]) != binary.LittleEndian.Uint32(b[len(b)-4:]) {
		return nil, fmt.Errorf("%s: %w", file, ErrDamaged)
	}
	b = b[len(magic) : len(b)-4]
	x := &Index{Full: b[0] == 1}
	d := &reader{b: b[1:]}
	n := int(d.uint())
	x.Entries = make(map[string]Entry, min(n, 1<<20))
	var path []byte
	for range n {
		if d.bad {
			break
		}
		keep := int(d.uint())
		if keep > len(path) {
			d.bad = true
			break
		}
		path = append(path[:keep], d.bytes()...)
		e := Entry{Mode: uint32(d.uint()), Size: int64(d.uint()), Mtime: int64(d.uint()), Ctime: int64(d.uint()), Ino: d.uint()}
		switch e.Type() {
		case syscall.S_IFREG:
			copy(e.Ref[:], d.take(len(blob.Ref{})))
		case syscall.S_IFLNK:
			e.Target = string(d.bytes())
		}
		x.Entries[string(path)] = e
	}
	for n := int(d.uint()); n > 0 && !d.bad; n-- {
		if x.Moved == nil {
			x.Moved = map[string]bool{}
		}
		x.Moved[string(d.bytes())] = true
	}
	if len(d.b) != 0 { // of before there was this part, it has none
		x.loadXattrs(d)
	}
	if len(d.b) != 0 { // as above
		for _, v := range []*int64{&x.Loaded.Timeline, &x.Loaded.Seq} {
			*v = int64(d.uint())
		}
		for _, v := range []*uint64{&x.Loaded.Mtime, &x.Loaded.Ctime, &x.Loaded.Ino} {
			*v = d.uint()
		}
	}
	if d.bad || len(d.b) != 0 {
		return nil, fmt.Errorf("%s: %w", file, ErrDamaged)
	}
	return x, nil
}

type reader struct {
	b   []byte
	bad bool
}

func (d *reader) uint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.bad = true
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *reader) take(n int) []byte {
	if n < 0 || n > len(d.b) {
		d.bad = true
		return nil
	}
	out := d.b[:n]
	d.b = d.b[n:]
	return out
}

func (d *reader) bytes() []byte { return d.take(int(d.uint())) }

// Save writes the index whole or not at all.
func (x *Index) Save(file string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("save the index: %w", err)
	}
	paths := make([]string, 0, len(x.Entries))
	for p := range x.Entries {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	b := append([]byte(magic), 0)
	if x.Full {
		b[len(magic)] = 1
	}
	b = binary.AppendUvarint(b, uint64(len(paths)))
	last := ""
	for _, p := range paths {
		e := x.Entries[p]
		keep := 0
		for keep < len(p) && keep < len(last) && p[keep] == last[keep] {
			keep++
		}
		b = binary.AppendUvarint(b, uint64(keep))
		b = appendBytes(b, p[keep:])
		for _, v := range []uint64{uint64(e.Mode), uint64(e.Size), uint64(e.Mtime), uint64(e.Ctime), e.Ino} {
			b = binary.AppendUvarint(b, v)
		}
		switch e.Type() {
		case syscall.S_IFREG:
			b = append(b, e.Ref[:]...)
		case syscall.S_IFLNK:
			b = appendBytes(b, e.Target)
		}
		last = p
	}
	moved := slices.Sorted(maps.Keys(x.Moved))
	b = binary.AppendUvarint(b, uint64(len(moved)))
	for _, p := range moved {
		b = appendBytes(b, p)
	}
	b = x.appendXattrs(b)
	b = seal(b)
	if old, err := os.ReadFile(file); err == nil && bytes.Equal(old, b) {
		return nil
	}
	tmp := file + ".new"
	if err := write(tmp, b); err != nil {
		_ = os.Remove(tmp)
		return fmt.Errorf("save the index: %w", err)
	}
	if err := os.Rename(tmp, file); err != nil {
		return fmt.Errorf("save the index: %w", err)
	}
	return nil
}

func (x *Index) loadXattrs(d *reader) {
	for n := int(d.uint()); n > 0 && !d.bad; n-- {
		path, attrs := string(d.bytes()), map[string][]byte{}
		for k := int(d.uint()); k > 0 && !d.bad; k-- {
			name := string(d.bytes())
			attrs[name] = append([]byte{}, d.bytes()...)
		}
		x.MoveXattrs(path, attrs)
	}
}

func (x *Index) appendXattrs(b []byte) []byte {
	if len(x.Xattrs) == 0 && x.state == (State{}) {
		return b
	}
	b = binary.AppendUvarint(b, uint64(len(x.Xattrs)))
	for _, p := range slices.Sorted(maps.Keys(x.Xattrs)) {
		b = binary.AppendUvarint(appendBytes(b, p), uint64(len(x.Xattrs[p])))
		for _, name := range slices.Sorted(maps.Keys(x.Xattrs[p])) {
			b = appendBytes(appendBytes(b, name), string(x.Xattrs[p][name]))
		}
	}
	if s := x.state; s != (State{}) {
		for _, v := range []uint64{uint64(s.Timeline), uint64(s.Seq), s.Mtime, s.Ctime, s.Ino} {
			b = binary.AppendUvarint(b, v)
		}
	}
	return b
}

// seal ends an index with its checksum.
func seal(b []byte) []byte { return binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b)) }

func appendBytes(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func write(file string, b []byte) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	_, err = w.Write(b)
	if err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// LoadOrNew is Load that begins anew where there is no index, or a damaged one.
func LoadOrNew(file string) (*Index, error) {
	x, err := Load(file)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrDamaged) {
		return &Index{Entries: map[string]Entry{}}, nil
	}
	return x, err
}
