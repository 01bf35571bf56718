package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"wsfs/fs"
	"wsfs/versions"
)

// run plans while the writers go on, and plans once more only if they changed something before they could be held.
func (u *undoing) run(ctx context.Context) (UndoReply, error) {
	start := time.Now()
	lock := u.d.undos.of(u.s.id)
	lock.Lock()
	defer lock.Unlock()
	if u.queued {
		if out, done, err := u.runQueued(ctx); done || err != nil {
			u.done(&out, start, err)
			return out, err
		}
	}
	if u.warm {
		warm, cool := u.d.warm(ctx, u.f)
		defer cool()
		ctx = warm
	}
	at, err := u.stands(ctx)
	if err != nil {
		return UndoReply{}, err
	}
	plan, err := u.check(ctx, at)
	if err != nil {
		return UndoReply{}, undoError(err)
	}
	out := u.reply(plan)
	u.say(out)
	if u.dry {
		return out, nil
	}
	h, err := u.f.Hold(ctx)
	if err != nil {
		return UndoReply{}, err
	}
	out, err = u.held(ctx, h, plan)
	h.Release()
	if err != nil {
		return UndoReply{}, undoError(err)
	}
	u.done(&out, start, nil)
	return out, nil // who reads the database next asks for it to be applied first
}

func (u *undoing) done(out *UndoReply, start time.Time, err error) {
	if err == nil {
		u.d.log.Info(u.what, "workspace", u.s.name, "seq", out.Seq, "moved", out.Moved, "created", out.Created, "changed", out.Changed,
			"removed", out.Removed, "renamed", out.Renamed, "time", time.Since(start))
	}
}

// stands is where the workspace stands, with everything in the database.
func (u *undoing) stands(ctx context.Context) (versions.Place, error) {
	timeline, seq, err := u.f.Freeze(nil)
	if err == nil {
		err = u.d.st.Apply(ctx, u.d.st.Last())
	}
	if err != nil {
		return versions.Place{}, fmt.Errorf("%s: find where workspace %q stands: %w", u.what, u.s.name, err)
	}
	return versions.Place{Timeline: timeline, Seq: seq}, nil
}

// check makes a plan and refuses it if somebody has to decide first.
func (u *undoing) check(ctx context.Context, at versions.Place) (*versions.UndoPlan, error) {
	if u.at != nil && (u.at.Timeline != int64(at.Timeline) || u.at.Seq != int64(at.Seq)) {
		return nil, Fail(ExitDecision, "%s: workspace %q was changed while you chose; nothing was changed by this command, look again", u.what, u.s.name)
	}
	plan, err := u.plan(ctx, at)
	if err != nil {
		return nil, err
	}
	if len(plan.Conflicts) > 0 {
		return nil, &Error{ExitDecision, conflictsError(u.what, plan)}
	}
	for _, c := range plan.Commands {
		if own := u.who.Command; u.d.running(c) && (own == nil || own.ID != c) {
			return nil, Fail(ExitDecision, "%s: command c%d is still running and may change more; wait for its end, or stop it first; nothing was changed", u.what, c)
		}
	}
	if plan.Empty() {
		return nil, Fail(ExitNothing, "%s%s: everything is as it would be after it already", u.what, planNames(plan))
	}
	if u.ask {
		large, err := plan.Large(ctx, u.d.st)
		if err != nil {
			return nil, err
		}
		if large {
			return nil, &Error{ExitDecision, &tooLarge{u.what, plan.Removed}}
		}
	}
	return plan, nil
}

// held carries a plan out.
func (u *undoing) held(ctx context.Context, h *fs.Held, plan *versions.UndoPlan) (UndoReply, error) {
	timeline, seq := h.At()
	if at := (versions.Place{Timeline: timeline, Seq: seq}); at != plan.At {
		var err error
		if plan, err = u.check(ctx, at); err != nil {
			return UndoReply{}, err
		}
	}
	out := u.reply(plan)
	if plan.Move != nil {
		out.Moved = true
		return out, h.Move(ctx, fs.Move{Timeline: plan.Move.Timeline, Seq: plan.Move.Seq, Why: u.why, Who: u.who})
	}
	contents, err := plan.Contents(u.d.st)
	if err != nil {
		return UndoReply{}, err
	}
	done, err := h.Edit(ctx, &fs.Edit{
		Kind: u.kind, Who: u.who, Undoes: plan.Undoes, Names: plan.Names, Versions: plan.Versions, Contents: contents,
	})
	out.Seq = int64(done)
	return out, err
}

