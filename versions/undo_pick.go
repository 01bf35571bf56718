package versions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"wsfs/store"
)

// UndoSelect says which changes to take back. Without Commands, Sessions and Since it is the last command of Own, or of
// anybody, that changed something and was not taken back yet.
type UndoSelect struct {
	Commands []store.CommandID
	Sessions []store.SessionID // every change by one of them
	Since    int64             // ns since the epoch: changes after it, by whomever or by Sessions
	After    store.Seq         // the same, by seq
	// Own are the sessions of the asker if a name was given to them; then "the last" means theirs.
	Own []store.SessionID
	// Redo takes back the last undo instead.
	Redo bool
	// Paths keeps what is at or below one of these, Except leaves out what is; from the root of the workspace.
	Paths, Except []string
	// WithoutMissing has a rollback to a state that lacks bytes leave those files out, instead of refusing.
	WithoutMissing bool
	// ExactTimes brings back recorded times even where bytes change.
	ExactTimes bool
	// Hunks asks for the hunks of every text. Picks keeps only these hunks of some paths; of paths that are not named, nothing. Nil: everything.
	Hunks bool
	// List asks for the entries; without it they are only counted.
	List  bool
	Picks map[string][]int
	// Now is what "lately" is counted from.
	Now time.Time
	// idle are commands that left nothing to take back: the last one is looked for before them.
	idle []store.CommandID
}

// last reports whether the last command that changed something is meant.
func (s *UndoSelect) last() bool {
	return !s.Redo && len(s.Commands)+len(s.Sessions) == 0 && s.Since == 0 && s.After == 0
}

// Lately is how long a session counts as active after its last change.
const Lately = 10 * time.Minute

// Errors of PlanUndo, to be told apart by errors.Is.
var (
	// ErrNothing says that there is nothing to undo or redo.
	ErrNothing = errors.New("nothing to do")
	// ErrDecide says that somebody has to choose.
	ErrDecide = errors.New("needs a decision")
)

type undoError struct {
	kind error
	text string
}

func (e *undoError) Error() string        { return e.text }
func (e *undoError) Is(target error) bool { return target == e.kind }

func nothing(format string, args ...any) error {
	return &undoError{ErrNothing, fmt.Sprintf(format, args...)}
}

func decide(format string, args ...any) error {
	return &undoError{ErrDecide, fmt.Sprintf(format, args...)}
}

// picked is what is to be taken back: changes and moves of a life.
type picked struct {
	steps map[store.Segment]bool     // timeline and seq
	whole map[commandOn][2]store.Seq // all that a command did from one seq to another
	moves map[int64]*piece
	first moment
	last  moment
	// undoes is the same as it will be written down; commands are all that are named there.
	undoes   []store.Undone
	commands []store.CommandID
	named    map[store.CommandID]bool
	open     map[commandOn]int // the last stretch of each in undoes
}

func newPicked() *picked {
	return &picked{steps: map[store.Segment]bool{}, whole: map[commandOn][2]store.Seq{}, moves: map[int64]*piece{}, open: map[commandOn]int{}, named: map[store.CommandID]bool{}}
}

func (p *picked) size() int { return len(p.steps) + len(p.whole) + len(p.moves) }

func (p *picked) empty() bool { return p.size() == 0 }

// mine reports whether a change is to be taken back.
func (p *picked) mine(s *store.Step) bool {
	if r, ok := p.whole[commandOn{s.Command, s.Timeline}]; ok && r[0] <= s.Seq && s.Seq <= r[1] {
		return true
	}
	return len(p.steps) > 0 && p.steps[store.Segment{Timeline: s.Timeline, Cut: s.Seq}]
}

func (p *picked) see(m moment) {
	if p.empty() || m.compare(p.first) < 0 {
		p.first = m
	}
	if p.empty() || m.compare(p.last) > 0 {
		p.last = m
	}
}

