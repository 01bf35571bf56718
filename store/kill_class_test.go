package store_test

import (
	"maps"
	"path"
	"time"

	"wsfs/store"
)

// The ends of names that have a class in TestKillRandom.
const (
	scratchName = ".tmp"
	secretName  = ".env"
	shortName   = ".log"
)

// killClasses let past bytes go nearly at once.
func killClasses() *store.Classes {
	return &store.Classes{
		Limits: map[store.PathClass]store.ClassLimit{
			store.Scratch: {For: 20 * time.Millisecond}, store.Secret: {For: time.Nanosecond}, store.Short: {For: 100 * time.Millisecond, Versions: 1},
		},
		Rules: []store.ClassRule{
			{Class: store.Scratch, Pattern: "*" + scratchName}, {Class: store.Secret, Pattern: "*" + secretName}, {Class: store.Short, Pattern: "*" + shortName},
		},
	}
}

// loosen notes the inodes of which a class may let the past go. It is for good: what an inode was has the class of all names that it had then.
func (a *magent) loosen() {
	var list []int
	for p, i := range a.tree().names {
		switch path.Ext(p) {
		case scratchName, secretName, shortName:
			list = append(list, i)
		}
	}
	a.addLoose(list)
}

func (a *magent) addLoose(list []int) {
	cloned := false
	for _, i := range list {
		if a.loose[i] {
			continue
		}
		if !cloned {
			a.loose, cloned = maps.Clone(a.loose), true
		}
		a.loose[i] = true
	}
}

// carry is for a change of the whole tree: to the store, what has the same path may be the same inode.
func (a *magent) carry(to mtree) { a.carryFrom(a.tree(), to) }

func (a *magent) carryFrom(from, to mtree) {
	var list []int
	for p, i := range from.names {
		if j, ok := to.names[p]; ok && a.loose[i] {
			list = append(list, j)
		}
	}
	a.addLoose(list)
}

// mayLack reports whether a step may need bytes, to be taken back or done again, that are not kept any more.
func (a *magent) mayLack(s step) bool {
	if !a.lets {
		return false
	}
	had := func(t mtree) map[int]uint64 {
		out := map[int]uint64{}
		for _, i := range t.names {
			if a.loose[i] && t.nodes[i].typ == 'f' {
				out[i] = t.nodes[i].sum
			}
		}
		return out
	}
	return !maps.Equal(had(s.from), had(s.into))
}
