package main

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"

	"wsfs/internal/daemon"
	"wsfs/internal/ui"
	"wsfs/store"
	"wsfs/versions"
)

// changedNames collects what a log leaves changed, for programs that take a list of paths (`git add --pathspec-from-file=-`): what is there
// now, and what was there before and is gone. Nothing below .git.
type changedNames struct {
	gone map[string]bool // by path: the newest entry took it away
	made map[string]bool // the oldest entry made it
}

// entry takes the next older one.
func (c *changedNames) entry(e *versions.Entry) error {
	if c.gone == nil {
		c.gone, c.made = map[string]bool{}, map[string]bool{}
	}
	if e.Type == syscall.S_IFDIR && e.What != versions.Renamed {
		return nil // what is in it says it
	}
	switch e.What {
	case versions.Renamed:
		c.note(e.Path, false, true)
		c.note(e.From, true, false)
	case versions.Deleted:
		c.note(e.Path, true, false)
	case versions.Created, versions.Linked:
		c.note(e.Path, false, e.Old == nil)
	case versions.Moved, versions.Made, versions.Temporary:
	default:
		c.note(e.Path, false, false)
	}
	return nil
}

func (c *changedNames) note(name string, gone, made bool) {
	if name == "" || slices.Contains(strings.Split(name, "/"), ".git") {
		return
	}
	if _, newer := c.gone[name]; !newer {
		c.gone[name] = gone
	}
	c.made[name] = made
}

// print writes those below here, as seen from there.
func (c *changedNames) print(ctx context.Context, out *ui.Out, view *store.View, here string, zero bool) error {
	var list []string
	for name, gone := range c.gone {
		shown := name
		if here != "" {
			var below bool
			if shown, below = strings.CutPrefix(name, here+"/"); !below {
				continue
			}
		}
		_, err := versions.Find(ctx, view, path.Clean("/"+name), false)
		switch {
		case err == nil:
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR):
			return err
		case !gone || c.made[name]: // others took it away, or it came and went
			continue
		}
		list = append(list, shown)
	}
	slices.Sort(list)
	for _, name := range list {
		line := ui.Name(name) + "\n"
		if zero {
			line = name + "\x00"
		}
		if _, err := out.Writer().WriteString(line); err != nil {
			return err
		}
	}
	if len(list) == 0 {
		return daemon.Fail(daemon.ExitNothing, "log --names: nothing is changed there")
	}
	return nil
}
