package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"wsfs/blob"
	"wsfs/internal/hosttree"
	"wsfs/store"
)

// write carries the steps out: everything new is staged and synced first, then names change, files one by one in an
// instant each, and at last all of it is looked at again.
func (p *applying) write(ctx context.Context) (err error) {
	if err := p.tree.Clean(); err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	defer func() { err = errors.Join(err, p.tree.Clean()) }()
	staged, err := p.stage(ctx)
	if err != nil {
		return fmt.Errorf("apply to %s: nothing was changed: %w", p.dir, err)
	}
	p.d.at("staged")
	for i := range p.steps {
		if err := p.stillOurs(&p.steps[i]); err != nil {
			return fmt.Errorf("apply to %s: nothing was changed: %w", p.dir, err)
		}
	}
	done, touched := 0, false
	fail := func(err error) error {
		if done == 0 && !touched {
			return fmt.Errorf("apply to %s: nothing was changed: %w", p.dir, err)
		}
		return fmt.Errorf("apply to %s: %d of %d paths were written when it failed; the same command goes on: %w", p.dir, done, len(p.steps), err)
	}
	for i := len(p.steps) - 1; i >= 0; i-- { // what a directory holds goes before it
		s := &p.steps[i]
		if !s.removes() {
			continue
		}
		if err := p.stillThere(s.path, &s.host); err != nil {
			return fail(err)
		}
		if err := p.tree.Remove(s.path, s.host.IsDir()); err != nil {
			return fail(err)
		}
		if touched = true; !s.want.Exists() {
			done++
		}
	}
	for i := range p.steps {
		s := &p.steps[i]
		var err error
		switch {
		case !s.want.Exists():
			continue
		case s.want.IsDir() && !s.host.IsDir():
			uid, gid := p.newOwner(s)
			err = p.tree.Mkdir(s.path, uid, gid)
		case s.mode:
			continue
		default:
			if s.removes() {
				err = p.stillThere(s.path, &hosttree.Entry{})
			} else {
				err = p.stillOurs(s)
			}
			if err == nil {
				err = p.tree.Put(staged[i], s.path)
			}
		}
		if err != nil {
			return fail(err)
		}
		done++
	}
	for i := len(p.steps) - 1; i >= 0; i-- {
		s := &p.steps[i]
		if !s.want.IsDir() && !s.mode {
			continue
		}
		if len(s.attrs) > 0 {
			no, err := p.tree.SetXattrs(s.path, s.attrs)
			if err != nil {
				return fail(err)
			}
			p.refuse(s.path, no)
		}
		if !s.keep && (!s.mode || s.wantMode() != s.host.Mode) {
			if err := p.tree.Chmod(s.path, s.wantMode()); err != nil {
				return fail(err)
			}
		}
		if touched = true; s.mode {
			done++
		}
	}
	if err := p.tree.Sync(); err != nil {
		return fail(err)
	}
	return p.verify(ctx)
}

// newOwner is who a new entry belongs to: as root whom the workspace says, else us.
func (p *applying) newOwner(s *step) (uid, gid int) {
	if os.Geteuid() != 0 {
		return -1, -1
	}
	if s.host.Exists() {
		return int(s.host.UID), int(s.host.GID)
	}
	return int(s.ver.UID), int(s.ver.GID)
}

