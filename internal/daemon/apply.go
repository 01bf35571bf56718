package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"wsfs/fs"
	"wsfs/internal/hosttree"
	"wsfs/internal/report"
	"wsfs/store"
	"wsfs/versions"
)

// ApplyRequest asks to write the changes of a workspace into a host directory. Dir is absolute and free of symbolic
// links; "": where it came from.
type ApplyRequest struct {
	Workspace string   `json:"workspace"`
	Dir       Path     `json:"dir,omitempty"`
	Only      []string `json:"only,omitempty"` // glob patterns of paths; none: everything
	// Hunks are the ids of the changes to be written, as List has them; none: all.
	Hunks  []string `json:"hunks,omitempty"`
	List   bool     `json:"list,omitempty"` // say of which changes it consists, and write nothing
	DryRun bool     `json:"dry_run,omitempty"`
}

// ApplyReply says what was written, or would be. With conflicts nothing was.
type ApplyReply struct {
	Workspace string          `json:"workspace"`
	Dir       Path            `json:"dir"`
	Seq       int64           `json:"seq"` // the state that was applied
	Paths     []AppliedPath   `json:"paths"`
	Conflicts []ApplyConflict `json:"conflicts,omitempty"`
	Skipped   int             `json:"skipped,omitempty"` // changes that Only leaves out
	Refused   []RefusedAttr   `json:"refused,omitempty"` // what the directory did not take

	Changes []*report.ChangeLine `json:"changes,omitempty"` // with List
}

// AppliedPath is one path that was written: created, changed, merged, removed, mode, or xattr.
type AppliedPath struct {
	What string `json:"what"`
	Path Path   `json:"path"`
}

// ApplyConflict is a path that cannot be written, and why.
type ApplyConflict struct {
	Path Path   `json:"path"`
	Why  string `json:"why"`
}

// Apply writes the changes of a workspace into a host directory.
func (c *Client) Apply(ctx context.Context, req ApplyRequest) (ApplyReply, error) {
	var out ApplyReply
	return out, c.do(ctx, http.MethodPost, "/v1/apply", req, &out)
}

func (d *Daemon) apply(ctx context.Context, req ApplyRequest) (ApplyReply, error) {
	for _, g := range req.Only {
		if _, err := path.Match(g, ""); err != nil {
			return ApplyReply{}, Fail(ExitUsage, "apply --only %q: %w", g, err)
		}
	}
	if len(req.Only) > 0 && len(req.Hunks) > 0 {
		return ApplyReply{}, Fail(ExitUsage, "apply: paths or hunks, not both: %w", syscall.EINVAL)
	}
	s, f, release, err := d.acquire(ctx, req.Workspace)
	if err != nil {
		return ApplyReply{}, err
	}
	defer release()
	ws := f.Workspace()
	dir := string(req.Dir)
	if dir == "" {
		dir = ws.OriginPath
	}
	if err := d.checkApply(ws, dir); err != nil {
		return ApplyReply{}, err
	}
	defer d.hosts.lock(dir)()
	p := &applying{d: d, ws: ws, dir: dir, req: &req, out: ApplyReply{Workspace: ws.Name, Dir: Path(dir), Paths: []AppliedPath{}}}
	if p.tree, err = hosttree.OpenTree(dir); err != nil {
		return ApplyReply{}, fmt.Errorf("apply: %w", err)
	}
	defer p.tree.Close()
	if err := p.plan(ctx, f); err != nil {
		return ApplyReply{}, err
	}
	if len(p.out.Conflicts) > 0 || req.DryRun || req.List {
		return p.out, nil
	}
	if len(p.steps) > 0 {
		if err := p.write(ctx); err != nil {
			return ApplyReply{}, err
		}
	}
	return p.out, p.note(ctx, d.caller(ctx, s))
}

// checkApply refuses directories that cannot be written to, or that this daemon serves itself.
func (d *Daemon) checkApply(ws *store.Workspace, dir string) error {
	if dir == "" {
		return Fail(ExitUsage, "apply %s: it did not come from a directory; say to which", ws.Name)
	}
	if !filepath.IsAbs(dir) || filepath.Clean(dir) != dir {
		return Fail(ExitUsage, "apply %s to %q: the directory must be a clean absolute path: %w", ws.Name, dir, syscall.EINVAL)
	}
	mounts, err := Mounts()
	if err != nil {
		return err
	}
	if m := MountOf(mounts, dir); m != nil && m.Ours() && m.Store() == d.o.Store {
		return Fail(ExitFailed, "apply %s to %s: that is the mount of workspace %q at %s, not a host directory; unmount it first: %w",
			ws.Name, dir, m.Workspace(), m.Point, syscall.EINVAL)
	}
	if within(dir, d.o.Store) {
		return Fail(ExitFailed, "apply %s to %s: it is inside the store %s: %w", ws.Name, dir, d.o.Store, syscall.EINVAL)
	}
	if st, err := os.Lstat(dir); err != nil {
		return fmt.Errorf("apply %s: %w", ws.Name, err)
	} else if !st.IsDir() {
		return fmt.Errorf("apply %s to %s: %w", ws.Name, dir, syscall.ENOTDIR)
	}
	return nil
}

