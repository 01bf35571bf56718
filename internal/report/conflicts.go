package report

import (
	"fmt"
	"strings"
	"time"

	"wsfs/internal/ui"
	"wsfs/versions"
)

// ConflictLine is one line of `wsfs conflicts --json` and of `wsfs watch`.
type ConflictLine struct {
	ID        int64         `json:"id"`
	Why       string        `json:"why"` // stale, blind, revert, merge or recovered
	Path      string        `json:"path,omitempty"`
	PathB64   string        `json:"path_base64,omitempty"` // if it is no UTF-8
	Time      string        `json:"time"`
	Resolved  string        `json:"resolved,omitempty"` // when
	Merged    bool          `json:"merged,omitempty"`   // as soon as it was met
	Session   string        `json:"session,omitempty"`  // who wrote
	Command   int64         `json:"command,omitempty"`
	Base      *ConflictSide `json:"base,omitempty"`
	Ours      *ConflictSide `json:"ours,omitempty"`
	Theirs    *ConflictSide `json:"theirs,omitempty"`
	Workspace string        `json:"workspace,omitempty"`
}

// ConflictSide is one content.
type ConflictSide struct {
	Session string `json:"session,omitempty"`
	Version int64  `json:"version,omitempty"`
	Size    int64  `json:"size"`
	Hash    string `json:"hash,omitempty"` // "" of what is empty
}

// ConflictLineOf is the line of a conflict.
func ConflictLineOf(c *versions.Conflict) ConflictLine {
	l := ConflictLine{ID: int64(c.ID), Why: c.Why, Time: ui.Stamp(c.At), Command: int64(c.ConflictRow.Command)}
	l.Path, l.PathB64 = ui.Text(c.Path)
	if c.Resolved {
		l.Resolved, l.Merged = ui.Stamp(c.ResolvedAt), c.ResolvedAt == c.At
	}
	side := func(s *versions.Side) *ConflictSide {
		if !s.Known {
			return nil
		}
		out := &ConflictSide{Session: s.Session, Version: int64(s.Version), Size: s.Content.Size}
		if !s.Content.Ref.IsZero() {
			out.Hash = s.Content.Ref.String()
		}
		return out
	}
	l.Base, l.Ours, l.Theirs, l.Session = side(&c.Base), side(&c.Ours), side(&c.Theirs), c.Ours.Session
	return l
}

// ConflictWhy says in words what happened.
func ConflictWhy(c *versions.Conflict) string {
	who := func(s string) string {
		if s == "" {
			return "somebody"
		}
		return ui.Name(s)
	}
	ours, theirs := who(c.Ours.Session), who(c.Theirs.Session)
	why, more, _ := strings.Cut(c.Why, ": ")
	switch why {
	case "stale":
		return fmt.Sprintf("%s wrote from a state before what %s had changed", ours, theirs)
	case "blind":
		return fmt.Sprintf("%s wrote over what %s had written, and never read it", ours, theirs)
	case "revert":
		return fmt.Sprintf("%s brought back what %s had changed", ours, theirs)
	case "merge":
		return strings.TrimSuffix("both sides changed it: "+more, ": ")
	}
	return c.Why
}

// Conflicts is a table of conflicts.
type Conflicts struct {
	o *ui.Out
	t *ui.Table
}

// NewConflicts begins one.
func NewConflicts(o *ui.Out) *Conflicts {
	return &Conflicts{o, o.NewTable(">id", "path", "when", "what happened", "state")}
}

// Row adds a conflict.
func (t *Conflicts) Row(c *versions.Conflict) {
	state := "open"
	switch {
	case c.Resolved && c.ResolvedAt == c.At:
		state = "merged"
	case c.Resolved:
		state = "resolved"
	}
	t.t.Row(Itoa(int64(c.ID)), ui.Name(c.Path), t.o.Time(time.Unix(0, c.At)), ConflictWhy(c), state)
}

// Print prints it.
func (t *Conflicts) Print() { t.t.Print() }