func (u *undoing) reply(plan *versions.UndoPlan) UndoReply {
	out := UndoReply{
		Workspace: u.s.name, Commands: []int64{}, Created: plan.Created, Changed: plan.Changed, Removed: plan.Removed,
		Renamed: plan.Renamed, DryRun: u.dry, At: UndoPlace{int64(plan.At.Timeline), int64(plan.At.Seq)},
	}
	for _, p := range plan.Missing {
		out.Missing = append(out.Missing, Path(p))
	}
	for _, c := range plan.Commands {
		out.Commands = append(out.Commands, int64(c))
	}
	if !u.list {
		return out
	}
	out.Paths = make([]UndoLine, 0, len(plan.Entries))
	for _, e := range plan.Entries {
		l := UndoLine{What: e.What, Path: Path(e.Path), From: Path(e.From), Dir: e.Dir}
		for _, hk := range e.Hunks {
			l.Hunks = append(l.Hunks, UndoHunk{hk.Line, hunkLines(hk.Old), hunkLines(hk.New)})
		}
		out.Paths = append(out.Paths, l)
	}
	return out
}

func hunkLines(list [][]byte) []Path {
	out := []Path{}
	for _, l := range list {
		out = append(out, Path(l))
	}
	return out
}

// conflictsError lists what cannot be taken back.
func conflictsError(what string, plan *versions.UndoPlan) error {
	var b strings.Builder
	n := len(plan.Conflicts)
	paths := "1 path was"
	if n > 1 {
		paths = fmt.Sprintf("%d paths were", n)
	}
	fmt.Fprintf(&b, "%s%s: %s changed since in a way that does not go together with it; nothing was changed by this command\n", what, planNames(plan), paths)
	const most = 20
	for i, c := range plan.Conflicts {
		if i == most {
			fmt.Fprintf(&b, "  ... and %d more\n", n-most)
			break
		}
		fmt.Fprintf(&b, "  %q: %s\n", c.Path, c.Reason)
	}
	b.WriteString("--except PATH leaves paths as they are, PATH takes only these")
	list := make([]UndoConflict, 0, n)
	for _, c := range plan.Conflicts {
		list = append(list, UndoConflict{Path(c.Path), c.Reason})
	}
	return &conflicted{b.String(), list}
}

// conflicted is an undo that would not keep what others did.
type conflicted struct {
	text string
	list []UndoConflict
}

func (e *conflicted) Error() string { return e.text }

// UndoConflict is a path that cannot be taken back, and why.
type UndoConflict struct {
	Path   Path   `json:"path"`
	Reason string `json:"reason"`
}

// Conflicts are those of an undo that was refused for them.
func Conflicts(err error) []UndoConflict {
	var own *conflicted
	var remote *remoteError
	switch {
	case errors.As(err, &own):
		return own.list
	case errors.As(err, &remote):
		return remote.body.Conflicts
	}
	return nil
}

// tooLarge is a plan that nobody has agreed to yet.
type tooLarge struct {
	what    string
	removed int
}

func (e *tooLarge) Error() string {
	return fmt.Sprintf("%s: this removes %d files; --yes does it, --dry-run --names shows them; nothing was changed", e.what, e.removed)
}

// NeedsYes reports whether a request was refused only because it removes much.
func NeedsYes(err error) bool {
	var remote *remoteError
	return errors.As(err, &remote) && remote.body.Confirm
}

// planNames is what a plan takes back, for messages.
func planNames(plan *versions.UndoPlan) string {
	switch n := len(plan.Commands); {
	case n == 1:
		return fmt.Sprintf(" of c%d", plan.Commands[0])
	case n > 1:
		return fmt.Sprintf(" of %d commands (c%d to c%d)", n, slices.Min(plan.Commands), slices.Max(plan.Commands))
	}
	return ""
}
