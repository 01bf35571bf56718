package versions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"wsfs/blob"
	"wsfs/store"
)

// UndoConflict is a path that cannot be taken back, and why.
type UndoConflict struct {
	Path   string
	Reason string
}

// What an UndoEntry says. The words are part of the JSON output: never change one.
const (
	UndoCreated = "created"
	UndoChanged = "changed"
	UndoRemoved = "removed"
	UndoRenamed = "renamed"
)

// UndoEntry is one path that a plan changes.
type UndoEntry struct {
	What string
	Path string
	From string // of a renamed one
	Dir  bool
	// Hunks are the places of a text that change, nil of anything else. See UndoSelect.Picks.
	Hunks []UndoHunk

	key store.DirName
	ino store.Ino
}

// UndoPlan is how changes are taken back: worked out by reading alone, and valid as long as the workspace stands At.
type UndoPlan struct {
	At       Place
	Undoes   []store.Undone
	Commands []store.CommandID // what is taken back; none if nobody is known
	Moves    int               // moves of the pointer among it
	// Move is set if moving the pointer back is all there is to do.
	Move *Place
	// Names and Versions are end states, as fs.Edit takes them; texts are contents that have yet to be stored.
	Names    []store.Name
	Versions []store.Version
	texts    map[store.Ino][]byte

	Entries                            []UndoEntry // by path
	Created, Changed, Removed, Renamed int
	Conflicts                          []UndoConflict
	// Missing are the files that a rollback leaves as they are now, because their bytes are not kept any more, by path.
	Missing []string
}

// Empty reports whether the plan changes nothing.
func (p *UndoPlan) Empty() bool { return p.Move == nil && len(p.Names)+len(p.Versions) == 0 }

// Contents stores the texts that were merged and returns what fs.Edit needs of them.
func (p *UndoPlan) Contents(st *store.Store) ([]blob.Staged, error) {
	return stageTexts(st, p.Versions, p.texts)
}

// stageTexts stores texts and has the versions of these inodes name them.
func stageTexts(st *store.Store, versions []store.Version, texts map[store.Ino][]byte) ([]blob.Staged, error) {
	var out []blob.Staged
	for i := range versions {
		v := &versions[i]
		text, ok := texts[v.Ino]
		if !ok || len(text) == 0 {
			continue
		}
		var staged blob.Staged
		var err error
		if len(text) <= blob.MaxBlob {
			staged = st.Blobs().StageSmall(text)
		} else {
			staged, err = st.Blobs().PutReader(context.Background(), strings.NewReader(string(text)))
		}
		if err != nil {
			return nil, fmt.Errorf("store a merged text: %w", err)
		}
		v.Content, v.Size = staged.Content.Ref, staged.Content.Size
		out = append(out, staged)
	}
	return out, nil
}

// PlanUndo works out how the changes that sel means are taken back in the state (timeline, seq) that ws stands on, which must
// be in the database. Everything else that happened since is kept, or the plan has conflicts. The cost is that of the changes
// since the first of them, never that of the tree. Errors are ErrNothing, ErrDecide, or real.
func PlanUndo(ctx context.Context, st *store.Store, ws *store.Workspace, at Place, sel UndoSelect) (*UndoPlan, error) {
	var idle *UndoPlan
	for {
		plan, err := planUndo(ctx, st, ws, at, sel)
		switch {
		case errors.Is(err, ErrNothing) && idle != nil:
			return idle, nil
		case err != nil, !sel.last() || !plan.Empty() || len(plan.Conflicts) > 0 || len(plan.Commands) != 1 || len(sel.Paths)+len(sel.Except) > 0:
			return plan, err
		}
		// A command that left nothing behind, such as a chmod to the same mode, is not the last one that changed something.
		if idle == nil {
			idle = plan
		}
		sel.idle = append(sel.idle, plan.Commands[0])
	}
}

func planUndo(ctx context.Context, st *store.Store, ws *store.Workspace, at Place, sel UndoSelect) (*UndoPlan, error) {
	sel.Paths, sel.Except = cleanAll(sel.Paths), cleanAll(sel.Except)
	l, err := lifeOf(ctx, st, ws, at)
	if err != nil {
		return nil, err
	}
	dead, err := l.undoings(ctx)
	if err != nil {
		return nil, err
	}
	p, err := l.pick(ctx, &sel, dead)
	if err != nil {
		return nil, err
	}
	plan := &UndoPlan{At: at, Undoes: p.undoes, Commands: p.commands, Moves: len(p.moves)}
	if sel.Redo {
		if plan.Commands, err = undoneCommands(ctx, st, p.undoes, true); err != nil {
			return nil, err
		}
		for _, m := range p.moves {
			if c := m.undoes.move.Command; c != 0 {
				plan.Commands = []store.CommandID{c}
			}
		}
	}
	if len(sel.Paths)+len(sel.Except) > 0 || sel.Picks != nil {
		for i := range plan.Undoes {
			plan.Undoes[i].Partial = true
		}
	} else if m := l.lastMove(p); m != nil {
		// Nothing came since: the pointer goes back.
		plan.Move = &m.from
		if !sel.List {
			return plan, plan.countMove(ctx, st)
		}
	}
	h, err := l.history(ctx, p)
	if err != nil {
		return nil, err
	}
	return plan, plan.work(ctx, st, &sel, h)
}

