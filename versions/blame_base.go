package versions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"syscall"

	"wsfs/internal/diff"
	"wsfs/store"
)

// passBase hands lines of v on to what the file was before the command that made v, if old is a version between the two by
// the same command: it may have taken lines away and brought them back. It returns the rest.
func (b *blamer) passBase(ctx context.Context, old, v *store.Version, refs []lineRef) ([]lineRef, error) {
	by, err := b.maker(ctx, v)
	if err != nil || by == 0 {
		return refs, err
	}
	base, err := b.base(ctx, old, by)
	if err != nil || base == nil || base.ID == old.ID {
		return refs, err
	}
	if may, err := b.mayHave(ctx, base, v, refs); err == nil && !may {
		return refs, nil
	}
	handed, kept, err := b.pass(ctx, base, v, refs)
	if errors.Is(err, syscall.EIO) || errors.Is(err, syscall.EFBIG) {
		return refs, nil // not on the way that lines must take
	}
	if err != nil {
		return nil, fmt.Errorf("blame: read version %d of inode %d: %w", base.ID, base.Ino, err)
	}
	b.give(base, handed)
	return kept, nil
}

// maker is the command that made a version, 0 if unknown.
func (b *blamer) maker(ctx context.Context, v *store.Version) (store.CommandID, error) {
	k, err := b.ahead.version(ctx, v.ID)
	if errors.Is(err, syscall.ENOENT) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("blame: %w", err)
	}
	return k.by, nil
}

// base is the newest version before v, v included, that another command made; nil if there is none.
func (b *blamer) base(ctx context.Context, v *store.Version, by store.CommandID) (*store.Version, error) {
	var walked []store.VersionID
	var found *store.Version
	for v != nil {
		if base, ok := b.bases[v.ID]; ok {
			found = base
			break
		}
		if maker, err := b.maker(ctx, v); err != nil {
			return nil, err
		} else if maker != by {
			found = v
			break
		}
		walked = append(walked, v.ID)
		id := v.Replaced
		if id == 0 {
			id = v.Parent
		}
		if id == 0 {
			break
		}
		next, err := b.ahead.version(ctx, id)
		if err != nil && !errors.Is(err, syscall.ENOENT) {
			return nil, fmt.Errorf("blame: %w", err)
		}
		b.bases[v.ID] = nil // ends a ring
		if v = nil; next != nil {
			v = next.v
		}
	}
	for _, id := range walked {
		b.bases[id] = found
	}
	return found, nil
}

// baseLines is the lines of the base that was asked for last.
type baseLines struct {
	id   store.VersionID
	seed maphash.Seed
	has  map[uint64]bool
}

// mayHave reports whether base has any of these lines of v, at whatever place: if not, comparing the two gives nothing. A
// command that saves a file many times would otherwise have each of its versions compared with what was before it.
func (b *blamer) mayHave(ctx context.Context, base, v *store.Version, refs []lineRef) (bool, error) {
	if base.Type() != v.Type() || base.Size == 0 || base.Content == v.Content {
		return true, nil // pass knows
	}
	if b.before.id != base.ID {
		text, err := b.text(ctx, base)
		if err != nil {
			return false, err
		}
		b.before = baseLines{id: base.ID, seed: maphash.MakeSeed(), has: make(map[uint64]bool)}
		for _, line := range diff.Lines(text) {
			b.before.has[maphash.Bytes(b.before.seed, line)] = true
		}
	}
	text, err := b.text(ctx, v)
	if err != nil {
		return false, err
	}
	at, next := int32(0), 0 // the line at the beginning of text
	for ; next < len(refs) && len(text) > 0; at++ {
		n := bytes.IndexByte(text, '\n') + 1
		if n == 0 {
			n = len(text)
		}
		if refs[next].at == at {
			if b.before.has[maphash.Bytes(b.before.seed, text[:n])] {
				return true, nil
			}
			next++
		}
		text = text[n:]
	}
	return false, nil
}
