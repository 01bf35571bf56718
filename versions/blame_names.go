package versions

import (
	"context"
	"fmt"

	"wsfs/store"
)

// namesAtOnce owners are looked up together, while more are being found.
const namesAtOnce = 128

// naming is owners that are looked up on another goroutine; done is closed at the end of that.
type naming struct {
	owners []*LineOwner
	rows   []*store.ChangeRow
	err    error
	done   chan struct{}
}

// beginNames begins to find out who made the versions that own lines.
func (b *blamer) beginNames(ctx context.Context) {
	n := &naming{owners: b.fresh, done: make(chan struct{})}
	b.names, b.fresh = append(b.names, n), nil
	at := make([]store.Segment, len(n.owners))
	for i, o := range n.owners {
		at[i] = store.Segment{Timeline: o.Version.Origin, Cut: o.Version.Seq}
	}
	before := make(chan struct{})
	if i := len(b.names) - 2; i >= 0 {
		before = b.names[i].done
	} else {
		close(before)
	}
	b.ahead.other(ctx, func(ctx context.Context) {
		<-before // one at a time: the reading of texts has the other processors
		n.rows, n.err = b.st.ChangesAt(ctx, at)
		close(n.done)
	})
}

// endNames waits until all owners have their names.
func (b *blamer) endNames(ctx context.Context) error {
	if len(b.fresh) > 0 {
		b.beginNames(ctx)
	}
	for _, n := range b.names {
		<-n.done
		if n.err != nil {
			return fmt.Errorf("blame: %w", n.err)
		}
		for i, row := range n.rows {
			if row == nil {
				continue // unknown stays unknown
			}
			o := n.owners[i]
			o.At, o.Session, o.Command, o.Process = row.At, row.Session, row.Command, row.Process
		}
	}
	return nil
}
