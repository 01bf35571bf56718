package versions

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"

	"wsfs/internal/diff"
	"wsfs/store"
)

// LineOwner is who brought a line into a file. The lines of one version share one LineOwner.
type LineOwner struct {
	// Version brought it; of an Unknown owner it is the oldest one that is known to have it. Only ID, Ino, Seq and Origin are set.
	Version *store.Version
	At      int64          // ns since the epoch, 0: unknown
	Session *store.Session // nil: unknown, as Command and Process
	Command *store.Command
	Process *store.Process
	// Unknown says why the line may be older than Version: what came before cannot be read. "" if it is not.
	Unknown string
}

// Blamed is a text with the owner of every line.
type Blamed struct {
	Version *store.Version
	Lines   [][]byte // all of it, terminators included
	First   int      // line that Owners begins with, from 0
	Owners  []*LineOwner
}

// BlameRange chooses lines, counted from 1, both ends included; 0 is the first or the last one.
type BlameRange struct{ First, Last int }

// LinesError is a BlameRange of lines that a text does not have. It wraps EINVAL.
type LinesError struct{ First, Last, Have int }

func (e *LinesError) Error() string {
	return fmt.Sprintf("blame lines %d to %d: the text has %d lines", e.First, e.Last, e.Have)
}

// Unwrap makes errors.Is(err, syscall.EINVAL) true.
func (e *LinesError) Unwrap() error { return syscall.EINVAL }

// Blame finds out who brought each line of a version of a regular file into it. It goes back from version to version,
// whichever name or inode they had: to what a version replaced (a save by temporary file and rename, or by delete and
// create), to the inode's version before, to the second parent of a merge, in this order. A line that the older text has
// too, in its place, is handed on; the others stay. It ends when no line is left to hand on, so its cost is that of
// the versions younger than the oldest line, with two of them in memory.
//
// A command that empties a file and fills it again in steps is seen as a whole: what the file had before it keeps its
// owner.
//
// What cannot be gone back to is not guessed: the lines that it might have had get an Unknown owner.
//
// The result for a version with a past is kept in the store's directory. It answers the next time, and a newer version is
// only gone back from to the nearest one whose result is there.
func Blame(ctx context.Context, st *store.Store, v *store.Version, r BlameRange) (*Blamed, error) {
	return blame(ctx, st, v, r, &blameCache{dir: filepath.Join(st.Dir(), blameCacheDir), from: blameCacheFrom})
}

func blame(ctx context.Context, st *store.Store, v *store.Version, r BlameRange, cache *blameCache) (*Blamed, error) {
	if v.Type() != syscall.S_IFREG {
		return nil, fmt.Errorf("blame: it is not a regular file: %w", syscall.EINVAL)
	}
	if v.Size > MaxPatch { // as a sparse file of a TiB
		return nil, fmt.Errorf("blame: it has %d bytes, and files of up to %d MiB are compared by lines: %w", v.Size, MaxPatch>>20, syscall.EINVAL)
	}
	b := &blamer{st: st, cache: cache, open: map[store.VersionID]*stake{}, owners: map[store.VersionID]*LineOwner{},
		seen: map[store.VersionID]int{}, bases: map[store.VersionID]*store.Version{}, ahead: newAhead(st, cache.has)}
	defer b.ahead.stop()
	b.recent.kept = v.ID
	text, err := b.text(ctx, v)
	if err != nil {
		return nil, fmt.Errorf("read the text: %w", err)
	}
	if diff.Binary(text) {
		return nil, fmt.Errorf("blame: it is no text; `wsfs log PATH` tells its versions: %w", syscall.EINVAL)
	}
	out := &Blamed{Version: v, Lines: diff.Lines(text)}
	last, err := out.choose(r)
	if err != nil {
		return nil, err
	}
	if known := cache.load(v); known != nil && len(known) == len(out.Lines) {
		out.Owners = known[out.First:last]
		return out, nil
	}
	if _, err := b.ahead.version(ctx, v.ID); err != nil && !errors.Is(err, syscall.ENOENT) {
		return nil, fmt.Errorf("blame: %w", err)
	}
	out.Owners = make([]*LineOwner, last-out.First)
	refs := make([]lineRef, len(out.Owners))
	for i := range refs {
		refs[i] = lineRef{at: int32(out.First + i), final: int32(i)}
	}
	b.give(v, refs)
	for len(b.queue) > 0 {
		if err := b.step(ctx, out); err != nil {
			return nil, err
		}
	}
	if err := b.endNames(ctx); err != nil {
		return nil, err
	}
	if len(out.Owners) == len(out.Lines) && len(b.seen) >= cache.from {
		cache.save(v, out.Owners)
	}
	return out, nil
}

// lineRef is a line that still looks for its owner: where it is in the version at hand, and in the result.
type lineRef struct{ at, final int32 }

// stake is a version with the lines that it is known to have.
type stake struct {
	v    *store.Version
	refs []lineRef // by place
}

