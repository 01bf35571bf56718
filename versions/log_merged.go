package versions

import (
	"context"
	"fmt"

	"wsfs/store"
)

// MergedFrom is what a merge took in.
type MergedFrom struct {
	Workspace string // "" if it is not known any more
	Seq       store.Seq
}

// String is `merge of w@12`.
func (m *MergedFrom) String() string {
	name := m.Workspace
	if name == "" {
		name = "a workspace that is gone"
	}
	return fmt.Sprintf("merge of %s@%d", name, m.Seq)
}

func (l *logger) mergedFrom(ctx context.Context, row *store.ChangeRow) (*MergedFrom, error) {
	if row.Merged == nil {
		return nil, nil
	}
	name, ok := l.named[row.Merged.Timeline]
	if !ok {
		var err error
		if name, err = l.st.WorkspaceOn(ctx, row.Merged.Timeline); err != nil {
			return nil, err
		}
		if l.named == nil {
			l.named = map[store.TimelineID]string{}
		}
		l.named[row.Merged.Timeline] = name
	}
	return &MergedFrom{name, row.Merged.Seq}, nil
}
