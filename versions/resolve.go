package versions

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"wsfs/store"
)

// Resolved is a revision that was found.
type Resolved struct {
	Revision  Revision
	Workspace *store.Workspace
	View      *store.View
	Timeline  store.TimelineID
	Seq       store.Seq // store.MaxSeq: follows the head
}

// UnknownError is a name that stands for nothing in the store. It wraps ENOENT.
type UnknownError struct {
	What string   // "workspace", "tag", ...
	Name string   // as given
	In   string   // where it was looked for, "" for the store
	Near []string // names that come close
	Hint string   // what to do when nothing comes close
}

func (e *UnknownError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "there is no %s %q", e.What, e.Name)
	if e.In != "" {
		fmt.Fprintf(&b, " in %s", e.In)
	}
	switch {
	case len(e.Near) > 0:
		b.WriteString("; did you mean ")
		for i, n := range e.Near {
			if i > 0 {
				b.WriteString(" or ")
			}
			fmt.Fprintf(&b, "%q", n)
		}
		b.WriteString("?")
	case e.Hint != "":
		b.WriteString("; " + e.Hint)
	}
	return b.String()
}

// Unwrap makes errors.Is(err, io/fs.ErrNotExist) true.
func (e *UnknownError) Unwrap() error { return syscall.ENOENT }