// applying is one apply.
type applying struct {
	d    *Daemon
	ws   *store.Workspace
	dir  string
	req  *ApplyRequest
	out  ApplyReply
	tree *hosttree.Tree
	idx  *hosttree.Index
	view *store.View
	base *store.View // nil: nothing is known of what the directory was
	at   store.Pin

	hunks *applyHunks // nil: all of them
	steps []step
	equal map[string]hosttree.Entry    // what both came to by themselves
	attrs map[string]map[string][]byte // extended attributes of the workspace, by path
	names map[store.Ino][]string       // paths of files with several
}

// step is one path that is to become what the workspace has.
type step struct {
	path string
	want hosttree.Entry
	ver  *store.Version // of want, nil if nothing
	host hosttree.Entry
	mode bool // it stays where it is: nothing but its permissions or extended attributes differ
	keep bool // nothing but those in attrs, whatever it holds there
	base hosttree.Entry
	// attrs are extended attributes to be set, or with nil taken away; what of hostAttrs they do not name stays.
	attrs, hostAttrs map[string][]byte

	part         bool // of what the workspace changed: the rest is still to come
	isMerged     bool // with what the directory has: merged is to be there instead of what the workspace has
	merged, ours []byte
	foreign      bool // merged has something that the workspace does not
	put          hosttree.Entry
}

// removes reports whether what is there has to go first.
func (s *step) removes() bool {
	return s.host.Exists() && (!s.want.Exists() || s.host.IsDir() != s.want.IsDir())
}

// wantMode is the mode that is to be there.
func (s *step) wantMode() uint32 {
	if s.isMerged {
		return s.put.Mode
	}
	return s.want.Mode
}

func (p *applying) conflict(path, why string) {
	p.out.Conflicts = append(p.out.Conflicts, ApplyConflict{Path(path), why})
}

// plan compares the workspace, the directory, and what the two last had in common, for every path that the workspace
// has changed since.
func (p *applying) plan(ctx context.Context, f *fs.FS) (err error) {
	d := p.d
	if p.at.Timeline, p.at.Seq, err = f.Freeze(nil); err != nil {
		return err
	}
	p.out.Seq = int64(p.at.Seq)
	if err := d.st.Apply(ctx, d.st.Last()); err != nil {
		return err
	}
	if p.view, err = d.st.ViewAt(ctx, p.at.Timeline, p.at.Seq); err != nil {
		return err
	}
	if p.idx, err = hosttree.LoadOrNew(d.indexFile(p.ws, p.dir)); err != nil {
		return err
	}
	base, err := d.basePin(ctx, p.ws, p.view, p.dir)
	if err != nil {
		return err
	}
	if base != nil {
		if p.base, err = d.st.ViewAt(ctx, base.pin.Timeline, base.pin.Seq); err != nil {
			return err
		}
	}
	paths, err := p.candidates(ctx)
	if err != nil {
		return err
	}
	p.equal, p.attrs = map[string]hosttree.Entry{}, map[string]map[string][]byte{}
	if err := p.findHunks(ctx, paths); err != nil || p.req.List {
		return err
	}
	for _, path := range paths {
		do := p.consider
		if p.hunks != nil {
			if some, all := p.hunks.took(path); some && !all {
				do = p.part
				p.out.Skipped++
			}
		}
		if err := do(ctx, path); err != nil {
			return err
		}
	}
	p.choose()
	return p.checkSteps()
}

