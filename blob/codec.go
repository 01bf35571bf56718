package blob

import (
	"fmt"
	"runtime"
	"slices"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

// minCompress is the least worth trying to compress.
const minCompress = 64

// probeSize is how much of a chunk is compressed first, by zstd, to see whether the rest is worth it: trying all of a
// chunk that does not compress costs about as much as hashing it.
const probeSize = 4 << 10

// codec compresses and decompresses single blobs. Safe for any number of goroutines; it has none of its own.
type codec struct {
	enc *zstd.Encoder
	dec *zstd.Decoder
}

func newCodec() (*codec, error) {
	// No checksum of its own: the Ref is one. Concurrency bounds the number of encoder states kept, not goroutines.
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false),
		zstd.WithEncoderConcurrency(runtime.GOMAXPROCS(0)), zstd.WithWindowSize(2*forcedChunk), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, fmt.Errorf("blob: making a zstd encoder: %w", err)
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(runtime.GOMAXPROCS(0)), zstd.WithDecodeAllCapLimit(true),
		zstd.WithDecoderMaxMemory(1<<20), zstd.WithDecoderMaxWindow(1<<20))
	if err != nil {
		return nil, fmt.Errorf("blob: making a zstd decoder: %w", err)
	}
	return &codec{enc: enc, dec: dec}, nil
}

func (c *codec) close() {
	c.enc.Close()
	c.dec.Close()
}

// appendEncoded appends the form in which data is best stored: by the encoding how if that saves at least 1/8, else as
// it is.
func (c *codec) appendEncoded(dst, data []byte, how Encoding) ([]byte, Encoding) {
	n := len(dst)
	if len(data) >= minCompress && how != Raw && c.worthwhile(dst, data) {
		if how == S2 {
			dst = slices.Grow(dst, s2.MaxEncodedLen(len(data)))
			dst = dst[:n+len(s2.Encode(dst[n:cap(dst)], data))]
		} else {
			dst = c.enc.EncodeAll(data, dst)
		}
		if len(dst) > n && len(dst)-n <= len(data)-len(data)/8 {
			return dst, how
		}
	}
	return append(dst[:n], data...), Raw
}

// worthwhile guesses from a sample whether data compresses. It writes behind the end of dst.
func (c *codec) worthwhile(dst, data []byte) bool {
	if len(data) <= 8*probeSize {
		return true
	}
	mid := len(data) / 2 // the start of a chunk is more often a header than typical of it
	return len(c.enc.EncodeAll(data[mid:mid+probeSize], dst[len(dst):])) <= probeSize-probeSize/32
}

// decode writes the blob whose stored bytes are given into dst, which has its exact size. The error says how the
// stored bytes are wrong; they are not yet compared with the Ref.
func (c *codec) decode(dst, stored []byte, e Encoding) error {
	switch e {
	case Raw:
		if len(stored) != len(dst) {
			return fmt.Errorf("%d raw bytes for a blob of %d", len(stored), len(dst))
		}
		copy(dst, stored)
		return nil
	case Zstd:
		out, err := c.dec.DecodeAll(stored, dst[:0:len(dst)])
		if err != nil {
			return fmt.Errorf("zstd: %w", err)
		}
		if len(out) != len(dst) {
			return fmt.Errorf("zstd gave %d bytes for a blob of %d", len(out), len(dst))
		}
		return nil
	case S2:
		// Asked first, because Decode allocates what a damaged length asks for.
		if n, err := s2.DecodedLen(stored); err != nil || n != len(dst) {
			return fmt.Errorf("s2 says %d bytes for a blob of %d (%v)", n, len(dst), err)
		}
		if _, err := s2.Decode(dst, stored); err != nil {
			return fmt.Errorf("s2: %w", err)
		}
		return nil
	}
	return fmt.Errorf("unknown %v", e)
}
