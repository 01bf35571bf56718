package blob

import (
	"math"
	"slices"
)

// part is one node of the new tree before it is made, with what the old tree has in its place.
type part struct {
	level int
	start int64
	// old is the node of the old content that covers the same window; zero: a hole, or nothing at all.
	old Ref
	// oldLevel is the level of old: that of the part, or less where the old root is lower than the new one. 0 for a
	// hole; -1: old is one small blob.
	oldLevel int
	oldSize  int64 // bytes of old content in the window
}

// size returns how many bytes of new content are in the window.
func (p part) size(e *edit) int64 { return min(windowAt(p.level), e.size-p.start) }

// what says how a part is made.
type what int

const (
	same    what = iota // its node is the old one
	hole                // it has no data
	descend             // it has to be looked into
)

// rootPart returns the part that is the whole content.
func (e *edit) rootPart(level int) (part, error) {
	p := part{level: level, old: e.base.Ref, oldSize: e.base.Size}
	switch {
	case e.base.Size == 0:
		p.old = Ref{}
		return p, nil
	case e.base.Size <= MaxBlob:
		p.oldLevel = -1
		return p, nil
	}
	p.oldLevel = levelFor(e.base.Size)
	for {
		n, err := e.s.node(e.ctx, p.old, p.oldLevel, p.oldSize)
		if err != nil {
			return p, err
		}
		if n.ref(0).IsZero() && (p.oldLevel > level || n.count() == 1) {
			p.old, p.oldLevel = Ref{}, 0
			p.oldSize = min(p.oldSize, windowAt(level))
			return p, nil
		}
		if p.oldLevel <= level {
			return p, nil
		}
		// The content becomes smaller: what is left is in the first window of each level.
		p.old, p.oldLevel = n.ref(0), p.oldLevel-1
		p.oldSize = min(p.oldSize, windowAt(p.oldLevel))
	}
}

// what decides from the outside of a part how it is made.
func (e *edit) what(p part) what {
	size := p.size(e)
	i := e.dirtyAfter(p.start)
	clean := i == len(e.dirty) || e.dirty[i].Off >= p.start+size
	switch {
	case clean && p.old.IsZero():
		return hole
	case clean && p.oldSize == size && p.oldLevel == p.level:
		return same
	case e.zero != nil && !clean && e.dirty[i].Off <= p.start && e.dirty[i].End()-p.start >= size &&
		e.zero.ZeroRun(p.start) >= size:
		return hole
	}
	return descend
}

// dirtyAfter returns the index of the first dirty extent that ends behind off.
func (e *edit) dirtyAfter(off int64) int {
	i, _ := slices.BinarySearchFunc(e.dirty, off, func(x Extent, off int64) int {
		if x.End() <= off {
			return -1
		}
		return 1
	})
	return i
}

// children calls fn with the parts one level below p, in order. p's level is above 1.
func (e *edit) children(p part, fn func(part) error) error {
	var n node
	if p.oldLevel == p.level && !p.old.IsZero() {
		var err error
		if n, err = e.s.node(e.ctx, p.old, p.level, p.oldSize); err != nil {
			return err
		}
	}
	size, step := p.size(e), windowAt(p.level-1)
	for off := int64(0); off < size; off += step {
		c := part{level: p.level - 1, start: p.start + off, oldSize: max(0, min(step, p.oldSize-off))}
		switch {
		case c.oldSize == 0 || p.old.IsZero():
		case n != nil:
			if c.old = n.ref(n.find(off)); !c.old.IsZero() {
				c.oldLevel = c.level
			}
		case off == 0: // the old root is lower: all of it is in the first child
			c.old, c.oldLevel = p.old, p.oldLevel
		}
		if err := fn(c); err != nil {
			return err
		}
		if off > math.MaxInt64-step {
			break
		}
	}
	return nil
}

// changed appends the windows below p that have to be made anew to list.
func (e *edit) changed(p part, list *[]part) error {
	if e.what(p) != descend {
		return nil
	}
	if p.level == 1 {
		*list = append(*list, p)
		return nil
	}
	return e.children(p, func(c part) error { return e.changed(c, list) })
}

// oldLeaves returns the leaves of the old content in a window; their ends count from the window's start.
func (e *edit) oldLeaves(p part) ([]child, error) {
	switch {
	case p.oldSize == 0:
		return nil, nil
	case p.oldLevel <= 0: // one small blob, or a hole
		return []child{{p.old, p.oldSize}}, nil
	}
	n, err := e.s.node(e.ctx, p.old, 1, p.oldSize)
	if err != nil {
		return nil, err
	}
	list := make([]child, n.count())
	for i := range list {
		list[i] = child{n.ref(i), n.end(i)}
	}
	return list, nil
}

// treeBuilder makes the nodes above the windows.
type treeBuilder struct {
	e      *edit
	fresh  []candidate
	hashed int64
}

// build returns the Ref of the part's node, zero for a hole.
func (t *treeBuilder) build(p part) (Ref, error) {
	switch t.e.what(p) {
	case same:
		return p.old, nil
	case hole:
		return Ref{}, nil
	}
	if p.level == 1 {
		return t.e.made[p.start], nil
	}
	list := make([]child, 0, 1<<fanoutBits)
	err := t.e.children(p, func(c part) error {
		ref, err := t.build(c)
		list = appendLeaf(list, child{ref, c.start - p.start + c.size(t.e)})
		return err
	})
	if err != nil || len(list) == 1 && list[0].ref.IsZero() {
		return Ref{}, err
	}
	return t.node(p.level, list), nil
}

// node makes one node.
func (t *treeBuilder) node(level int, list []child) Ref {
	n := appendNode(make([]byte, 0, nodeHeader+len(list)*nodeEntry), level, list)
	ref := Sum(n)
	t.hashed += int64(len(n))
	t.fresh = append(t.fresh, candidate{ref, n})
	t.e.s.cache.put(ref, n)
	t.e.s.cache.setLevel(ref, level)
	return ref
}