// add takes a change or move in. They come newest first; broken says that a change which is not taken in came between
// this one and the last of the same command, so that one stretch cannot stand for both.
func (p *picked) add(pc *piece, s *store.Step, broken bool) {
	if s == nil {
		p.see(pc.at())
		p.moves[pc.move.N] = pc
		p.undoes = append(p.undoes, store.Undone{Command: pc.move.Command, Ref: pc.move.N})
		p.name(pc.move.Command)
		return
	}
	p.see(moment{seq: s.Seq})
	p.steps[store.Segment{Timeline: s.Timeline, Cut: s.Seq}] = true
	p.name(s.Command)
	key := commandOn{s.Command, s.Timeline}
	if i, ok := p.open[key]; ok && !broken {
		p.undoes[i].From = s.Seq
		return
	}
	p.open[key] = len(p.undoes)
	p.undoes = append(p.undoes, store.Undone{Command: s.Command, Timeline: s.Timeline, From: s.Seq, To: s.Seq})
}

// addWhole takes in all that a command did on a timeline between two seqs.
func (p *picked) addWhole(c store.CommandID, t store.TimelineID, from, to store.Seq) {
	p.see(moment{seq: from})
	p.whole[commandOn{c, t}] = [2]store.Seq{from, to}
	p.see(moment{seq: to})
	p.name(c)
	p.undoes = append(p.undoes, store.Undone{Command: c, Timeline: t, From: from, To: to})
}

func (p *picked) name(c store.CommandID) {
	if c != 0 && !p.named[c] {
		p.named[c] = true
		p.commands = append(p.commands, c)
	}
}

// pick finds the changes that sel means.
func (l *life) pick(ctx context.Context, sel *UndoSelect, dead *undoings) (*picked, error) {
	switch {
	case sel.Redo:
		return l.pickRedo(ctx, sel, dead)
	case len(sel.Commands) > 0:
		return l.pickCommands(ctx, sel.Commands, dead)
	case len(sel.Sessions) > 0 || sel.Since != 0 || sel.After != 0:
		return l.pickMany(ctx, sel, dead)
	}
	return l.pickLast(ctx, sel, dead)
}

// undoing reports whether a change or move takes something back.
func takesBack(pc *piece, s *store.Step) bool {
	if s == nil {
		return pc.undoes != nil
	}
	return s.Kind == store.OpUndo || s.Kind == store.OpRedo
}

// deadBy is what took a change or move back, nil if it stands.
func (u *undoings) deadBy(pc *piece, s *store.Step) *undoing {
	if s == nil {
		return u.move(pc.move.N)
	}
	return u.step(s.Timeline, s.Command, s.Seq)
}

func who(pc *piece, s *store.Step) (store.CommandID, store.SessionID) {
	if s == nil {
		return pc.move.Command, pc.move.Session
	}
	return s.Command, s.Session
}

// verdict is what to do with a change.
type verdict int

const (
	pass  verdict = iota // it does not count
	leave                // it is not to be taken back
	take
	stop // and look at nothing older
)

// collect takes in all changes that pass the filter and are to be taken.
func (l *life) collect(ctx context.Context, filter store.Span, p *picked, judge func(*piece, *store.Step) verdict) error {
	broken := map[store.CommandID]bool{}
	var last store.Seq // the last that was taken of no known command: it stands only for what follows at once
	return l.back(ctx, filter, func(pc *piece, s *store.Step) (bool, error) {
		c, _ := who(pc, s)
		switch judge(pc, s) {
		case stop:
			return false, nil
		case leave:
			broken[c] = true
		case take:
			b := broken[c]
			if s != nil {
				b = b || c == 0 && s.Seq != last-1
				if broken[c] = false; c == 0 {
					last = s.Seq
				}
			}
			p.add(pc, s, b)
		}
		return true, nil
	})
}

func (l *life) pickCommands(ctx context.Context, commands []store.CommandID, dead *undoings) (*picked, error) {
	p := newPicked()
	for _, c := range commands {
		if err := l.remembered(ctx, c); err != nil {
			return nil, err
		}
		seen, before := 0, p.size()
		var by *undoing
		if ok, err := l.wholeCommand(ctx, p, c, dead); ok || err != nil {
			if err != nil {
				return nil, err
			}
			continue
		}
		err := l.collect(ctx, store.Span{Command: c}, p, func(pc *piece, s *store.Step) verdict {
			if s != nil && s.Bare {
				return pass
			}
			seen++
			// What the command took back itself is taken in with what it did before: both cancel out.
			if d := dead.deadBy(pc, s); d != nil && !d.partial && d.command != c {
				by = d
				return leave
			}
			return take
		})
		switch {
		case err != nil:
			return nil, err
		case seen == 0:
			return nil, &UnknownError{
				What: "command", Name: fmt.Sprintf("c%d", c), In: fmt.Sprintf("workspace %q", l.ws.Name),
				Hint: "`wsfs commands` lists those that changed something",
			}
		case p.size() == before && by != nil:
			return nil, nothing("undo c%d: it was undone already, by change %d; `wsfs redo` brings it back", c, by.by.seq)
		case p.size() == before:
			return nil, nothing("undo c%d: it changed nothing", c)
		}
	}
	return p, nil
}

