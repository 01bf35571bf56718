package versions

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"wsfs/store"
)

// MergedFrom is what a merge took in.
type MergedFrom struct {
	Workspace string // "" if it is not known any more
	Seq       store.Seq
	Part      []Taken // nil: all of it
}

// String is `merge of w@12`.
func (m *MergedFrom) String() string {
	name := m.Workspace
	if name == "" {
		name = "a workspace that is gone"
	}
	if len(m.Part) > 0 {
		var shown []string
		for _, t := range m.Part[:min(len(m.Part), 5)] {
			s := t.Path
			if !strconv.CanBackquote(s) {
				s = strconv.Quote(s)
			}
			if len(t.IDs) > 0 {
				s += " (" + strings.Join(t.IDs, " ") + ")"
			}
			shown = append(shown, s)
		}
		more := ""
		if n := len(m.Part) - len(shown); n > 0 {
			more = fmt.Sprintf(" and %d more", n)
		}
		return fmt.Sprintf("merge of %s@%d, a part: %s%s", name, m.Seq, strings.Join(shown, ", "), more)
	}
	return fmt.Sprintf("merge of %s@%d", name, m.Seq)
}

func (l *logger) mergedFrom(ctx context.Context, row *store.ChangeRow) (*MergedFrom, error) {
	from := row.Merged
	var part []Taken
	if from == nil {
		for i := range row.Accepted {
			r := &row.Accepted[i]
			from = &store.Merged{Timeline: r.Timeline, Seq: r.Seq}
			part = append(part, Taken{r.Path, r.Hunks})
		}
	}
	if from == nil {
		return nil, nil
	}
	name, ok := l.named[from.Timeline]
	if !ok {
		var err error
		if name, err = l.st.WorkspaceOn(ctx, from.Timeline); err != nil {
			return nil, err
		}
		if l.named == nil {
			l.named = map[store.TimelineID]string{}
		}
		l.named[from.Timeline] = name
	}
	return &MergedFrom{name, from.Seq, part}, nil
}