// candidates are the paths that may have to be written, in order.
func (p *applying) candidates(ctx context.Context) ([]string, error) {
	set := map[string]bool{}
	for path := range p.idx.Moved {
		set[path] = true
	}
	if p.base != nil {
		list, err := versions.Diff(ctx, p.d.st, p.base, p.view, versions.DiffOptions{Expand: true})
		if err != nil {
			return nil, err
		}
		for i := range list {
			set[list[i].Path] = true
			if list[i].From != "" {
				set[list[i].From] = true
			}
		}
	} else {
		root, err := p.view.Version(ctx, store.RootIno)
		if err != nil {
			return nil, err
		}
		err = versions.Walk(ctx, p.view, root, func(n versions.Node) error {
			set[n.Path] = true
			return nil
		}, func(versions.Node) error { return nil })
		if err != nil {
			return nil, err
		}
	}
	if err := p.addNames(ctx, set); err != nil {
		return nil, err
	}
	delete(set, "") // the directory itself stays as it is
	paths := make([]string, 0, len(set))
	for path := range set {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	return paths, nil
}

// was is what a path was when workspace and directory were last equal there.
func (p *applying) was(ctx context.Context, path string) (hosttree.Entry, error) {
	if e, ok := p.idx.Entries[path]; ok || p.idx.Full {
		return e, nil
	}
	e, _, err := stateAt(ctx, p.base, path)
	return e, err
}

func (p *applying) consider(ctx context.Context, path string) error {
	s := step{path: path}
	var err error
	if s.want, s.ver, err = stateAt(ctx, p.view, path); err != nil {
		return err
	}
	if s.base, err = p.was(ctx, path); err != nil {
		return err
	}
	want, was := &s.want, &s.base
	p.attrs[path] = attrsOf(s.ver)
	var wasAttrs map[string][]byte
	var changed []string
	if hasAttrs(want) {
		if was.Type() == want.Type() {
			if wasAttrs, err = p.wasAttrs(ctx, path); err != nil {
				return err
			}
		}
		changed = changedAttrs(wasAttrs, p.attrs[path])
	}
	s.keep = want.Same(was)
	if s.keep && len(changed) == 0 {
		return nil
	}
	if within(p.d.o.Store, p.dir) && within(filepath.Join(p.dir, path), p.d.o.Store) {
		p.conflict(path, "the store lies there")
		return nil
	}
	if s.host, err = p.tree.Look(path); errors.Is(err, syscall.ENOTDIR) {
		if !want.Exists() {
			return nil
		}
		if was.Exists() {
			p.conflict(path, "what is above it there is no directory")
			return nil
		}
		err = nil // that may become one: checkSteps sees
	}
	if err != nil {
		return err
	}
	clash := ""
	if s.host.Type() == want.Type() && hasAttrs(want) {
		var able bool
		if s.hostAttrs, able, err = p.tree.Xattrs(path); err != nil {
			return err
		}
		if !able { // that it has none says nothing
			wasAttrs = nil
		}
		s.attrs, clash = missingAttrs(changed, wasAttrs, p.attrs[path], s.hostAttrs)
	} else if hasAttrs(want) {
		s.attrs, _ = missingAttrs(changedAttrs(nil, p.attrs[path]), nil, p.attrs[path], nil)
	}
	do, why, err := p.decide(ctx, &s)
	if err != nil {
		return err
	}
	if clash != "" && do != doLeave {
		do, why = doLeave, fmt.Sprintf("its extended attribute %s was changed there too", clash)
	}
	if do == doLeave && why == changedToo && clash == "" && p.selected(path) {
		merged, err := p.merge(ctx, &s, was)
		if merged || err != nil {
			return err
		}
	}
	switch {
	case do == doWrite:
		p.steps = append(p.steps, s)
	case do == doAlike && len(s.attrs) > 0:
		s.keep, s.mode, s.base = true, true, *want
		p.steps = append(p.steps, s)
	case do == doAlike && s.keep:
		p.equal[path] = s.base
	case do == doAlike:
		s.host.Ref = want.Ref
		p.equal[path] = s.host
	case p.selected(path):
		p.conflict(path, why)
	default: // not asked for
		p.out.Skipped++
	}
	return nil
}

type decision int

const (
	doLeave decision = iota // it cannot be written
	doWrite
	doAlike // both came to the same
)

const changedToo = "it was changed there too"

// decide compares what the workspace has at a path with what the directory has, and with what both had.
func (p *applying) decide(ctx context.Context, s *step) (do decision, why string, err error) {
	want, was, host := &s.want, &s.base, &s.host
	removed := "it was removed there, and changed in the workspace"
	if s.keep {
		switch {
		case !host.Exists():
			return doLeave, removed, nil
		case host.Type() != want.Type():
			return doLeave, changedToo, nil
		}
		return doAlike, "", nil
	}
	same, err := p.d.holds(ctx, p.tree, s.path, host, want)
	if err != nil {
		return doLeave, "", err
	}
	if same || want.IsDir() && host.IsDir() && !was.Exists() {
		return doAlike, "", nil
	}
	unchanged, err := p.d.holds(ctx, p.tree, s.path, host, was)
	if err != nil {
		return doLeave, "", err
	}
	switch {
	case unchanged:
		s.mode = want.IsDir() && host.IsDir()
		if probe := *host; want.Type() == syscall.S_IFREG && host.Type() == syscall.S_IFREG {
			probe.Mode = want.Mode
			s.mode, err = p.d.holds(ctx, p.tree, s.path, &probe, want)
		}
		return doWrite, "", err
	case !host.Exists():
		return doLeave, removed, nil
	case !was.Exists():
		return doLeave, "there is another one of that name there", nil
	case !want.Exists():
		return doLeave, "it was changed there, and removed in the workspace", nil
	}
	return doLeave, changedToo, nil
}

// selected reports whether --hunks names a change of a path, or --only names it: itself, a directory above it, or without a slash its last part.
func (p *applying) selected(name string) bool {
	if p.hunks != nil {
		some, _ := p.hunks.took(name)
		return some
	}
	if len(p.req.Only) == 0 {
		return true
	}
	for _, g := range p.req.Only {
		g = strings.TrimSuffix(strings.TrimPrefix(g, "./"), "/")
		if ok, _ := path.Match(g, path.Base(name)); ok && !strings.Contains(g, "/") {
			return true
		}
		for up := name; up != "." && up != "/"; up = path.Dir(up) {
			if ok, _ := path.Match(g, up); ok {
				return true
			}
		}
	}
	return false
}

// whole reports whether everything is to be applied.
func (p *applying) whole() bool { return len(p.req.Only)+len(p.req.Hunks) == 0 }

// choose keeps the steps that were asked for, and the new directories that they need.
func (p *applying) choose() {
	if p.whole() {
		return
	}
	need := map[string]bool{}
	for i := range p.steps {
		s := &p.steps[i]
		if !p.selected(s.path) {
			continue
		}
		need[s.path] = true
		for up := path.Dir(s.path); s.want.Exists() && up != "."; up = path.Dir(up) {
			need[up] = true
		}
	}
	all := p.steps
	p.steps = nil
	for _, s := range all {
		if need[s.path] {
			p.steps = append(p.steps, s)
		} else {
			p.out.Skipped++
		}
	}
}

// checkSteps finds what would fail half way: a directory that still holds something, one that is not there, one that may
// not be written.
func (p *applying) checkSteps() error {
	going, coming := map[string]bool{}, map[string]bool{}
	for i := range p.steps {
		s := &p.steps[i]
		if s.host.Exists() && (!s.want.Exists() || s.host.IsDir() != s.want.IsDir()) {
			going[s.path] = true
		}
		if s.want.IsDir() {
			coming[s.path] = true
		}
	}
	dirs := map[string]error{}
	for i := range p.steps {
		s := &p.steps[i]
		p.out.Paths = append(p.out.Paths, AppliedPath{s.what(), Path(s.path)})
		if going[s.path] && s.host.IsDir() {
			names, err := p.tree.Names(s.path)
			if err != nil {
				return err
			}
			for _, name := range names {
				if !going[s.path+"/"+name] {
					p.conflict(s.path, fmt.Sprintf("it still holds %q there, which the workspace does not know", name))
					break
				}
			}
		}
		up := path.Dir(s.path)
		if coming[up] || going[up] {
			continue
		}
		err, known := dirs[up]
		if !known {
			err = p.tree.Writable(up)
			dirs[up] = err
		}
		switch {
		case err == nil:
		case errors.Is(err, syscall.ENOENT):
			p.conflict(s.path, "its directory is not there")
		case errors.Is(err, syscall.ENOTDIR):
			p.conflict(s.path, "what is above it there is no directory")
		case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EROFS):
			p.conflict(s.path, "its directory may not be written there")
		default:
			return fmt.Errorf("apply to %s: %w", filepath.Join(p.dir, up), err)
		}
	}
	return nil
}

// what is the word for a step.
func (s *step) what() string {
	switch {
	case !s.want.Exists():
		return "removed"
	case !s.host.Exists():
		return "created"
	case s.foreign:
		return "merged"
	case s.keep, s.mode && s.wantMode() == s.host.Mode:
		return "xattr"
	case s.mode:
		return "mode"
	}
	return "changed"
}
