// Command age gives a workspace a past, for scripts/bench: a tree of small files and any number of changes behind it, made
// as a mount makes them but without a kernel in between. The tree that is there in the end does not depend on how many.
//
//	age [-dirs 40] [-files 100] STORE WORKSPACE CHANGES
//
// The workspace exists and is mounted nowhere. The files are written again and again, by one command for every 100 changes and
// one session for every 10,000; one change in ten is a temporary file that comes and goes, one in twenty a save by temporary
// file and rename. With 0 changes the tree is made and no more.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"wsfs/fs"
	"wsfs/store"
	"wsfs/store/sqlite"
)

func main() {
	dirs := flag.Int("dirs", 40, "directories")
	files := flag.Int("files", 100, "files in each")
	flag.Parse()
	if err := run(context.Background(), flag.Args(), *dirs, *files); err != nil {
		fmt.Fprintln(os.Stderr, "age:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, dirs, files int) (err error) {
	if len(args) != 3 {
		return errors.New("usage: age STORE WORKSPACE CHANGES")
	}
	changes, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	st, err := store.Open(ctx, args[0], sqlite.Driver(), store.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	ws, err := st.Workspace(ctx, args[1])
	if err != nil {
		return err
	}
	f, err := fs.Open(ctx, st, ws, fs.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	a := &ager{st: st, f: f, ws: ws.ID, dirs: make([]store.Ino, dirs), files: files}
	if err := a.tree(); err != nil {
		return err
	}
	if changes == 0 {
		return nil
	}
	for a.n < changes {
		if err := a.step(); err != nil {
			return fmt.Errorf("change %d: %w", a.n, err)
		}
	}
	return a.end()
}

type ager struct {
	st  *store.Store
	f   *fs.FS
	ws  store.WorkspaceID
	n   int // changes made
	who store.Attribution

	dirs  []store.Ino
	files int // in each
}

// call is by the command whose turn it is.
func (a *ager) call() *fs.Call {
	now := time.Now().UnixNano()
	if a.n%10_000 == 0 || a.who.Session == nil {
		a.who.Session = &store.Session{ID: a.st.NewSessionID(), Name: fmt.Sprintf("past-%d", a.n/10_000), Workspace: a.ws, StartedAt: now}
		a.who.Command = nil
	}
	if a.n%100 == 0 || a.who.Command == nil {
		a.who.Command = &store.Command{ID: a.st.NewCommandID(), Session: a.who.Session.ID, N: a.n / 100, Argv: "age", StartedAt: now}
		a.who.Process = &store.Process{ID: a.st.NewProcessID(), Session: a.who.Session.ID, PID: 2, Comm: "age"}
	}
	who := a.who
	a.n++
	return &fs.Call{PID: 2, Who: func() store.Attribution { return who }}
}

func (a *ager) tree() error {
	for i := range a.dirs {
		at, err := a.f.Mkdir(a.call(), store.RootIno, fmt.Sprintf("d%02d", i), 0o755)
		if err != nil {
			return err
		}
		a.dirs[i] = at.ID
		for k := range a.files {
			if err := a.write(i, name(k), text(i, k, -1)); err != nil {
				return err
			}
		}
	}
	return nil
}

func name(k int) string { return fmt.Sprintf("f%02d", k) }

func text(d, k, n int) string {
	return fmt.Sprintf("file %d of directory %d\nas of change %d\n", k, d, n)
}

func (a *ager) write(d int, name, text string) error {
	c := a.call()
	at, h, err := a.f.Create(c, a.dirs[d], name, 0o644, syscall.O_WRONLY|syscall.O_TRUNC)
	if err != nil {
		return err
	}
	if _, err = h.WriteAt(c, []byte(text), 0, false); err == nil {
		err = h.Flush(c, 1)
	}
	h.Release(c, 1)
	a.f.Forget(at.ID, 1)
	return err
}

// step makes one change or two.
func (a *ager) step() error {
	d, k := a.n/7%len(a.dirs), a.n*31%a.files
	switch {
	case a.n%20 < 2:
		if err := a.write(d, "temporary", "here for a moment\n"); err != nil {
			return err
		}
		return a.f.Unlink(a.call(), a.dirs[d], "temporary")
	case a.n%20 == 2:
		if err := a.write(d, "saved", text(d, k, a.n)); err != nil {
			return err
		}
		return a.f.Rename(a.call(), a.dirs[d], "saved", a.dirs[d], name(k), 0)
	}
	return a.write(d, name(k), text(d, k, a.n))
}

// end gives every file the text that it has whatever came before.
func (a *ager) end() error {
	for d := range a.dirs {
		for k := range a.files {
			if err := a.write(d, name(k), text(d, k, -1)); err != nil {
				return err
			}
		}
	}
	return nil
}