type blamer struct {
	st     *store.Store
	cache  *blameCache
	ahead  *ahead
	queue  stakes // newest first
	open   map[store.VersionID]*stake
	owners map[store.VersionID]*LineOwner
	fresh  []*LineOwner // those that are still to be looked up
	names  []*naming
	seen   map[store.VersionID]int
	recent recentText
	bases  map[store.VersionID]*store.Version
	before baseLines
}

// maxVisits bounds how often a version is come back to. Versions go back in time, so that this happens only where
// several ways lead to one; a damaged store may hold a ring.
const maxVisits = 1000

// give hands lines on to a version.
func (b *blamer) give(v *store.Version, refs []lineRef) {
	if len(refs) == 0 {
		return
	}
	if s := b.open[v.ID]; s != nil {
		s.refs = mergeRefs(s.refs, refs)
		return
	}
	s := &stake{v, refs}
	b.open[v.ID] = s
	heap.Push(&b.queue, s)
}

// mergeRefs joins two lists by place.
func mergeRefs(x, y []lineRef) []lineRef {
	out := make([]lineRef, 0, len(x)+len(y))
	for len(x) > 0 && len(y) > 0 {
		if x[0].at <= y[0].at {
			out, x = append(out, x[0]), x[1:]
		} else {
			out, y = append(out, y[0]), y[1:]
		}
	}
	return append(append(out, x...), y...)
}

// step takes the newest version that has lines, hands on what it can, and gives the version the rest.
func (b *blamer) step(ctx context.Context, out *Blamed) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s := heap.Pop(&b.queue).(*stake)
	delete(b.open, s.v.ID)
	if b.seen[s.v.ID]++; b.seen[s.v.ID] > maxVisits {
		return fmt.Errorf("blame: the versions of inode %d lead back to version %d again and again; `wsfs check` says more: %w",
			s.v.Ino, s.v.ID, syscall.EIO)
	}
	if b.fromCache(s, out) {
		return nil
	}
	rest, unknown := s.refs, ""
	tried := [3]store.VersionID{s.v.Replaced, s.v.Parent, s.v.Merge}
	for i, id := range tried {
		if id == 0 || len(rest) == 0 || i > 0 && id == tried[0] {
			continue
		}
		before, err := b.ahead.version(ctx, id)
		switch {
		case errors.Is(err, syscall.ENOENT):
			unknown = "the version before is not kept any more"
			continue
		case err != nil:
			return fmt.Errorf("blame: %w", err)
		}
		old := before.v
		handed, kept, err := b.pass(ctx, old, s.v, rest)
		switch {
		case errors.Is(err, syscall.EIO):
			unknown = fmt.Sprintf("the version before, @%d, is damaged", old.Seq)
			continue
		case errors.Is(err, syscall.EFBIG):
			unknown = fmt.Sprintf("the version before, @%d, is too large to be compared", old.Seq)
			continue
		case err != nil:
			return fmt.Errorf("blame: read version %d of inode %d: %w", old.ID, old.Ino, err)
		}
		b.give(old, handed)
		rest = kept
		if len(rest) > 0 {
			if rest, err = b.passBase(ctx, old, s.v, rest); err != nil {
				return err
			}
		}
	}
	if len(rest) == 0 {
		return nil
	}
	o := b.owners[s.v.ID]
	if o == nil {
		o = &LineOwner{Version: &store.Version{ID: s.v.ID, Ino: s.v.Ino, Seq: s.v.Seq, Origin: s.v.Origin}, Unknown: unknown}
		b.owners[s.v.ID] = o
		if b.fresh = append(b.fresh, o); len(b.fresh) == namesAtOnce {
			b.beginNames(ctx)
		}
	}
	for _, ref := range rest {
		out.Owners[ref.final] = o
	}
	return nil
}

// fromCache gives lines of a version the owners that an earlier blame of it found.
func (b *blamer) fromCache(s *stake, out *Blamed) bool {
	if !b.cache.has(s.v.ID) {
		return false
	}
	known := b.cache.load(s.v)
	if known == nil || len(s.refs) > 0 && int(s.refs[len(s.refs)-1].at) >= len(known) {
		return false
	}
	for _, ref := range s.refs {
		o := known[ref.at]
		if same := b.owners[o.Version.ID]; same != nil {
			o = same
		} else {
			b.owners[o.Version.ID] = o
		}
		out.Owners[ref.final] = o
	}
	return true
}

// stakes is a heap, newest first, so that all lines of a version have come together when it is looked at.
type stakes []*stake

func (q stakes) Len() int { return len(q) }
func (q stakes) Less(i, j int) bool {
	if q[i].v.Seq != q[j].v.Seq {
		return q[i].v.Seq > q[j].v.Seq
	}
	return q[i].v.ID > q[j].v.ID
}
func (q stakes) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *stakes) Push(x any)   { *q = append(*q, x.(*stake)) }
func (q *stakes) Pop() any {
	last := len(*q) - 1
	s := (*q)[last]
	*q = (*q)[:last]
	return s
}
