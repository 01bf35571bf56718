package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"wsfs/internal/daemon"
	"wsfs/store"
	"wsfs/versions"
)

// where is the place a command works on: a store, and if it is on a mount the workspace and the path in it.
type where struct {
	store     string // directory, absolute, without symbolic links; it may not exist
	workspace string // "" if the place is on no mount of the store
	path      string // in the workspace, "" for its root
	past      string // the point whose state the path is in, if it leads through .wsfs/at; "": what the mount shows
	mount     *daemon.MountInfo
}

// now is what a workspace without a point means there: its present, or the state that a pinned mount shows.
func (w where) now() versions.Revision {
	rev := versions.Revision{Workspace: w.workspace}
	if w.past != "" {
		if past, err := versions.Parse("@"+w.past, time.Local); err == nil {
			rev.Point = past.Point
			return rev
		}
	}
	if w.mount != nil {
		if n, err := strconv.ParseInt(w.mount.Seq(), 10, 64); err == nil {
			rev.Point = versions.Point{Kind: versions.AtSeq, Seq: store.Seq(n)}
		}
	}
	return rev
}

// here is the place of the current directory.
func (a *app) here() (where, error) {
	cwd, err := getwd()
	if err != nil {
		return where{}, err
	}
	return a.placeOf(cwd)
}

// placeOf is the place of a path, which need not exist. --store decides first, then the mount that the path is on, then
// the mount of the current directory, then the environment.
func (a *app) placeOf(path string) (where, error) {
	mounts, err := daemon.Mounts()
	if err != nil {
		return where{}, err
	}
	abs, err := a.realPath(mounts, path)
	if err != nil {
		return where{}, err
	}
	w := where{}
	if a.storeFlag != "" {
		if w.store, err = a.realPath(mounts, a.storeFlag); err != nil {
			return w, err
		}
	}
	if m := daemon.MountOf(mounts, abs); m != nil && m.Ours() && (w.store == "" || w.store == m.Store()) {
		return placeOn(m, abs), nil
	}
	if w.store != "" {
		return w, nil
	}
	if cwd, err := getwd(); err == nil {
		if m := daemon.MountOf(mounts, cwd); m != nil && m.Ours() {
			w.store = m.Store()
			return w, nil
		}
	}
	def, err := a.defaultStore()
	if err != nil {
		return w, err
	}
	w.store, err = a.realPath(mounts, def)
	return w, err
}

// placeOn is the place of abs, which is on m. In a mount of all workspaces the first name is that of the workspace; below
// .wsfs/at/REV a path is what it is without that, at REV.
func placeOn(m *daemon.MountInfo, abs string) where {
	w := where{store: m.Store(), workspace: m.Workspace(), path: m.PathIn(abs), mount: m}
	if m.All() {
		w.workspace, w.path, _ = strings.Cut(w.path, "/")
	}
	if rest, ok := strings.CutPrefix(w.path, ".wsfs/at/"); ok {
		w.past, w.path, _ = strings.Cut(rest, "/")
	}
	return w
}

func (a *app) defaultStore() (string, error) {
	if s := a.getenv("WSFS_STORE"); s != "" {
		return s, nil
	}
	if s := a.getenv("XDG_DATA_HOME"); s != "" && filepath.IsAbs(s) {
		return filepath.Join(s, "wsfs"), nil
	}
	if home := a.getenv("HOME"); home != "" {
		return filepath.Join(home, ".local", "share", "wsfs"), nil
	}
	return "", daemon.Fail(daemon.ExitUsage, "find the store: neither --store nor $WSFS_STORE nor $HOME says where it is")
}

// getwd is the kernel's idea of the current directory: unlike os.Getwd it does not stat, so it works on a dead mount.
func getwd() (string, error) {
	cwd, err := syscall.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the current directory: %w", err)
	}
	if !strings.HasPrefix(cwd, "/") {
		return "", errors.New("find the current directory: it was removed or lies outside this file system's root; change to another one")
	}
	return cwd, nil
}

// realPath makes path absolute and resolves its symbolic links. What does not exist is kept as it is, and a mountpoint
// of ours, which may be dead, is not touched.
func (a *app) realPath(mounts []daemon.MountInfo, path string) (string, error) {
	if strings.IndexByte(path, 0) >= 0 {
		return "", daemon.Fail(daemon.ExitUsage, "path %q holds a NUL byte", path)
	}
	if len(path) > 4095 {
		return "", daemon.Fail(daemon.ExitUsage, "path %.60q... is %d bytes long, at most 4095 are possible: %w", path, len(path), syscall.ENAMETOOLONG)
	}
	abs := path
	if !filepath.IsAbs(abs) {
		cwd, err := getwd()
		if err != nil {
			return "", err
		}
		abs = filepath.Join(cwd, path)
	}
	return resolve(mounts, filepath.Clean(abs), 0), nil
}

// resolve follows symbolic links as far as the path exists. It knows mountpoints by name and does not ask them.
func resolve(mounts []daemon.MountInfo, abs string, depth int) string {
	if abs == "/" || depth > 40 {
		return abs
	}
	if m := daemon.MountAt(mounts, abs); m != nil && m.Ours() {
		return abs
	}
	dir := resolve(mounts, filepath.Dir(abs), depth)
	full := filepath.Join(dir, filepath.Base(abs))
	if m := daemon.MountAt(mounts, full); m != nil && m.Ours() {
		return full
	}
	target, err := os.Readlink(full)
	if err != nil {
		return full
	}
	if !filepath.IsAbs(target) {
		target = filepath.Join(dir, target)
	}
	return resolve(mounts, filepath.Clean(target), depth+1)
}

// placeOfName is placeOf for a path whose last part names itself, not what a link there points to.
func (a *app) placeOfName(path string) (where, error) {
	clean := filepath.Clean(path)
	base := filepath.Base(clean)
	if base == "." || base == ".." || base == "/" {
		return a.placeOf(path)
	}
	abs := clean
	if !filepath.IsAbs(abs) {
		cwd, err := getwd()
		if err != nil {
			return where{}, err
		}
		abs = filepath.Join(cwd, clean)
	}
	if mounts, err := daemon.Mounts(); err == nil && daemon.MountAt(mounts, abs) != nil {
		return a.placeOf(path)
	}
	w, err := a.placeOf(filepath.Dir(abs))
	if err != nil || w.mount == nil {
		return w, err
	}
	if len(base) > 255 {
		return w, daemon.Fail(daemon.ExitUsage, "path %.60q...: its name is %d bytes long, at most 255 are possible: %w", path, len(base), syscall.ENAMETOOLONG)
	}
	if w.mount.All() && w.workspace == "" {
		w.workspace = base
	} else {
		w.path = filepath.Join(w.path, base)
	}
	return w, nil
}
