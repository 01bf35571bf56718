package versions

import (
	"context"
	"fmt"

	"wsfs/store"
)

// Rows are the conflicts of a plan as the store keeps them: what ours has stands, Content is what theirs has.
func (p *MergePlan) Rows(st *store.Store) []store.Conflict {
	var out []store.Conflict
	for i := range p.Conflicts {
		c := &p.Conflicts[i]
		r := store.Conflict{ID: st.NewConflictID(), Why: store.WhyMerge + ": " + c.Why, Ino: c.Ino, Parent: c.Parent, Name: c.Name}
		if c.Base != nil {
			r.Base = c.Base.ID
		}
		if c.Ours != nil {
			r.Head = c.Ours.ID
		}
		if c.Theirs != nil {
			r.Content = c.Theirs.Content
		}
		out = append(out, r)
	}
	return out
}

// Pins keep the state that was taken in, which the next merge compares with, and let go of the one before.
func (p *MergePlan) Pins(ctx context.Context, st *store.Store, into, from store.WorkspaceID) ([]store.PinChange, error) {
	if p.Merged == nil {
		return nil, nil
	}
	pin := store.Pin{Timeline: p.Merged.Timeline, Seq: p.Merged.Seq, Kind: store.PinMerge, Ref: fmt.Sprintf("%d %d", into, from)}
	old, err := st.Pins(ctx, store.PinMerge)
	if err != nil {
		return nil, err
	}
	out := []store.PinChange{{Pin: pin}}
	for _, o := range old {
		if o.Ref == pin.Ref && o != pin {
			out = append(out, store.PinChange{Pin: o, Remove: true})
		}
	}
	return out, nil
}
