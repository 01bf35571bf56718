package daemon

import (
	"context"
	"errors"
	"net/http"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"wsfs/fs"
	"wsfs/internal/hosttree"
	"wsfs/store"
	"wsfs/versions"
)

// TakeRequest asks to take into a workspace what has changed in the directory it came from since the two were last
// equal. A workspace that does not exist is made of the directory.
type TakeRequest struct {
	Workspace string `json:"workspace"`
	Dir       Path   `json:"dir"`
	Keep      bool   `json:"keep,omitempty"` // what both changed stays as the workspace has it
}

// maxListed bounds a list of paths in an answer.
const maxListed = 10_000

// Take takes in what has changed in the directory; progress is called for every line but the last.
func (c *Client) Take(ctx context.Context, req TakeRequest, progress func(ImportLine)) (*ImportReply, error) {
	return c.lines(ctx, "/v1/take", req, progress)
}

func (d *Daemon) serveTake(w http.ResponseWriter, r *http.Request) {
	var req TakeRequest
	serveLines(w, r, &req, func() error { return d.checkImport(string(req.Dir), req.Workspace) }, func(p func(fs.Progress)) (*ImportReply, error) {
		return d.takeIn(r.Context(), req, p)
	})
}

func (d *Daemon) takeIn(ctx context.Context, req TakeRequest, progress func(fs.Progress)) (*ImportReply, error) {
	d.staysFor(ctx)
	dir := string(req.Dir)
	if err := hostDir(dir); err != nil {
		return nil, err
	}
	ws, err := d.workspace(ctx, req.Workspace)
	if errors.Is(err, syscall.ENOENT) {
		return d.runImport(ctx, ImportRequest{Workspace: req.Workspace, Dir: req.Dir}, progress)
	}
	if err != nil {
		return nil, err
	}
	if !isOrigin(ws, dir) {
		return nil, Fail(ExitUsage, "take in %s: workspace %q did not come from there: %w", dir, ws.Name, syscall.EINVAL)
	}
	defer d.hosts.lock(dir)() // two runs that begin together take in the same
	t := &taking{d: d, ws: ws, dir: dir, out: &ImportReply{Workspace: ws.Name}, only: map[string]bool{}, began: time.Now().UnixNano(), merges: map[string]*takenMerge{}}
	if t.idx, err = hosttree.LoadOrNew(d.indexFile(ws, dir)); err != nil {
		return nil, err
	}
	if t.skip, err = skipBelow(d.o.Store, dir); err != nil {
		return nil, err
	}
	skip := map[string]bool{d.o.Store: true}
	for _, p := range t.skip {
		skip[p] = true
	}
	changes, err := t.idx.Changes(ctx, dir, skip)
	if err != nil {
		return nil, err
	}
	t.out.Unchanged = int64(len(t.idx.Entries))
	if len(changes) == 0 && t.idx.Full {
		return t.out, nil
	}
	return t.out, t.run(ctx, changes, req.Keep, progress)
}

// taking is one take.
type taking struct {
	d     *Daemon
	ws    *store.Workspace
	dir   string
	idx   *hosttree.Index
	skip  []string
	out   *ImportReply
	only  map[string]bool // paths to be imported
	began int64
	view  *store.View
	base  *store.View // of when the two were last equal as a whole, nil: not known
	tree  *hosttree.Tree

	merges map[string]*takenMerge
}

func (t *taking) run(ctx context.Context, changes []hosttree.Change, keep bool, progress func(fs.Progress)) error {
	d := t.d
	s, f, release, err := d.acquire(ctx, t.ws.Name)
	if err != nil {
		return err
	}
	defer release()
	timeline, seq, err := f.Freeze(nil)
	if err != nil {
		return err
	}
	if err := d.st.Apply(ctx, d.st.Last()); err != nil {
		return err
	}
	if t.view, err = d.st.ViewAt(ctx, timeline, seq); err != nil {
		return err
	}
	base, err := d.basePin(ctx, t.ws, t.view, t.dir)
	if err != nil {
		return err
	}
	if base != nil {
		if t.base, err = d.st.ViewAt(ctx, base.pin.Timeline, base.pin.Seq); err != nil {
			return err
		}
	}
	clean := base != nil && base.pin.Timeline == timeline && base.pin.Seq == seq
	if t.tree, err = hosttree.OpenTree(t.dir); err != nil {
		return err
	}
	defer t.tree.Close()
	slices.SortFunc(changes, func(a, b hosttree.Change) int { return strings.Compare(a.Path, b.Path) })
	for i := range changes {
		if err := t.classify(ctx, &changes[i]); err != nil {
			return err
		}
	}
	if n := len(t.out.Conflicts); n > 0 && !keep {
		return Fail(ExitDecision, "take in %s: %d of its entries were changed there and in workspace %q as well; nothing was taken in. "+
			"`wsfs diff` shows what the workspace has; --keep-workspace goes on with that, and `wsfs apply` would list them", t.dir, n, t.ws.Name)
	}
	who := d.caller(ctx, s)
	if len(t.only) > 0 {
		o := fs.ImportOptions{Skip: t.skip, Only: t.only, Each: t.taken, Merge: map[string]*fs.ImportMerge{}}
		for p, m := range t.merges {
			o.Merge[p] = m.ImportMerge
		}
		res, err := f.ImportWith(ctx, t.dir, who, o, progress)
		if err != nil {
			return err
		}
		for p := range t.only {
			if t.only[p] && !t.present(p) {
				t.idx.Move(p, hosttree.Entry{})
			}
		}
		t.out.Seq, t.out.Added, t.out.Changed, t.out.Removed, t.out.Bytes = int64(res.Seq), res.Added, res.Changed, res.Removed, res.Bytes
		t.out.Skipped = res.Skipped
		if _, err := d.sync(ctx, SyncRequest{Durable: true, Workspace: t.ws.Name}); err != nil {
			return err
		}
		if clean && len(t.merges) == 0 && res.Seq != 0 {
			at := store.Pin{Timeline: f.Workspace().Timeline, Seq: res.Seq}
			t.idx.Whole()
			if err := d.noteHost(at, hostNote{Workspace: int64(t.ws.ID), What: "import", Dir: Path(t.dir), Full: true, Paths: len(t.only)}, who); err != nil {
				return err
			}
		}
	}
	t.idx.Full = t.idx.Full || len(t.out.Conflicts) == 0
	return t.idx.Save(d.indexFile(t.ws, t.dir))
}