// stage writes the content of every file, link and node; the result has their places by step.
func (p *applying) stage(ctx context.Context) ([]string, error) {
	staged := make([]string, len(p.steps))
	links := map[string]string{} // files with several names: what was staged of them
	steps := make(map[string]*step, len(p.steps))
	for i := range p.steps {
		steps[p.steps[i].path] = &p.steps[i]
	}
	for i := range p.steps {
		s := &p.steps[i]
		if !s.want.Exists() || s.want.IsDir() || s.mode {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var err error
		several := s.ver.Nlink > 1
		if several {
			if first := links[s.linkKey()]; first != "" {
				staged[i], err = p.tree.Link(first)
			} else if !s.isMerged {
				staged[i], err = p.linked(ctx, s, steps)
			}
		}
		if err == nil && staged[i] == "" {
			staged[i], err = p.stageNew(ctx, s)
		}
		if err != nil {
			return nil, fmt.Errorf("%q: %w", s.path, err)
		}
		if several {
			links[s.linkKey()] = staged[i]
		}
	}
	return staged, nil
}

// stageNew writes a file, link or node of its own.
func (p *applying) stageNew(ctx context.Context, s *step) (string, error) {
	switch s.want.Type() {
	case syscall.S_IFREG:
	case syscall.S_IFLNK:
		return p.tree.Symlink(s.want.Target)
	default:
		return p.tree.Node(s.want.Mode, unix.Mkdev(s.ver.Device()))
	}
	a := hosttree.Attrs{Mode: s.wantMode()}
	a.UID, a.GID = p.newOwner(s)
	return p.tree.File(a, func(f *os.File) error {
		var err error
		if s.isMerged {
			_, err = f.Write(s.merged)
		} else {
			err = p.fill(ctx, f, s.ver)
		}
		if err != nil {
			return err
		}
		no, err := hosttree.SetXattrs(f, overlay(s.hostAttrs, s.attrs))
		p.refuse(s.path, no)
		return err
	})
}

// fill writes the content of a version. Where it has holes, so has the file.
func (p *applying) fill(ctx context.Context, f *os.File, v *store.Version) error {
	c := blob.Content{Ref: v.Content, Size: v.Size}
	if v.Holes == 0 {
		_, err := io.Copy(f, p.d.st.Blobs().Reader(ctx, c))
		return err
	}
	if err := p.d.st.Blobs().Data(ctx, c, f); err != nil {
		return err
	}
	return f.Truncate(v.Size)
}

// verify looks at every path again: what was said to be written is there.
func (p *applying) verify(ctx context.Context) error {
	for i := range p.steps {
		s := &p.steps[i]
		now, err := p.tree.Look(s.path)
		ok := false
		if err == nil {
			ok, err = p.holdsStep(ctx, s, &now)
		}
		if errors.Is(err, syscall.ENOTDIR) && !s.want.Exists() {
			continue // the directory it was in became a file
		}
		if err != nil {
			return err
		}
		if !ok {
			return Fail(ExitFailed, "apply to %s: %q is not what was just written; somebody else changes the directory, apply again", p.dir, s.path)
		}
		switch {
		case s.part:
		case s.keep:
			p.equal[s.path] = s.base
		case s.isMerged: // what the directory has besides is its own change, to be taken in
			p.equal[s.path] = s.want
		default:
			now.Ref = s.want.Ref
			p.equal[s.path] = now
		}
	}
	return nil
}

// note remembers what is equal now, and who made it so.
func (p *applying) note(_ context.Context, who store.Attribution) error {
	full := p.whole()
	for path, e := range p.equal {
		e.Mtime, e.Ctime, e.Ino = 0, 0, 0 // too fresh to be trusted
		p.idx.Move(path, e)
		p.idx.MoveXattrs(path, p.attrs[path])
	}
	if len(p.equal)+len(p.steps) == 0 {
		return nil
	}
	if full {
		p.idx.Whole()
	}
	if err := p.idx.Save(p.d.indexFile(p.ws, p.dir)); err != nil {
		return err
	}
	if len(p.steps) == 0 && !full {
		return nil
	}
	return p.d.noteHost(p.at, hostNote{
		Workspace: int64(p.ws.ID), What: "apply", Dir: Path(p.dir), Full: full, Only: p.req.Only, Hunks: p.hunks.ids(), Paths: len(p.steps),
	}, who)
}

// Applied is a line of the list of what was applied.
type Applied struct {
	Workspace string   `json:"workspace"`
	Dir       Path     `json:"dir"`
	At        int64    `json:"-"`
	Time      string   `json:"time"`
	Seq       int64    `json:"seq"`
	Paths     int      `json:"paths"`
	Only      []string `json:"only,omitempty"`
	Hunks     []string `json:"hunks,omitempty"` // ids of the changes, if not all
	Session   string   `json:"session,omitempty"`
	Command   string   `json:"command,omitempty"`
	Argv      string   `json:"-"`
	UID       *uint32  `json:"uid,omitempty"`
}

// ListApplied lists what was applied of a workspace, and by whom, oldest first.
func ListApplied(ctx context.Context, st *store.Store, ws *store.Workspace) ([]Applied, error) {
	notes, err := hostNotes(ctx, st)
	if err != nil {
		return nil, err
	}
	var out []Applied
	for _, n := range notes[ws.ID] {
		if n.note.What != "apply" {
			continue
		}
		a := Applied{
			Workspace: ws.Name, Dir: n.note.Dir, At: n.note.At, Seq: int64(n.pin.Seq), Paths: n.note.Paths, Only: n.note.Only, Hunks: n.note.Hunks, UID: n.note.UID,
		}
		if s, err := st.SessionByID(ctx, store.SessionID(n.note.Session)); err == nil {
			a.Session = s.Name
		}
		if c, err := st.CommandByID(ctx, store.CommandID(n.note.Command)); err == nil {
			a.Command, a.Argv = fmt.Sprintf("c%d", c.ID), c.Argv
		}
		out = append(out, a)
	}
	slices.SortFunc(out, func(a, b Applied) int { return int(min(1, max(-1, a.At-b.At))) })
	return out, nil
}
