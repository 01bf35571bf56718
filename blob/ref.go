package blob

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"syscall"

	"github.com/zeebo/blake3"
)

// RefSize is the length of a Ref in bytes.
const RefSize = 32

// Ref names bytes: the BLAKE3-256 of a blob, or of the root node of a content tree. The zero Ref names empty content.
type Ref [RefSize]byte

// Sum returns the Ref of data as one blob. The Ref of no bytes is the zero Ref.
func Sum(data []byte) Ref {
	if len(data) == 0 {
		return Ref{}
	}
	return blake3.Sum256(data)
}

// String returns the Ref as 64 hexadecimal digits.
func (r Ref) String() string { return hex.EncodeToString(r[:]) }

// IsZero reports whether r names empty content.
func (r Ref) IsZero() bool { return r == Ref{} }

// ParseRef reads what String wrote.
func ParseRef(s string) (Ref, error) {
	var r Ref
	if len(s) != 2*RefSize {
		return Ref{}, fmt.Errorf("blob: ref %q has %d characters, a ref has %d: %w", s, len(s), 2*RefSize, syscall.EINVAL)
	}
	if _, err := hex.Decode(r[:], []byte(s)); err != nil {
		return Ref{}, fmt.Errorf("blob: ref %q is not hexadecimal: %w", s, syscall.EINVAL)
	}
	return r, nil
}

// MaxBlob is the largest content, in bytes, that is stored as one blob. Larger content is a tree.
const MaxBlob = 64 << 10

// Encoding says how the stored bytes of a blob were made from its bytes. The values are part of the format.
type Encoding uint8

const (
	Raw  Encoding = 0
	Zstd Encoding = 1 // one zstd frame without checksum
	S2   Encoding = 2 // one S2 block (an extension of Snappy): 3 to 5 times as fast as zstd, about 1/3 more bytes
)

// String returns the name of the encoding.
func (e Encoding) String() string {
	switch e {
	case Raw:
		return "raw"
	case Zstd:
		return "zstd"
	case S2:
		return "s2"
	}
	return fmt.Sprintf("encoding %d", uint8(e))
}

// Location says where the stored bytes of one blob are: in Data, or else at Offset of a pack.
type Location struct {
	Ref      Ref
	Size     int64 // bytes of the blob itself
	Encoding Encoding
	Data     []byte // the stored bytes, when they are kept inline; nil otherwise
	Pack     uint32 // number of the pack; packs count from 1
	Offset   int64  // of the first stored byte in the pack (the record's header lies before it)
	Length   int64  // stored bytes
}

// Index finds blobs. The store's database implements it; calls come from any goroutine.
type Index interface {
	// Locate returns an error that wraps ErrNotFound for a blob it does not know.
	Locate(ctx context.Context, ref Ref) (Location, error)
}

// BatchIndex is an Index that can answer for many blobs at once. Store uses it where it has more than one to ask.
type BatchIndex interface {
	Index
	// LocateMany calls found once for each of refs that is known, in any order. Unknown ones are not an error.
	LocateMany(ctx context.Context, refs []Ref, found func(Location)) error
}

var (
	// ErrNotFound: neither the index nor the blobs waiting to be applied have this blob. It wraps EIO: to the reader
	// of a file, a blob that is named but not there is damage.
	ErrNotFound = fmt.Errorf("blob: not found: %w", syscall.EIO)
	// ErrCorrupt: the stored bytes are not the blob they are stored for. It wraps EIO.
	ErrCorrupt = fmt.Errorf("blob: damaged: %w", syscall.EIO)
	// ErrReadOnly: the store was opened with Options.ReadOnly.
	ErrReadOnly = fmt.Errorf("blob: store is open for reading only: %w", syscall.EROFS)
	// ErrClosed: Close was called.
	ErrClosed = errors.New("blob: store is closed")
)

// Content is the bytes of one file. Refs of contents with different sizes may be compared, but a Ref alone cannot be
// read: the size tells a tree from a blob.
type Content struct {
	Ref  Ref
	Size int64 // bytes
}

// Staged is content that can be read already but that no row of the database names yet. It goes into an Op as it is.
// Nobody may change it or what it points to.
type Staged struct {
	Content Content
	// Small holds the content itself when it is at most MaxBlob and not stored yet.
	Small []byte
	// Packed says where the blobs of the content are that the index did not have when it was staged. They are
	// written, but on the disk only after Sync.
	Packed []Location
	// Patch: the content is written down as changes over another (StagePatch), its Ref is provisional, and Packed is the
	// list of the changes followed by their bytes, if this is the first Staged that has them. Settle makes of it what
	// the content is in truth.
	Patch bool

	turn int // in which it is counted (guard)
}

// Again returns a Staged to be counted anew, for an Op that names a patch which an earlier Op has brought.
func (st *Staged) Again() Staged {
	return Staged{Content: st.Content, Patch: st.Patch, Packed: st.Packed[:1:1]}
}

// Extent is a range of bytes.
type Extent struct {
	Off, Len int64
}

// End returns the offset behind the last byte.
func (e Extent) End() int64 { return e.Off + e.Len }

// Segment is a range of content that holds data or is a hole: zeros that are stored nowhere.
type Segment struct {
	Off, Len int64
	Hole     bool
}

// EditStats counts what one Edit cost.
type EditStats struct {
	BytesHashed int64 // bytes of blobs and tree nodes that were hashed
	BytesRead   int64 // bytes read from the base and the source
	ChunksNew   int64 // blobs, tree nodes included, that were not stored yet
	BytesStored int64 // bytes appended to packs, record headers included
}
