package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"wsfs/internal/daemon"
	"wsfs/internal/ui"
	"wsfs/store"
	"wsfs/store/sqlite"
	"wsfs/versions"
)

// Beyond these a directory is not imported only because somebody runs a command in it.
const (
	projectEntries = 200_000
	projectBytes   = 20 << 30
)

// project finds the workspace of an ordinary directory and takes in what has changed there since the last time. A
// directory that never was a workspace is imported. at is the directory to take; "": the nearest above cwd that is a
// workspace, else the git top level, else cwd.
func (a *app) project(ctx context.Context, dir, cwd, at string, keep bool) (name, root string, err error) {
	if _, err := os.Stat(filepath.Join(dir, sqlite.File)); errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
			return "", "", err
		}
		if err := store.Init(ctx, dir, sqlite.Driver()); err != nil {
			return "", "", err
		}
		a.note("made store %s", ui.Name(dir))
	}
	st, err := a.openRead(ctx, dir)
	if err != nil {
		return "", "", err
	}
	all, err := st.Workspaces(ctx)
	st.Close()
	if err != nil {
		return "", "", err
	}
	origins, names := map[string]string{}, map[string]bool{}
	for _, ws := range all {
		names[ws.Name] = true
		if ws.Parent == 0 && ws.OriginPath != "" && origins[ws.OriginPath] == "" {
			origins[ws.OriginPath] = ws.Name
		}
	}
	if root = at; root == "" {
		root = a.projectRoot(cwd, origins)
	}
	name, known := origins[root]
	if !known {
		if err := a.checkProject(root, dir); err != nil {
			return "", "", err
		}
		name = freeName(root, names)
		a.note("importing %s as workspace %s", ui.Name(root), name)
	}
	return name, root, a.takeIn(ctx, dir, name, root, known, keep)
}

// takeIn takes into a workspace what has changed in the directory that it came from, or makes it of the directory.
func (a *app) takeIn(ctx context.Context, dir, name, root string, known, keep bool) error {
	bar := a.importBar(name)
	var res *daemon.ImportReply
	err := a.withDaemon(ctx, dir, func(c *daemon.Client) (err error) {
		res, err = c.Take(ctx, daemon.TakeRequest{Workspace: name, Dir: daemon.Path(root), Keep: keep}, bar.line)
		return err
	})
	bar.Close()
	if res != nil {
		for _, p := range res.Conflicts {
			a.note("both changed %s", ui.Name(string(p)))
		}
		for _, s := range res.Skipped {
			a.note("skipped: %s", s)
		}
	}
	if err != nil {
		return err
	}
	for _, p := range res.Merged {
		a.note("merged %s", ui.Name(string(p)))
	}
	if known && res.Seq != 0 {
		a.note("taken in from %s: %s", ui.Name(root), tally{int(res.Added), int(res.Changed), int(res.Removed)})
	}
	return nil
}

// takeInNamed is takeIn for a workspace that was named, if it came from a directory that is there, and that is the one
// it is to appear on.
func (a *app) takeInNamed(ctx context.Context, mounts []daemon.MountInfo, dir, name, at string, keep bool) error {
	st, err := a.openRead(ctx, dir)
	if err != nil {
		return err
	}
	ws, err := versions.FindWorkspace(ctx, st.Store, name)
	st.Close()
	if err != nil {
		return err
	}
	root := ws.OriginPath
	if ws.Parent != 0 || root == "" || at != "" && at != root {
		return nil
	}
	if m := daemon.MountOf(mounts, root); m != nil && m.Ours() {
		return nil // it is shown there already
	}
	if info, err := os.Lstat(root); err != nil || !info.IsDir() {
		return nil //nolint:nilerr // it went away; the workspace is what there is
	}
	return a.takeIn(ctx, dir, name, root, true, keep)
}

// projectRoot is the directory that a command in cwd is about.
func (a *app) projectRoot(cwd string, origins map[string]string) string {
	for dir := cwd; ; dir = filepath.Dir(dir) {
		if _, ok := origins[dir]; ok {
			return dir
		}
		if dir == "/" {
			break
		}
	}
	home := filepath.Clean(a.getenv("HOME"))
	for dir := cwd; dir != "/" && dir != home; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dir
		}
	}
	return cwd
}

// checkProject refuses what is surely no project: the home directory and what is above it, and what is very large.
func (a *app) checkProject(root, dir string) error {
	if below(dir, root) {
		return checkTarget(root, dir)
	}
	home := a.getenv("HOME")
	special := root == "/" || filepath.IsAbs(home) && below(filepath.Clean(home), root)
	entries, size, all := measure(root)
	if !special && all {
		return nil
	}
	more := ""
	if !all {
		more = "more than "
	}
	return daemon.Fail(daemon.ExitDecision, "run in %s: it holds %s%s entries with %s and was never imported; go into a project's directory, or "+
		"`wsfs import %s NAME` if you mean it, and run again", ui.Name(root), more, ui.Count(entries), ui.Bytes(size), ui.Quote(root))
}

// measure counts a tree up to the bounds of a project; all is false beyond them.
func measure(root string) (entries, size int64, all bool) {
	errEnough := errors.New("enough")
	err := filepath.WalkDir(root, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // what may not be read is told by the import
		}
		entries++
		if e.Type().IsRegular() {
			if info, err := e.Info(); err == nil {
				size += info.Size()
			}
		}
		if entries > projectEntries || size > projectBytes {
			return errEnough
		}
		return nil
	})
	return entries, size, err == nil
}

// freeName makes a name for the workspace of a directory.
func freeName(root string, taken map[string]bool) string {
	base := strings.Map(func(r rune) rune {
		if strings.ContainsRune("/:@ \t\r\n", r) {
			return '-'
		}
		return r
	}, filepath.Base(root))
	if len(base) > 100 || versions.CheckWorkspaceName(base) != nil {
		base = "project"
	}
	name := base
	for n := 2; taken[name]; n++ {
		name = fmt.Sprintf("%s-%d", base, n)
	}
	return name
}
