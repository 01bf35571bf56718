package control

import (
	"context"
	"errors"

	"wsfs/fs"
	"wsfs/internal/report"
	"wsfs/internal/ui"
	"wsfs/store"
	"wsfs/versions"
)

// maxLog is how many entries of the log are shown; `wsfs log` has no end.
const maxLog = firstLimit * nextLimit * nextLimit

// errEnough ends a log at its limit.
var errEnough = errors.New("enough")

// openLog is .wsfs/log and log.json: what `wsfs log --all` prints, of the state at the first read.
func (t *Tree) openLog(json bool) fs.Generated {
	var view *store.View
	return &file{make: func(ctx context.Context, limit int) ([]byte, bool, error) {
		if view == nil {
			v, err := t.o.View(ctx)
			if err == nil {
				v, err = t.o.Store.Pin(ctx, v)
			}
			if err != nil {
				return nil, false, err
			}
			view = v
		}
		n := 0
		text, err := t.print(func(o *ui.Out) error {
			p := &report.Log{Out: o, JSON: json}
			err := versions.Log(ctx, t.o.Store, versions.LogQuery{View: view}, func(e *versions.Entry) error {
				if n == limit {
					return errEnough
				}
				n++
				return p.Entry(e)
			})
			if errors.Is(err, errEnough) {
				err = nil
			}
			return err
		})
		if err != nil {
			return nil, false, err
		}
		return text, n == limit && limit < maxLog, nil
	}}
}

// commands is .wsfs/commands: what `wsfs commands` prints.
func (t *Tree) commands(ctx context.Context) ([]byte, error) {
	if _, err := t.o.View(ctx); err != nil { // everything is in the database
		return nil, err
	}
	rows, err := t.o.Store.Sessions(ctx, t.o.Workspace, maxLog)
	if err != nil {
		return nil, err
	}
	sessions := map[store.SessionID]string{}
	for _, r := range rows {
		sessions[r.ID] = r.Name
	}
	return t.print(func(o *ui.Out) error {
		list := report.NewCommands(o)
		err := t.o.Store.Commands(ctx, store.CommandQuery{Workspace: t.o.Workspace}, func(c *store.CommandRow) error {
			list.Row(c, sessions[c.Session])
			return nil
		})
		list.Print()
		return err
	})
}