// lastMove is the one move that p means, if the workspace stands where it led to and nothing was changed since.
func (l *life) lastMove(p *picked) *piece {
	if p.size() != 1 || len(p.moves) != 1 {
		return nil
	}
	for i := len(l.pieces) - 1; i >= 0 && l.pieces[i].move != nil; i-- {
		if m := l.pieces[i]; p.moves[m.move.N] == m && m.to == l.stands {
			return m
		}
	}
	return nil
}

// work takes back what a history says is ours.
func (plan *UndoPlan) work(ctx context.Context, st *store.Store, sel *UndoSelect, h *history) error {
	plan.texts = map[store.Ino][]byte{}
	n := len(h.order)
	p := &planner{
		st: st, sel: sel, h: h, plan: plan, state: make(map[store.Ino]*fused, n), now: make(map[store.Ino]*store.Version, n),
		want: make(map[store.DirName]store.Ino, n), done: make(map[store.DirName]bool, n), alias: map[store.Ino]store.Ino{},
		merged: map[store.Ino]bool{}, live: map[store.DirName]store.Ino{}, skip: map[store.DirName]bool{},
		out: map[store.Ino]bool{},
	}
	beside, cancel := context.WithCancel(ctx)
	early := p.lookEarly(beside)
	err := p.run(ctx)
	if err != nil {
		cancel()
	}
	found := <-early
	cancel()
	if err != nil {
		return err
	}
	return p.missing(ctx, found)
}

// lookEarly looks beside the planning whether the store has the contents of the files that were removed: most plans bring back
// just these. It tells true if nothing is missing; else missing looks for itself.
func (p *planner) lookEarly(ctx context.Context) <-chan bool {
	var refs []blob.Ref
	for _, v := range p.h.seen {
		if v.Nlink == 0 && v.Content != (blob.Ref{}) {
			refs = append(refs, v.Content)
		}
	}
	found := make(chan bool, 1)
	go func() {
		gone, err := p.st.MissingBlobs(ctx, refs)
		found <- err == nil && len(gone) == 0
	}()
	return found
}

// missing refuses a plan with contents that the store does not have any more. early: those that lookEarly asked for are there.
func (p *planner) missing(ctx context.Context, early bool) error {
	var refs []blob.Ref
	var of []store.Ino
	for i := range p.plan.Versions {
		v := &p.plan.Versions[i]
		if was := p.h.seen[v.Ino]; early && was != nil && was.Nlink == 0 && was.Content == v.Content {
			continue
		}
		if now := p.now[v.Ino]; v.Content != (blob.Ref{}) && (now == nil || now.Content != v.Content || now.Nlink == 0) {
			refs, of = append(refs, v.Content), append(of, v.Ino)
		}
	}
	gone, err := p.st.MissingBlobs(ctx, refs)
	if err != nil || len(gone) == 0 {
		return err
	}
	var paths []string
	for _, i := range gone {
		paths = append(paths, p.pathOf(of[i]))
	}
	slices.Sort(paths)
	n := len(paths)
	var why *store.LetGoError
	if _, err := p.st.Locate(ctx, refs[gone[0]]); errors.As(err, &why) || p.st.LetsGo(refs[gone[0]]) != "" {
		return fmt.Errorf("undo: nothing was changed: %w", &LackError{Files: n, Paths: paths[:min(n, 5)], Why: letGo(ctx, p.st, refs[gone[0]])})
	}
	return fmt.Errorf("undo: the contents of %d files are not in the store any more (%s); `wsfs check` tells more; nothing was changed",
		n, strings.Join(paths[:min(n, 10)], ", "))
}

// conflict notes a path that cannot be taken back.
func (p *planner) conflict(path, format string, args ...any) {
	c := UndoConflict{Path: path, Reason: fmt.Sprintf(format, args...)}
	if !slices.Contains(p.plan.Conflicts, c) {
		p.plan.Conflicts = append(p.plan.Conflicts, c)
	}
}

// by names a command in a message.
func by(c store.CommandID) string {
	if c == 0 {
		return "somebody unknown"
	}
	return fmt.Sprintf("c%d", c)
}
