package versions

import (
	"context"
	"errors"
	"fmt"
	"syscall"

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
	handed, kept, err := b.pass(ctx, base, v, refs)
	if errors.Is(err, syscall.EIO) {
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
	if id, ok := b.makers[v.ID]; ok {
		return id, nil
	}
	id, err := b.st.CommandAt(ctx, v.Origin, v.Seq)
	if err != nil {
		return 0, fmt.Errorf("blame: %w", err)
	}
	b.makers[v.ID] = id
	return id, nil
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
		next, err := b.st.VersionByID(ctx, id)
		if err != nil && !errors.Is(err, syscall.ENOENT) {
			return nil, fmt.Errorf("blame: %w", err)
		}
		b.bases[v.ID] = nil // ends a ring
		v = next
	}
	for _, id := range walked {
		b.bases[id] = found
	}
	return found, nil
}