// present reports whether the import saw a path.
func (t *taking) present(p string) bool {
	e, err := t.tree.Look(p)
	return err == nil && e.Exists()
}

// taken notes what an entry of the directory was when it was imported.
func (t *taking) taken(p string, st *syscall.Stat_t, v *store.Version) {
	if !t.only[p] {
		return
	}
	e := hosttree.FromStat(st, t.began)
	e.Ref, e.Target, e.Size = v.Content, v.Target, v.Size
	attrs := v.Xattrs
	if m := t.merges[p]; m != nil { // the workspace has more than that
		attrs = m.xattrs
		if m.Text != nil {
			e = hosttree.Entry{Mode: m.mode, Size: m.Theirs.Size, Ref: m.Theirs.Ref}
		}
	}
	t.idx.Move(p, e)
	t.idx.MoveXattrs(p, attrs)
}

// classify decides what a change in the directory means to the workspace.
func (t *taking) classify(ctx context.Context, c *hosttree.Change) error {
	now := c.Now
	if now.Type() == syscall.S_IFLNK {
		var err error
		times := now
		if now, err = t.tree.Look(c.Path); err != nil {
			return err
		}
		now.Mtime, now.Ctime, now.Ino = times.Mtime, times.Ctime, times.Ino
	}
	base, known := t.idx.Entries[c.Path]
	have, ver, err := stateAt(ctx, t.view, c.Path)
	if err != nil {
		return err
	}
	if known {
		same, err := t.d.holds(ctx, t.tree, c.Path, &now, &base)
		if err != nil {
			return err
		}
		if same { // only its times
			now.Ref = base.Ref
			t.idx.Set(c.Path, now)
			return nil
		}
	}
	same, err := t.d.holds(ctx, t.tree, c.Path, &now, &have)
	if err != nil {
		return err
	}
	switch {
	case same: // both came to the same
		now.Ref = have.Ref
		t.idx.Move(c.Path, now)
		return nil
	case !known && !t.idx.Full, !have.Same(&base):
		merged, err := t.merge(ctx, c.Path, &base, &have, &now, ver)
		if merged || err != nil {
			return err
		}
		return t.conflict(c.Path)
	}
	if parent := path.Dir(c.Path); now.Exists() && parent != "." && !t.only[parent] {
		if up, _, err := stateAt(ctx, t.view, parent); err != nil || !up.IsDir() {
			return errors.Join(err, t.conflict(c.Path))
		}
	}
	if base.IsDir() && now.Exists() && !now.IsDir() {
		if touched, err := t.touched(ctx, c.Path); err != nil || touched {
			return errors.Join(err, t.conflict(c.Path))
		}
	}
	if ok, err := t.keepAttrs(ctx, c.Path, &now, ver); err != nil || !ok {
		return errors.Join(err, t.conflict(c.Path))
	}
	t.only[c.Path] = true
	return nil
}

func (t *taking) conflict(p string) error {
	if len(t.out.Conflicts) < maxListed {
		t.out.Conflicts = append(t.out.Conflicts, Path(p))
	}
	return nil
}

// touched reports whether the workspace changed anything in a directory since it was equal to the host's.
func (t *taking) touched(ctx context.Context, dir string) (bool, error) {
	_, ver, err := stateAt(ctx, t.view, dir)
	if err != nil || ver == nil {
		return err == nil, err
	}
	errTouched := errors.New("touched")
	err = versions.Walk(ctx, t.view, ver, func(n versions.Node) error {
		if n.Path == "" {
			return nil
		}
		have, base := entryOf(n.Version), t.idx.Entries[path.Join(dir, n.Path)]
		if !have.Same(&base) {
			return errTouched
		}
		return nil
	}, func(versions.Node) error { return nil })
	if errors.Is(err, errTouched) {
		return true, nil
	}
	return false, err
}

// skipBelow are the mounts of ours below dir.
func skipBelow(store, dir string) ([]string, error) {
	mounts, err := Mounts()
	if err != nil {
		return nil, err
	}
	var skip []string
	for i := range mounts {
		if mounts[i].Ours() && within(mounts[i].Point, dir) {
			skip = append(skip, mounts[i].Point)
		}
	}
	return skip, nil
}

// indexOf collects the index of a whole import.
func indexOf(began int64) (*hosttree.Index, func(string, *syscall.Stat_t, *store.Version)) {
	x := &hosttree.Index{Full: true, Entries: map[string]hosttree.Entry{}}
	return x, func(p string, st *syscall.Stat_t, v *store.Version) {
		e := hosttree.FromStat(st, began)
		e.Ref, e.Target, e.Size = v.Content, v.Target, v.Size
		x.Set(p, e)
	}
}
