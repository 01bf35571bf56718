package store

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// A read path of many timelines is kept short by hidden segments: timelines that hold what a stretch of a lineage comes
// to, see docs/decisions/0007-hidden-segments.md. They are derived; parent links and the rows of each timeline stay the truth.

const (
	// mergeAfter is how many segments are below a timeline before neighbours are merged.
	mergeAfter = 8
	// mergeMost is how many there are at most afterwards.
	mergeMost = 15
	// mergeFan is how many neighbours of one size become one.
	mergeFan = 4
	// mergeSmall is the largest segment of the smallest size, in rows.
	mergeSmall = 64
)

// Values of timeline.hidden.
const (
	hiddenDone     = 1
	hiddenBuilding = 2
	hiddenDead     = 3 // of either sort: nobody can see it any more, and its rows are being removed
)

// mergeClass is the size class of a segment.
func mergeClass(rows int64) int {
	class := 0
	for ; rows > mergeSmall; rows /= mergeFan {
		class++
	}
	return class
}

// mergeRun says how many segments at the near end of a path are to be merged into one, given their sizes, nearest first,
// and how many may stay without merging; 0 is none. What is merged counts with the sum of its sizes, so that a run may make
// the next one.
func mergeRun(rows []int64, after int) int {
	if len(rows) <= after {
		return 0
	}
	fan := min(mergeFan, after+1)
	k, units, size := 1, 1, rows[0]
	for {
		j := k
		for j < len(rows) && mergeClass(rows[j]) <= mergeClass(size) {
			j++
		}
		if units+j-k < fan {
			break
		}
		for ; k < j; k++ {
			size += rows[k]
		}
		units = 1
	}
	// Sizes may be so that too many stay.
	for class := 0; len(rows)-k+1 > max(mergeMost, after); class++ {
		for k < len(rows) && mergeClass(rows[k]) <= class {
			k++
		}
	}
	if k < 2 {
		return 0
	}
	return k
}

// merger makes hidden segments behind the applier's back. It belongs to a store that is open for writing.
type merger struct {
	s     *Store
	after int

	mu   sync.Mutex
	deep []TimelineID // made since it was looked last
	wake chan struct{}
	stop chan struct{} // closed: end soon
	done chan struct{} // closed when it has ended; nil before start
	turn sync.Mutex    // held while merging
}

func newMerger(s *Store) *merger {
	m := &merger{s: s, after: s.o.MergeAfter, wake: make(chan struct{}, 1), stop: make(chan struct{})}
	if m.after == 0 {
		m.after = mergeAfter
	}
	return m
}

// deepEnough reports whether a timeline with such a chain may have something to merge.
func (m *merger) deepEnough(chain []Segment) bool { return m.after > 0 && len(chain) > m.after+1 }

