package main

import (
	"context"
	"time"

	"wsfs/internal/report"
	"wsfs/internal/runner"
	"wsfs/internal/ui"
	"wsfs/store"
	"wsfs/versions"
)

// maxTold is how many conflicts a run tells of by name.
const maxTold = 5

// runConflicts tells of the conflicts that a run met and that are open, and returns how many there are; also of a run that changed nothing because
// what it wrote was refused.
func (a *app) runConflicts(ctx context.Context, p *runPlace, session string, began time.Time, res runner.Result) int {
	st, err := a.openRead(ctx, p.store)
	if err != nil {
		a.note("whether it met what others changed is not known: %v", err)
		return 0
	}
	defer st.Close()
	commands := map[store.CommandID]bool{}
	for _, c := range res.Commands {
		commands[store.CommandID(c.Command)] = true
	}
	rows, err := st.Conflicts(ctx, store.ConflictQuery{})
	n := 0
	for i := range rows {
		r := &rows[i]
		if r.At < began.UnixNano() {
			break // the newest come first
		}
		if !commands[r.Command] {
			s, err := st.SessionByID(ctx, r.Session)
			if err != nil || s.Name != session {
				continue
			}
		}
		if n++; n > maxTold {
			continue
		}
		list, err := versions.Conflicts(ctx, st.Store, store.ConflictQuery{ID: r.ID})
		if err == nil && len(list) == 1 {
			c := &list[0]
			a.note("conflict %d: %s: %s; `wsfs resolve%s %d --ours|--theirs|--merge` decides", c.ID, ui.Name(c.Path), report.ConflictWhy(c), a.dashW(p, p.Workspace), c.ID)
		}
	}
	if n > maxTold {
		a.note("and %s more; `wsfs conflicts%s` lists them", plural(n-maxTold, "conflict"), a.dashW(p, p.Workspace))
	}
	if err != nil {
		a.note("whether it met what others changed is not known: %v", err)
	}
	return n
}
