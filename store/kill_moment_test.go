package store_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// watch takes moments of a disk while a child works on it: each is a power cut that might have been. They are taken at
// what a disk is told, so that a run of a second has as many different ones as one likes.
type watch struct {
	r       *rand.Rand
	page    []byte // the child's, mapped
	each    int    // moments of each kind of seeing
	seen    [seeKinds]int
	moments [seeKinds][]*moment
	lines   []string // of the child
	rest    []byte
}

// What is seen: a moment comes before a write, before a flush and after it, and before a name comes or goes.
const (
	seeWrite = iota
	seeSync
	seeSynced
	seeName
	seeKinds
)

// moment is a disk as it was.
type moment struct {
	store *dnode
	lines int // what the child had told
	page  []byte
}

// tell takes what the child says. The disk's lock is held.
func (w *watch) tell(data []byte) {
	w.rest = append(w.rest, data...)
	for {
		line, rest, ok := bytes.Cut(w.rest, []byte("\n"))
		if !ok {
			return
		}
		w.lines, w.rest = append(w.lines, string(line)), rest
	}
}

// see may take a moment. All that are seen of one kind have the same chance. The disk's lock is held.
func (d *disk) see(kind int) {
	w := d.watch
	if w == nil || w.each == 0 {
		return
	}
	w.seen[kind]++
	have := &w.moments[kind]
	at := len(*have)
	if at == w.each {
		if at = w.r.IntN(w.seen[kind]); at >= w.each {
			return
		}
		(*have)[at] = nil
	} else {
		*have = append(*have, nil)
	}
	(*have)[at] = &moment{
		store: d.nodes[1].names["store"].freeze(map[*dnode]*dnode{}),
		lines: len(w.lines),
		page:  slices.Clone(w.page[:pageAgents+8]),
	}
}

// freeze copies what a power cut needs of n.
func (n *dnode) freeze(done map[*dnode]*dnode) *dnode {
	if c, ok := done[n]; ok || n == nil {
		return c
	}
	n.frozen = true
	c := &dnode{safe: n.safe, pending: slices.Clip(n.pending)}
	done[n] = c
	if n.safeNames != nil {
		c.safeNames = maps.Clone(n.safeNames)
		for name, m := range c.safeNames {
			c.safeNames[name] = m.freeze(done)
		}
		for _, ch := range n.changes {
			c.changes = append(c.changes, dname{ch.name, ch.node.freeze(done)})
		}
	}
	return c
}

// killed is what is known of a child that was killed.
type killed struct {
	page   []byte
	events []event
	began  []int // of each agent, how many things it has begun
	ended  []int // and how many were acknowledged
	synced []int // and how many of them must survive a power cut
	opened bool
	failed string // what it said instead

	ends map[[2]int][]int // of what was begun: what had ended then
}

type event struct {
	end   bool
	agent int
	n     int
}

func newKilled(agents int) *killed {
	return &killed{began: make([]int, agents), ended: make([]int, agents), synced: make([]int, agents), ends: map[[2]int][]int{}}
}

// hear takes a line of the child's.
func (k *killed) hear(o *orders, line string) {
	var e event
	switch word, rest, _ := strings.Cut(line, " "); word {
	case "open":
		k.opened = true
		return
	case "begin", "end":
		e.end = word == "end"
		if _, err := fmt.Sscan(rest, &e.agent, &e.n); err != nil {
			k.failed += fmt.Sprintf("%s: %v\n", line, err)
			return
		}
	default:
		k.failed += line + "\n"
		return
	}
	k.events = append(k.events, e)
	if !e.end {
		k.began[e.agent]++
		k.ends[[2]int{e.agent, e.n}] = slices.Clone(k.ended)
		return
	}
	k.ended[e.agent]++
	if kind := o.Ops[e.agent][e.n].Kind; kind == "sync" || kind == "writesync" {
		for i, m := range k.ends[[2]int{e.agent, e.n}] {
			k.synced[i] = max(k.synced[i], m)
		}
		k.synced[e.agent] = e.n + 1
	}
}

// at is what was known at a moment.
func (w *watch) at(o *orders, m *moment) *killed {
	k := newKilled(len(o.Ops))
	for _, line := range w.lines[:m.lines] {
		k.hear(o, line)
	}
	k.page = m.page
	return k
}