// add tells of timelines that were committed.
func (m *merger) add(ids []TimelineID) {
	if len(ids) == 0 {
		return
	}
	m.mu.Lock()
	m.deep = append(m.deep, ids...)
	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// mergeBacklog is how many deep timelines may wait for merging before the applier waits too. Each fork of such a one is deeper
// still: without that, forks made in one go would be read through all before them. Nobody who appends waits for the applier.
const mergeBacklog = 64

// keepUp is called by the applier between groups.
func (m *merger) keepUp(ctx context.Context) {
	m.mu.Lock()
	n := len(m.deep)
	m.mu.Unlock()
	if n > mergeBacklog && m.after > 0 && !m.ending() {
		m.report(ctx, m.work(ctx))
	}
}

// mergeStart is how long a store must have been open before what earlier runs left to do is looked for: a command that is
// over soon does not pay for it.
const mergeStart = time.Second

func (m *merger) start() {
	if m.after < 0 {
		return
	}
	m.done = make(chan struct{})
	go m.run()
}

func (m *merger) run() {
	defer close(m.done)
	ctx := context.Background()
	look := time.After(mergeStart)
	for {
		var err error
		select {
		case <-m.stop:
			return
		case <-look:
			err = m.recover(ctx)
		case <-m.wake:
			err = m.work(ctx)
		}
		m.report(ctx, err)
	}
}

// report logs what went wrong. Nothing depends on it: reads go on with the paths they have.
func (m *merger) report(ctx context.Context, err error) {
	if err != nil {
		m.s.o.Log.WarnContext(ctx, "could not merge the segments of deep forks; reading them stays slow", "store", m.s.dir, "err", err)
	}
}

func (m *merger) end() {
	close(m.stop)
	if m.done != nil {
		<-m.done
	}
}

func (m *merger) ending() bool {
	select {
	case <-m.stop:
		return true
	default:
		return false
	}
}

// recover removes what a killed process left half made and finds the timelines it did not come to.
func (m *merger) recover(ctx context.Context) error {
	m.turn.Lock()
	defer m.turn.Unlock()
	var half, deep []TimelineID
	// A segment in a chain takes at least 6 bytes.
	_, err := scanAll(ctx, m.s.r, 3, `SELECT id, hidden, chain FROM timeline WHERE hidden = ? OR hidden = 0 AND length(chain) > ?`,
		[]any{int64(hiddenBuilding), int64(6 * (mergeMost + 1))}, func(c *cells) error {
			if c.int(1) == hiddenBuilding {
				half = append(half, TimelineID(c.int(0)))
				return nil
			}
			chain, err := decodeChain(c.string(2))
			if len(chain) > max(mergeMost, m.after)+1 {
				deep = append(deep, TimelineID(c.int(0)))
			}
			return err
		})
	for i := 0; i < len(half) && err == nil; i++ {
		err = m.discard(ctx, half[i])
	}
	m.add(deep)
	return err
}

// work merges for all timelines that are known to be deep, parents first: what is merged for them serves their children.
func (m *merger) work(ctx context.Context) error {
	m.turn.Lock()
	defer m.turn.Unlock()
	m.mu.Lock()
	todo := m.deep
	m.deep = nil
	m.mu.Unlock()
	slices.Sort(todo) // a timeline is made after its parent
	for i, id := range todo {
		if m.ending() {
			return nil // found again by recover
		}
		if err := m.settle(ctx, id); err != nil {
			m.mu.Lock()
			m.deep = append(m.deep, todo[i+1:]...)
			m.mu.Unlock()
			return fmt.Errorf("timeline %d: %w", id, err)
		}
	}
	return nil
}

// tx is one step of merging: a transaction between those of the applier.
func (m *merger) tx(ctx context.Context, fn func(ctx context.Context) error) error {
	m.s.at("merge")
	defer m.s.at("merged")
	return m.s.w.tx(ctx, fn)
}

// MergeSegments returns when nothing is left to merge for the timelines that the database has. Nobody needs to call it:
// it happens in the background. A read-only store does nothing.
func (s *Store) MergeSegments(ctx context.Context) error {
	if s.merge == nil || s.merge.after < 0 {
		return nil
	}
	err := s.merge.recover(ctx)
	if err == nil {
		err = s.merge.work(ctx)
	}
	return s.dbError("merge the segments of deep forks", err)
}

// piece is one entry of a chain with what merging asks of it.
type piece struct {
	Segment
	rows    int64
	stretch []Segment // what it stands for; itself, unless it is hidden
}

// settle gives a timeline the chain that it should have: its start, then what its parent reads, merged.
func (m *merger) settle(ctx context.Context, id TimelineID) error {
	t, err := timelineRow(ctx, m.s.r, id)
	if err != nil || t.Parent == 0 {
		return err
	}
	p, err := timelineRow(ctx, m.s.r, t.Parent)
	if err != nil {
		return err
	}
	rest := make([]piece, len(p.Chain))
	rows := make([]int64, len(p.Chain))
	for i, seg := range p.Chain {
		if rest[i], err = m.piece(ctx, seg); err != nil {
			return err
		}
		rows[i] = rest[i].rows
	}
	chain := p.Chain
	build := TimelineID(0)
	if k := mergeRun(rows, m.after); k > 0 {
		seg, made, err := m.merged(ctx, rest[:k], rest[k:])
		if err != nil || m.ending() {
			return err
		}
		if !made {
			build = seg.Timeline
		}
		chain = append([]Segment{seg}, p.Chain[k:]...)
	}
	chain = append([]Segment{{t.Parent, t.ParentSeq}}, chain...)
	if slices.Equal(chain, t.Chain) {
		return nil
	}
	return m.tx(ctx, func(ctx context.Context) error {
		if build != 0 {
			if _, err := m.s.w.exec(ctx, `UPDATE timeline SET hidden = ? WHERE id = ?`, int64(hiddenDone), int64(build)); err != nil {
				return err
			}
		}
		_, err := m.s.w.exec(ctx, `UPDATE timeline SET chain = ? WHERE id = ?`, encodeChain(chain), int64(id))
		return err
	})
}

// countMost is where the size of a segment is not counted any further: it is in the largest class that matters.
const countMost = 1 << 18

func (m *merger) piece(ctx context.Context, seg Segment) (piece, error) {
	t, err := timelineRow(ctx, m.s.r, seg.Timeline)
	if err != nil {
		return piece{}, err
	}
	pc := piece{Segment: seg, stretch: []Segment{seg}}
	if t.Hidden {
		pc.stretch = t.Chain
		_, err = scanAll(ctx, m.s.r, 1, `SELECT change_count FROM timeline WHERE id = ?`, []any{int64(seg.Timeline)}, func(c *cells) error {
			pc.rows = c.int(0)
			return nil
		})
		return pc, err
	}
	_, err = scanAll(ctx, m.s.r, 1, `SELECT count(*) FROM (SELECT 1 FROM file_version WHERE timeline_id = ? AND past = 0 LIMIT ?) x`,
		[]any{int64(seg.Timeline), int64(countMost)}, func(c *cells) error {
			pc.rows = c.int(0)
			return nil
		})
	return pc, err
}
