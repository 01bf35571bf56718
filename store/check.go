package store

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"wsfs/blob"
)

// Problem is one broken invariant. Rule is its number in docs/format.md and in Rules.
type Problem struct {
	Rule int
	Text string
	Blob blob.Ref // the damaged or missing blob, zero if it is about something else; see VersionsWith
}

func (p Problem) String() string { return fmt.Sprintf("rule %d: %s", p.Rule, p.Text) }

// The rules that are more than one query.
const (
	ruleIntegrity = 1
	ruleChain     = 3
	ruleOverlap   = 11
	ruleTombstone = 12
	ruleGap       = 13
	ruleBadName   = 16
	ruleNoVersion = 20
	ruleType      = 21
	ruleNlink     = 22
	ruleDirNlink  = 23
	ruleDirNames  = 24
	ruleOrphan    = 25
	ruleLostNames = 26
	ruleTree      = 32
	ruleBytes     = 33
	ruleStretch   = 34
	ruleSegment   = 35
	ruleCounter   = 45
)

// checker is one run of Check.
type checker struct {
	s      *Store
	q      querier
	report func(Problem)
	bytes  bool
}

// Check tests every invariant of the schema on one consistent state of the database, and that the bytes of every blob
// can be read, and calls report for each one that is broken. An error means that checking itself failed. It reads one
// state of the database all the time, so that the database's log grows meanwhile if somebody writes.
func (s *Store) Check(ctx context.Context, report func(Problem)) error {
	return s.check(ctx, true, report)
}

// CheckRows is Check without reading the bytes of blobs.
func (s *Store) CheckRows(ctx context.Context, report func(Problem)) error {
	return s.check(ctx, false, report)
}

func (s *Store) check(ctx context.Context, bytes bool, report func(Problem)) error {
	s.checking.Lock()
	defer s.checking.Unlock()
	err := s.r.longSnapshot(ctx, func(q querier) error {
		c := &checker{s: s, q: q, report: report, bytes: bytes}
		for _, step := range []func(context.Context) error{
			c.integrity, c.rows, c.chains, c.segments, c.intervals, c.trees, c.counters, c.contents,
		} {
			if err := step(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	return s.dbError("check", err)
}

func (c *checker) problem(rule int, format string, args ...any) {
	c.report(Problem{Rule: rule, Text: fmt.Sprintf(format, args...)})
}

// integrity asks the database itself. With damage there the other rules may fail to run at all; they are still tried.
func (c *checker) integrity(ctx context.Context) error {
	sn, ok := c.q.(*longSnapshot)
	if !ok || c.s.drv.Integrity == nil {
		return nil
	}
	return c.s.drv.Integrity(ctx, sn.tx, func(line string) { c.problem(ruleIntegrity, "%s", line) })
}

// rows runs the rules that are one query: each row that comes back is a problem.
func (c *checker) rows(ctx context.Context) error {
	for _, r := range queryRules() {
		if err := c.rowRule(ctx, r); err != nil {
			return fmt.Errorf("rule %d: %w", r.rule, err)
		}
	}
	return nil
}

func (c *checker) rowRule(ctx context.Context, r queryRule) error {
	n := strings.Count(r.text, "%")
	_, err := scanAll(ctx, c.q, n, r.query, nil, func(cl *cells) error {
		args := make([]any, n)
		for i := range args {
			args[i] = cl.vals[i]
			if b, ok := args[i].([]byte); ok {
				args[i] = string(b)
			}
		}
		c.problem(r.rule, r.text, args...)
		return nil
	})
	return err
}

// chains compares every timeline's chain, and what the hidden segments in it stand for, with its parent links.
func (c *checker) chains(ctx context.Context) error {
	list, err := timelineRows(ctx, c.q)
	if err != nil {
		return err
	}
	byID := make(map[TimelineID]*Timeline, len(list))
	for _, t := range list {
		byID[t.ID] = t
	}
	for _, t := range list {
		want := ancestors(byID, t)
		if t.state == hiddenDead {
			continue
		}
		if t.Hidden {
			if n := len(t.Chain); n == 0 || n > len(want) || !slices.Equal(t.Chain, want[:n]) || t.Head != t.ParentSeq {
				c.problem(ruleStretch, "the hidden segment %d of seq %d stands for %s, the parents give %s", t.ID, t.Head, encodeChain(t.Chain),
					encodeChain(want))
			}
			continue
		}
		var full []Segment
		for _, seg := range t.Chain {
			if h := byID[seg.Timeline]; h != nil && h.Hidden && seg.Cut == MaxSeq {
				full = append(full, h.Chain...)
			} else {
				full = append(full, seg)
			}
		}
		if !slices.Equal(want, full) {
			c.problem(ruleChain, "timeline %d has chain %s, that is %s, its parents give %s", t.ID, encodeChain(t.Chain), encodeChain(full),
				encodeChain(want))
		}
	}
	return nil
}

// ancestors are what a timeline came from by its parent links.
func ancestors(byID map[TimelineID]*Timeline, t *Timeline) []Segment {
	var list []Segment
	for at, steps := t, 0; at.Parent != 0; steps++ {
		list = append(list, Segment{at.Parent, at.ParentSeq})
		if at = byID[at.Parent]; at == nil || steps > len(byID) {
			break // rule 2 tells
		}
	}
	return list
}

// counterUses are the highest numbers in use.
func counterUses() []struct{ counter, query string } {
	return []struct{ counter, query string }{
		{"ino", `SELECT max(ino) FROM file_version`},
		{"version", `SELECT max(version_id) FROM file_version`},
		{"session", `SELECT max(id) FROM session`},
		{"process", `SELECT max(id) FROM process`},
		{"command", `SELECT max(id) FROM command`},
		{"timeline", `SELECT max(id) FROM timeline`},
		{"workspace", `SELECT max(id) FROM workspace`},
		{"conflict", `SELECT max(id) FROM conflict`},
	}
}

// counters compares the numbers in use with those that will be given out next.
func (c *checker) counters(ctx context.Context) error {
	for _, u := range counterUses() {
		var used, next int64
		if _, err := scanAll(ctx, c.q, 1, u.query, nil, func(cl *cells) error {
			used = cl.int(0)
			return nil
		}); err != nil {
			return err
		}
		if _, err := scanAll(ctx, c.q, 1, `SELECT next FROM counter WHERE name = ?`, []any{u.counter}, func(cl *cells) error {
			next = cl.int(0)
			return nil
		}); err != nil {
			return err
		}
		if used >= next && used != 0 {
			c.problem(ruleCounter, "number %d of %s is in use, and %d is given out next", used, u.counter, next)
		}
	}
	return nil
}