// remembered refuses a command that began before what is kept of its timeline: some of what it did may not be told any more.
func (l *life) remembered(ctx context.Context, c store.CommandID) error {
	cmd, err := l.st.CommandByID(ctx, c)
	if errors.Is(err, syscall.ENOENT) || err == nil && cmd.Timeline == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	t, err := l.st.Timeline(ctx, cmd.Timeline)
	switch {
	case errors.Is(err, syscall.ENOENT):
		return nil
	case err == nil && cmd.SeqBefore < t.GCSeq:
		err = &store.CollectedError{Timeline: t.ID, Seq: cmd.SeqBefore, After: t.GCSeq}
	}
	if err != nil {
		err = fmt.Errorf("read what was there before c%d: %w", c, err)
	}
	return err
}

// wholeCommand takes in all that a command did, if none of it was taken back and none of it takes something back; then it
// need not be looked at one by one.
func (l *life) wholeCommand(ctx context.Context, p *picked, c store.CommandID, dead *undoings) (bool, error) {
	if c == 0 {
		return false, nil
	}
	type stretch struct {
		t        store.TimelineID
		from, to store.Seq
	}
	var list []stretch
	seen := map[store.TimelineID]bool{}
	for _, pc := range l.pieces {
		if pc.move != nil {
			if pc.move.Command == c {
				return false, nil
			}
			continue
		}
		sp := pc.span
		sp.Command = c
		from, to, err := l.st.CommandStretch(ctx, sp)
		if err != nil {
			return false, err
		}
		if from == 0 {
			continue
		}
		if dead.takers[commandOn{c, sp.Timeline}] || seen[sp.Timeline] || len(dead.steps[commandOn{c, sp.Timeline}]) > 0 {
			return false, nil
		}
		seen[sp.Timeline] = true
		list = append(list, stretch{sp.Timeline, from, to})
	}
	for _, s := range slices.Backward(list) {
		p.addWhole(c, s.t, s.from, s.to)
	}
	return len(list) > 0, nil
}

// pickMany takes in what sessions did, or all, since a point. What was taken back in that time by a change that is taken
// in too is taken in with it; what somebody else took back is left as it is.
func (l *life) pickMany(ctx context.Context, sel *UndoSelect, dead *undoings) (*picked, error) {
	p := newPicked()
	since := func(at int64, seq store.Seq) bool { return at > sel.Since && seq > sel.After }
	judge := func(pc *piece, s *store.Step) verdict {
		switch {
		case s == nil && !since(pc.move.At, pc.top+1), s != nil && !since(s.At, s.Seq):
			return stop
		case s != nil && (s.Bare || s.Kind == store.OpWorkspace):
			return pass
		}
		if d := dead.deadBy(pc, s); d != nil && !d.partial {
			if ours := len(sel.Sessions) == 0 || slices.Contains(sel.Sessions, d.session); !ours || !since(d.at, d.by.seq) {
				return leave
			}
		}
		return take
	}
	if len(sel.Sessions) == 0 {
		if err := l.collect(ctx, store.Span{}, p, judge); err != nil {
			return nil, err
		}
	}
	for _, session := range sel.Sessions {
		if err := l.collect(ctx, store.Span{Session: session}, p, judge); err != nil {
			return nil, err
		}
	}
	if p.empty() {
		return nil, nothing("undo: nothing was changed that is not undone already")
	}
	return p, nil
}