// FindWorkspace finds a live workspace by name; the error for an unknown one lists what comes close.
func FindWorkspace(ctx context.Context, st *store.Store, name string) (*store.Workspace, error) {
	ws, err := st.Workspace(ctx, name)
	if !errors.Is(err, syscall.ENOENT) {
		return ws, err
	}
	unknown := &UnknownError{What: "workspace", Name: name, Hint: "`wsfs workspaces` lists them, `wsfs import DIR WS` makes one"}
	all, err := st.Workspaces(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, w := range all {
		names = append(names, w.Name)
	}
	unknown.Near = near(name, names)
	if len(unknown.Near) == 0 && len(names) > 0 {
		unknown.Hint = "the store has " + strings.Join(names[:min(len(names), 10)], ", ")
	}
	return nil, unknown
}

// Resolve finds the state that rev names. now is what ages are counted from.
func Resolve(ctx context.Context, st *store.Store, rev Revision, now time.Time) (*Resolved, error) {
	ws, err := FindWorkspace(ctx, st, rev.Workspace)
	if err != nil {
		return nil, err
	}
	r := &Resolved{Revision: rev, Workspace: ws, Seq: store.MaxSeq}
	p := rev.Point
	switch p.Kind {
	case AtHead:
		r.Timeline = ws.Timeline
		if r.Timeline == 0 {
			r.Timeline, r.Seq = ws.Base, ws.BaseSeq
		}
		r.View, err = st.ViewOf(ctx, ws)
		return r, err
	case AtSeq:
		err = r.atSeq(ctx, st, p.Seq)
	case AtAge:
		err = r.atTime(ctx, st, now.Add(-p.Age))
	case AtTime:
		err = r.atTime(ctx, st, p.Time)
	case AtTag:
		err = r.atTag(ctx, st, p.Tag)
	case BeforeCommand, AfterCommand:
		err = r.atCommand(ctx, st, p)
	}
	if err != nil {
		return nil, err
	}
	if r.View, err = st.ViewAt(ctx, r.Timeline, r.Seq); err != nil {
		return nil, fmt.Errorf("read %s: %w", rev, err)
	}
	return r, nil
}

// stretch is a time during which a workspace pointed to one timeline.
type stretch struct {
	timeline store.TimelineID
	top      store.Seq // highest seq that the workspace had used when the stretch ended
	from     int64     // ns
	current  bool
}

// stretches is the life of a workspace, oldest first, from its reflog. A stretch that never wrote stands on its base.
func stretches(ctx context.Context, st *store.Store, ws *store.Workspace) ([]stretch, error) {
	refs, err := st.RefLog(ctx, ws.ID)
	if err != nil {
		return nil, fmt.Errorf("read the past of workspace %q: %w", ws.Name, err)
	}
	var out []stretch
	var top store.Seq
	add := func(timeline, base store.TimelineID, baseSeq store.Seq, at int64) error {
		s := stretch{timeline: timeline, from: at}
		if timeline == 0 {
			s.timeline, s.top = base, baseSeq
		} else if tl, err := st.Timeline(ctx, timeline); err == nil {
			s.top = tl.Head
		} else {
			return fmt.Errorf("read the past of workspace %q: %w", ws.Name, err)
		}
		top = max(top, s.top)
		s.top = top
		out = append(out, s)
		return nil
	}
	for i := len(refs) - 1; i >= 0; i-- {
		ref := refs[i]
		if err := add(ref.Timeline, ref.Base, ref.BaseSeq, ref.At); err != nil {
			return nil, err
		}
	}
	last := ws.Timeline
	if last == 0 {
		last = ws.Base
	}
	if len(out) == 0 || out[len(out)-1].timeline != last {
		at := ws.CreatedAt
		if len(out) > 0 {
			at = out[len(out)-1].from
		}
		if err := add(ws.Timeline, ws.Base, ws.BaseSeq, at); err != nil {
			return nil, err
		}
	}
	out[len(out)-1].current = true
	return out, nil
}

// after is a seq of the first stretch after s that is not collected.
func after(all []stretch, s stretch) store.Seq {
	for _, o := range all {
		if o.top > s.top && o.timeline != 0 {
			return o.top
		}
	}
	return s.top
}

// atSeq finds the timeline on which the workspace used seq. A workspace never uses a seq twice, so the first stretch
// that reached it is the one.
func (r *Resolved) atSeq(ctx context.Context, st *store.Store, seq store.Seq) error {
	all, err := stretches(ctx, st, r.Workspace)
	if err != nil {
		return err
	}
	for _, s := range all {
		if seq <= s.top {
			if s.timeline == 0 {
				return fmt.Errorf("read %s: %w", r.Revision, &store.CollectedError{Seq: seq, After: after(all, s)})
			}
			r.Timeline, r.Seq = s.timeline, seq
			return nil
		}
	}
	return &UnknownError{
		What: "seq", Name: fmt.Sprint(seq), In: fmt.Sprintf("workspace %q", r.Workspace.Name),
		Hint: fmt.Sprintf("its newest change is %d", all[len(all)-1].top),
	}
}

// atTime finds the last change made by then, on the timeline that the workspace pointed to then.
func (r *Resolved) atTime(ctx context.Context, st *store.Store, at time.Time) error {
	all, err := stretches(ctx, st, r.Workspace)
	if err != nil {
		return err
	}
	ns := at.UnixNano()
	for i := len(all) - 1; i >= 0; i-- {
		s := all[i]
		if s.from > ns {
			continue
		}
		if s.timeline == 0 {
			return fmt.Errorf("read %s: %w", r.Revision, &store.CollectedError{Seq: s.top, After: after(all, s)})
		}
		v, err := st.ViewAt(ctx, s.timeline, s.top)
		if err != nil {
			return err
		}
		// The timeline of the answer may be an ancestor; ViewAt reads a seq below a fork point there.
		r.Timeline, r.Seq, err = v.SeqAt(ctx, ns)
		if errors.Is(err, syscall.ENOENT) {
			break
		}
		return err
	}
	first := all[0].from
	return &UnknownError{
		What: "state at", Name: at.Format(time.RFC3339), In: fmt.Sprintf("workspace %q", r.Workspace.Name),
		Hint: fmt.Sprintf("it was made at %s", time.Unix(0, first).In(at.Location()).Format(time.RFC3339)),
	}
}

func (r *Resolved) atTag(ctx context.Context, st *store.Store, name string) error {
	tag, err := st.Tag(ctx, r.Workspace.ID, name)
	if err == nil {
		r.Timeline, r.Seq = tag.Timeline, tag.Seq
		return nil
	}
	if !errors.Is(err, syscall.ENOENT) {
		return err
	}
	tags, err := st.Tags(ctx, r.Workspace.ID)
	if err != nil {
		return err
	}
	var names []string
	for _, t := range tags {
		names = append(names, t.Name)
	}
	unknown := &UnknownError{
		What: "tag", Name: name, In: fmt.Sprintf("workspace %q", r.Workspace.Name), Near: near(name, names),
		Hint: "it has no tags; a seq, an age such as 5m, a time or a command such as c12 also name a point",
	}
	if len(names) > 0 {
		unknown.Hint = "it has " + strings.Join(names[:min(len(names), 10)], ", ")
	}
	return unknown
}

func (r *Resolved) atCommand(ctx context.Context, st *store.Store, p Point) error {
	unknown := &UnknownError{
		What: "command", Name: "c" + fmt.Sprint(p.Command), In: fmt.Sprintf("workspace %q", r.Workspace.Name),
		Hint: "`wsfs log` shows the commands that changed something",
	}
	cmd, err := st.CommandByID(ctx, p.Command)
	if errors.Is(err, syscall.ENOENT) {
		return unknown
	}
	if err != nil {
		return err
	}
	all, err := stretches(ctx, st, r.Workspace)
	if err != nil {
		return err
	}
	// Before the command that made the workspace is nothing; what comes closest is the workspace when it was empty.
	r.Timeline, r.Seq = cmd.Timeline, max(cmd.SeqBefore, 1)
	if p.Kind == AfterCommand {
		r.Seq = cmd.SeqAfter
	}
	for _, s := range all {
		if s.timeline == cmd.Timeline {
			return nil
		}
		if s.timeline == 0 {
			continue // collected
		}
		v, err := st.ViewAt(ctx, s.timeline, s.top)
		if errors.Is(err, store.ErrCollected) {
			continue
		}
		if err != nil {
			return err
		}
		path, err := st.Lineage(ctx, v)
		if err != nil {
			return err
		}
		for _, seg := range path {
			if seg.Timeline == cmd.Timeline && r.Seq <= seg.Cut {
				return nil
			}
		}
	}
	unknown.Hint = "it changed another workspace or nothing"
	return unknown
}
