package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"wsfs/internal/daemon"
	"wsfs/internal/runner"
	"wsfs/internal/ui"
	"wsfs/store"
	"wsfs/versions"
)

// tally counts what a command did to paths.
type tally struct{ created, changed, removed int }

func (t tally) String() string {
	var parts []string
	for _, p := range []struct {
		n    int
		word string
	}{{t.created, "created"}, {t.changed, "changed"}, {t.removed, "removed"}} {
		if p.n > 0 {
			parts = append(parts, p.word+" "+ui.Count(int64(p.n)))
		}
	}
	if len(parts) == 0 {
		return "left everything as it was"
	}
	return strings.Join(parts, ", ")
}

// summary tells in one line for each workspace what a run changed. It is no result: errors are told as well.
func (a *app) summary(ctx context.Context, p *runPlace, spec *runner.Spec, res runner.Result, began time.Time) {
	if err := a.trySummary(ctx, p, spec, res, began); err != nil {
		a.note("what was changed is not known: %v", err)
	}
}

func (a *app) trySummary(ctx context.Context, p *runPlace, spec *runner.Spec, res runner.Result, began time.Time) error {
	if res.Unknown {
		return fmt.Errorf("the daemon did not answer; its log is %s", daemon.LogFile(p.store))
	}
	if spec.Command.Each {
		return a.sessionSummary(ctx, p, spec.Command.Session, began)
	}
	if len(res.Commands) == 0 {
		a.note("nothing changed in %s", p.Workspace)
		return nil
	}
	st, err := a.openRead(ctx, p.store)
	if err != nil {
		return err
	}
	defer st.Close()
	for _, c := range res.Commands {
		rev := versions.Revision{Workspace: c.Workspace, Point: versions.Point{Kind: versions.BeforeCommand, Command: store.CommandID(c.Command)}}
		resolved, err := versions.Resolve(ctx, st.Store, rev, time.Now())
		if err != nil {
			return err
		}
		shown, err := versions.Show(ctx, st.Store, resolved)
		if err != nil {
			return err
		}
		var t tally
		for _, e := range shown.Entries {
			switch e.What {
			case versions.Added:
				t.created++
			case versions.Removed:
				t.removed++
			default:
				t.changed++
			}
		}
		line := fmt.Sprintf("c%d %s in %s; `wsfs undo%s --command c%d` takes it back", c.Command, t, c.Workspace, a.dashW(p, c.Workspace), c.Command)
		a.note("%s%s", line, a.applyHint(p, c.Workspace))
	}
	return nil
}

// clockTick is how much too early a process may seem to have started: the kernel tells it in hundredths of a second.
const clockTick = 10 * time.Millisecond

// sessionSummary is the summary of a shell or an agent.
func (a *app) sessionSummary(ctx context.Context, p *runPlace, session string, began time.Time) error {
	st, err := a.openRead(ctx, p.store)
	if err != nil {
		return err
	}
	defer st.Close()
	ws, err := st.Workspace(ctx, p.Workspace)
	if err != nil {
		return err
	}
	rows, err := st.Sessions(ctx, ws.ID, knownSessions)
	if err != nil {
		return err
	}
	view, err := st.ViewOf(ctx, ws)
	if err != nil {
		return err
	}
	var t tally
	commands := map[store.CommandID]bool{}
	for _, r := range rows {
		if r.Name != session {
			continue
		}
		err := st.Commands(ctx, store.CommandQuery{Workspace: ws.ID, Session: r.ID}, func(c *store.CommandRow) error {
			if c.StartedAt < began.Add(-clockTick).UnixNano() || c.Timeline == 0 {
				return nil
			}
			commands[c.ID] = true
			return versions.Log(ctx, st.Store, versions.LogQuery{View: view, Command: c.ID}, func(e *versions.Entry) error {
				switch e.What {
				case versions.Created, versions.Linked:
					t.created++
				case versions.Deleted:
					t.removed++
				case versions.Temporary:
				default:
					t.changed++
				}
				return nil
			})
		})
		if err != nil {
			return err
		}
	}
	if len(commands) == 0 {
		a.note("nothing changed in %s", p.Workspace)
		return nil
	}
	a.note("session %s %s in %s with %s; `wsfs undo%s --session %s` takes it back%s", session, t, p.Workspace,
		plural(len(commands), "command"), a.dashW(p, p.Workspace), ui.Quote(session), a.applyHint(p, p.Workspace))
	return nil
}

// knownSessions is how many sessions back a run looks for its own.
const knownSessions = 256

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return ui.Count(int64(n)) + " " + what + "s"
}

// dashW names the workspace to a command, unless that finds it by itself.
func (a *app) dashW(p *runPlace, workspace string) string {
	if w, err := a.here(); err == nil && w.store == p.store && w.workspace == workspace {
		return ""
	}
	return " -w " + ui.Quote(workspace)
}

// applyHint says how the changes get into the directory that the workspace came from.
func (a *app) applyHint(p *runPlace, workspace string) string {
	if workspace != p.Workspace || p.Origin == "" || string(p.Origin) != p.target {
		return ""
	}
	return fmt.Sprintf(", `wsfs apply %s` writes it to %s", ui.Quote(workspace), ui.Name(string(p.Origin)))
}
