package versions

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"wsfs/store"
)

// moment orders everything that ever happened to a workspace: changes by their seqs, which it uses once only, and moves of
// its pointer behind the highest seq that it had used.
type moment struct {
	seq store.Seq
	ref int64 // of a move: the line of the reflog
}

func (m moment) compare(o moment) int {
	if m.seq != o.seq {
		return cmp.Compare(m.seq, o.seq)
	}
	return cmp.Compare(m.ref, o.ref)
}

// piece is a part of a workspace's life: a stretch of changes that it lived through, or a move of its pointer.
type piece struct {
	span store.Span
	own  bool // made by this workspace, not by the one it was forked from
	// move is not nil for a move, which leads from one place to another.
	move     *store.Ref
	from, to Place
	top      store.Seq
	undoes   *piece // the move that this one took back
}

func (p *piece) at() moment { return moment{p.top, p.move.N} }

// life is all that happened to a workspace, in order, whether or not it is part of its present state.
type life struct {
	st     *store.Store
	ws     *store.Workspace
	pieces []*piece
	stands Place // where it is at the end
}

// lifeOf reads the life of ws up to where it stands, (timeline, seq): what it has inherited from where it was forked, what
// it did, and where its pointer was moved.
func lifeOf(ctx context.Context, st *store.Store, ws *store.Workspace, at Place) (*life, error) {
	refs, err := st.RefLog(ctx, ws.ID)
	if err != nil {
		return nil, fmt.Errorf("read the past of workspace %q: %w", ws.Name, err)
	}
	slices.Reverse(refs)
	l := &life{st: st, ws: ws}
	var last *piece
	var top store.Seq
	var line store.TimelineID // where it writes, 0: nowhere yet
	for i := range refs {
		ref := &refs[i]
		to := Place{ref.Base, ref.BaseSeq}
		if ref.Timeline != 0 {
			if ref.Timeline == line {
				continue // renamed, dropped, ...
			}
			tl, err := st.Timeline(ctx, ref.Timeline)
			if err != nil {
				return nil, fmt.Errorf("read the past of workspace %q: %w", ws.Name, err)
			}
			if to = (Place{tl.Parent, tl.ParentSeq}); i == 0 && tl.Parent == 0 {
				to = Place{}
			}
		}
		switch {
		case i == 0:
			if err := l.inherit(ctx, to); err != nil {
				return nil, err
			}
			top = to.Seq
		case to != l.stands:
			last = &piece{move: ref, from: l.stands, to: to, top: top, own: true, undoes: tookBack(ref, last, l)}
			l.pieces = append(l.pieces, last)
		}
		l.stands, line = to, ref.Timeline
		if line == 0 {
			continue
		}
		tl, err := st.Timeline(ctx, line)
		if err != nil {
			return nil, fmt.Errorf("read the past of workspace %q: %w", ws.Name, err)
		}
		upTo := tl.Head
		if line == ws.Timeline {
			upTo = min(upTo, at.Seq)
		}
		l.pieces = append(l.pieces, &piece{span: store.Span{Timeline: line, After: to.Seq, UpTo: upTo}, own: true})
		l.stands, top, last = Place{line, upTo}, max(top, upTo), nil
	}
	if l.stands != at {
		return nil, fmt.Errorf("read the past of workspace %q: it stands at change %d of timeline %d, and its reflog leads to change %d of timeline %d",
			ws.Name, at.Seq, at.Timeline, l.stands.Seq, l.stands.Timeline)
	}
	return l, nil
}

// tookBack is the move before ref if ref took it back.
func tookBack(ref *store.Ref, last *piece, l *life) *piece {
	if ref.Why != WhyUndo && ref.Why != WhyRedo || last == nil || l.pieces[len(l.pieces)-1] != last {
		return nil
	}
	return last
}

// Why a pointer was moved, as the reflog says it.
const (
	WhyRollback = "rollback"
	WhyUndo     = "undo"
	WhyRedo     = "redo"
)

// inherit adds what led to the place where a workspace began.
func (l *life) inherit(ctx context.Context, at Place) error {
	if at.Timeline == 0 {
		return nil
	}
	v, err := l.st.ViewAt(ctx, at.Timeline, at.Seq)
	if err != nil {
		return fmt.Errorf("read what workspace %q was made from: %w", l.ws.Name, err)
	}
	line, err := l.st.Lineage(ctx, v)
	if err != nil {
		return err
	}
	for i := len(line) - 1; i >= 0; i-- {
		sp := store.Span{Timeline: line[i].Timeline, UpTo: line[i].Cut}
		if i+1 < len(line) {
			sp.After = line[i+1].Cut
		}
		l.pieces = append(l.pieces, &piece{span: sp})
	}
	return nil
}

// back calls fn with every change and move, newest first, until it returns false. filter's Command or Session keeps only
// theirs.
func (l *life) back(ctx context.Context, filter store.Span, fn func(*piece, *store.Step) (bool, error)) error {
	for i := len(l.pieces) - 1; i >= 0; i-- {
		p := l.pieces[i]
		if m := p.move; m != nil {
			if filter.Command != 0 && m.Command != filter.Command || filter.Session != 0 && m.Session != filter.Session {
				continue
			}
			more, err := fn(p, nil)
			if !more || err != nil {
				return err
			}
			continue
		}
		sp, stopped := p.span, false
		sp.Command, sp.Session = filter.Command, filter.Session
		err := l.st.StepsBack(ctx, sp, func(s *store.Step) (bool, error) {
			more, err := fn(p, s)
			stopped = !more
			return more, err
		})
		if stopped || err != nil {
			return err
		}
	}
	return nil
}
