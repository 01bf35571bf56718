package daemon

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"wsfs/fs"
	"wsfs/store"
	"wsfs/versions"
)

// merging is one merge on its way.
type merging struct {
	d    *Daemon
	req  *MergeRequest
	s    *slot
	f    *fs.FS
	who  store.Attribution
	from frozen
	sel  versions.MergeSelect
	read *versions.Reads // nil: what From has read does not matter
}

// merge takes what one workspace has changed into another one, as one change by the caller.
func (d *Daemon) merge(ctx context.Context, req MergeRequest) (MergeReply, error) {
	return d.mergeAs(ctx, req, nil)
}

// mergeAs is merge by who, nil: by the caller. What leads to a state of From counts as known to Into from then on, so a fork of
// a workspace that is merged back is one change of it, however many led there. The caller holds UseHistory.
func (d *Daemon) mergeAs(ctx context.Context, req MergeRequest, who *store.Attribution) (MergeReply, error) {
	m := &merging{d: d, req: &req}
	switch req.Prefer {
	case "":
	case "ours":
		m.sel.Prefer = versions.PreferOurs
	case "theirs":
		m.sel.Prefer = versions.PreferTheirs
	default:
		return MergeReply{}, Fail(ExitUsage, "merge: prefer %q is neither ours nor theirs: %w", req.Prefer, syscall.EINVAL)
	}
	m.sel.Only, m.sel.Hunks = texts(req.Only), req.Hunks
	if len(req.Only) > 0 && len(req.Hunks) > 0 {
		return MergeReply{}, Fail(ExitUsage, "merge: a path or hunks, not both: %w", syscall.EINVAL)
	}
	if req.Serializable && !req.Whole {
		return MergeReply{}, Fail(ExitUsage, "merge: serializable goes with whole: %w", syscall.EINVAL)
	}
	rev, err := versions.Parse(req.From, time.UTC)
	if err != nil {
		return MergeReply{}, err
	}
	if rev.Workspace == req.Into {
		return MergeReply{}, Fail(ExitUsage, "merge %s into %s: that is the same workspace; `wsfs restore` and `wsfs rollback` bring back what it was: %w",
			rev, req.Into, syscall.EINVAL)
	}
	var release func()
	if m.s, m.f, release, err = d.acquireWritable(ctx, "merge", req.Into, req.DryRun); err != nil {
		return MergeReply{}, err
	}
	defer release()
	if who != nil {
		m.who = *who
	} else {
		m.who = d.caller(ctx, m.s)
	}
	if m.from, err = d.freeze(ctx, rev); err != nil {
		return MergeReply{}, err
	}
	if req.Serializable {
		if err := m.reads(); err != nil {
			return MergeReply{}, err
		}
	}
	return m.run(ctx)
}

// reads finds out what was read in From.
func (m *merging) reads() error {
	f, release := m.from.slot.hold()
	if f == nil {
		return Fail(ExitFailed, "merge %s: what was read in it is not known any more, since it is mounted nowhere: nothing was changed", m.from.ws.Name)
	}
	defer release()
	list, ok := f.Reads()
	if !ok {
		return Fail(ExitFailed, "merge %s: what was read in it is not known: the daemon was started again meanwhile, or it was mounted otherwise; nothing was changed",
			m.from.ws.Name)
	}
	read := versions.Reads(list)
	m.read = &read
	return nil
}

// run plans while the writers of the target go on, and plans once more only if they changed something before they could be held.
func (m *merging) run(ctx context.Context) (MergeReply, error) {
	start := time.Now()
	lock := m.d.undos.of(m.s.id)
	lock.Lock()
	defer lock.Unlock()
	timeline, seq, err := m.f.Freeze(nil)
	if err == nil {
		err = m.d.st.Apply(ctx, m.d.st.Last())
	}
	if err != nil {
		return MergeReply{}, fmt.Errorf("merge: find where workspace %q stands: %w", m.s.name, err)
	}
	plan, err := m.plan(ctx, versions.Place{Timeline: timeline, Seq: seq})
	if err != nil {
		return MergeReply{}, err
	}
	if m.req.DryRun && plan.Empty() {
		return MergeReply{}, Fail(ExitNothing, "%s: nothing to do: what was changed there is the same here", m.what())
	}
	if m.req.DryRun || m.req.Whole && len(plan.Conflicts) > 0 {
		return m.reply(plan, nil), nil
	}
	h, err := m.f.Hold(ctx)
	if err != nil {
		return MergeReply{}, err
	}
	m.d.at("merge")
	out, err := m.held(ctx, h, plan)
	h.Release()
	if err != nil {
		return MergeReply{}, err
	}
	m.d.at("merged")
	m.d.log.Info("merged", "workspace", m.s.name, "from", m.from.ws.Name, "seq", out.Seq, "created", out.Created, "changed", out.Changed,
		"merged", out.Merged, "removed", out.Removed, "renamed", out.Renamed, "conflicts", len(out.Conflicts), "time", time.Since(start))
	return out, nil
}