// pickLast finds the last command that changed something and takes all of it in.
func (l *life) pickLast(ctx context.Context, sel *UndoSelect, dead *undoings) (*picked, error) {
	if len(sel.Own) == 0 {
		if err := l.onlyOneActive(ctx, sel, dead); err != nil {
			return nil, err
		}
	}
	pc, step, err := l.newest(ctx, sel.Own, dead, func(pc *piece, s *store.Step) bool {
		command, _ := who(pc, s)
		return s != nil && (s.Bare || s.Kind == store.OpWorkspace) || takesBack(pc, s) || slices.Contains(sel.idle, command)
	})
	if err != nil {
		return nil, err
	}
	last, first, move := step, (*store.Step)(nil), pc
	if step != nil {
		move = nil
		if step.Kind == store.OpImport && step.Seq <= 2 {
			last, first = nil, step // what the workspace began with: that is not the slip of somebody at work
		}
	}
	p := newPicked()
	switch {
	case move != nil:
		p.add(move, nil, false)
		return p, nil
	case first != nil:
		return nil, nothing("undo: nothing is left but the import that the workspace began with; `wsfs undo --command c%d` takes that back", first.Command)
	case last == nil && len(sel.Own) > 0:
		return nil, nothing("undo: no command of this session changed anything that is not undone already")
	case last == nil:
		return nil, nothing("undo: nothing was changed that is not undone already")
	}
	if ok, err := l.wholeCommand(ctx, p, last.Command, dead); ok || err != nil {
		return p, err
	}
	broke := false
	return p, l.collect(ctx, store.Span{Command: last.Command}, p, func(pc *piece, s *store.Step) verdict {
		switch {
		case s == nil && (last.Command == 0 || takesBack(pc, nil) || dead.move(pc.move.N) != nil):
			return leave
		case s == nil:
			return take
		case s.Bare:
			return pass
		case last.Command == 0: // nobody is known: what was done without a break
			if s.Seq > last.Seq {
				return leave
			}
			if broke = broke || s.Command != 0 || s.Session != last.Session || takesBack(pc, s) || dead.deadBy(pc, s) != nil; broke {
				return stop
			}
			return take
		case takesBack(pc, s), dead.deadBy(pc, s) != nil:
			return leave
		}
		return take
	})
}

// onlyOneActive refuses to guess between sessions.
func (l *life) onlyOneActive(ctx context.Context, sel *UndoSelect, dead *undoings) error {
	limit := sel.Now.Add(-Lately).UnixNano()
	const most = 256 // sessions, newest first: one that is older and still at work is not guessed about either
	rows, err := l.st.Sessions(ctx, l.ws.ID, most)
	if err != nil {
		return err
	}
	own := &life{st: l.st, ws: l.ws} // not what happened before it was forked
	for _, pc := range l.pieces {
		if pc.own {
			own.pieces = append(own.pieces, pc)
		}
	}
	var names []string
	for i := range rows {
		r := &rows[i].Session
		if r.Agent == store.AgentLogin || slices.Contains(names, r.Name) {
			continue
		}
		err := own.back(ctx, store.Span{Session: r.ID}, func(pc *piece, s *store.Step) (bool, error) {
			if s != nil && s.At < limit || s == nil && pc.move.At < limit {
				return false, nil
			}
			if s != nil && s.Bare || takesBack(pc, s) || dead.deadBy(pc, s) != nil {
				return true, nil
			}
			names = append(names, r.Name)
			return false, nil
		})
		if err != nil {
			return err
		}
	}
	if err == nil && len(names) > 1 {
		err = decide("undo: %d sessions changed files within the last %s: %s; say which: --session NAME, or --command cN (`wsfs commands` lists them)",
			len(names), formatAge(Lately), strings.Join(names, ", "))
	}
	return err
}

// pickRedo finds the last undo that stands, unless something new came after it.
func (l *life) pickRedo(ctx context.Context, sel *UndoSelect, dead *undoings) (*picked, error) {
	p := newPicked()
	pc, step, err := l.newest(ctx, sel.Own, dead, func(pc *piece, s *store.Step) bool {
		redo := s != nil && s.Kind == store.OpRedo || s == nil && pc.move.Why == WhyRedo
		return s != nil && s.Bare || takesBack(pc, s) && redo
	})
	switch {
	case err != nil:
		return nil, err
	case pc == nil:
		return nil, nothing("redo: there is no undo to take back")
	case !takesBack(pc, step):
		name := "a change of no known command"
		if c, _ := who(pc, step); c != 0 {
			name = fmt.Sprintf("c%d", c)
		}
		return nil, nothing("redo: the last to change something was %s, not an undo", name)
	}
	p.add(pc, step, false)
	return p, nil
}