func (m *merging) plan(ctx context.Context, at versions.Place) (*versions.MergePlan, error) {
	plan, err := versions.PlanMerge(ctx, m.d.st, at, m.from.place, m.sel)
	switch {
	case errors.Is(err, versions.ErrNothing):
		return nil, Fail(ExitNothing, "%s: nothing to do: all that was changed there is here already", m.what())
	case err != nil:
		return nil, fmt.Errorf("%s: %w; nothing was changed", m.what(), err)
	}
	if m.read != nil {
		changed, err := versions.ReadsChanged(ctx, m.d.st, versions.Place{Timeline: m.from.ws.Base, Seq: m.from.ws.BaseSeq}, at, m.read)
		if err != nil {
			return nil, fmt.Errorf("%s: compare what was read: %w; nothing was changed", m.what(), err)
		}
		plan.Conflicts = append(plan.Conflicts, changed...)
	}
	return plan, nil
}

// held carries a plan out.
func (m *merging) held(ctx context.Context, h *fs.Held, plan *versions.MergePlan) (MergeReply, error) {
	timeline, seq := h.At()
	if at := (versions.Place{Timeline: timeline, Seq: seq}); at != plan.At {
		var err error
		if plan, err = m.plan(ctx, at); err != nil {
			return MergeReply{}, err
		}
		if m.req.Whole && len(plan.Conflicts) > 0 {
			return m.reply(plan, nil), nil
		}
	}
	pins, err := plan.Pins(ctx, m.d.st, m.s.id, m.from.ws.ID)
	if err != nil {
		return MergeReply{}, err
	}
	contents, err := plan.Contents(m.d.st)
	if err != nil {
		return MergeReply{}, err
	}
	rows := plan.Rows(m.d.st)
	done, err := h.Edit(ctx, &fs.Edit{
		Kind: store.OpMerge, Who: m.who, Names: plan.Names, Versions: plan.Versions, Contents: contents, Merged: plan.Merged,
		Pins: pins, Conflicts: rows, Reviews: m.accepted(plan),
	})
	if err != nil {
		return MergeReply{}, fmt.Errorf("%s: %w; nothing was changed", m.what(), err)
	}
	if plan.Empty() { // noted all the same, so that the next merge has less to look at
		return MergeReply{}, Fail(ExitNothing, "%s: nothing to do: what was changed there is the same here", m.what())
	}
	out := m.reply(plan, rows)
	out.Seq = int64(done)
	return out, nil
}

func (m *merging) what() string {
	return fmt.Sprintf("merge %s@%d into %s", m.from.ws.Name, m.from.place.Seq, m.s.name)
}

func (m *merging) reply(plan *versions.MergePlan, rows []store.Conflict) MergeReply {
	out := MergeReply{
		Workspace: m.s.name, From: m.from.ws.Name, FromSeq: int64(m.from.place.Seq), Created: plan.Created, Changed: plan.Changed,
		Base:   UndoPlace{int64(plan.Base.Timeline), int64(plan.Base.Seq)},
		Merged: plan.Merges, Removed: plan.Removed, Renamed: plan.Renamed, Skipped: plan.Skipped, DryRun: m.req.DryRun,
		Paths: []MergeLine{}, Conflicts: []MergeConflict{},
	}
	for _, e := range plan.Entries {
		out.Paths = append(out.Paths, MergeLine{What: e.What, Path: Path(e.Path), From: Path(e.From), Dir: e.Dir})
	}
	for i := range plan.Conflicts {
		c := &plan.Conflicts[i]
		l := MergeConflict{Why: c.Why, Path: Path(c.Path), There: Path(c.There), Line: c.Line, Detail: c.Detail}
		if rows != nil {
			l.ID = int64(rows[i].ID)
		}
		out.Conflicts = append(out.Conflicts, l)
	}
	return out
}
