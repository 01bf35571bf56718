package versions_test

import (
	"fmt"
	"testing"

	"wsfs/store"
	"wsfs/versions"
)

// BenchmarkPlanUndo plans the undo of the removal of 20,000 files in 40 directories.
func BenchmarkPlanUndo(b *testing.B) {
	l := newLab(b, store.Options{})
	l.as("base")
	l.mkdir("t")
	for d := range 40 {
		dir := fmt.Sprintf("t/%d", d)
		l.mkdir(dir)
		for f := range 500 {
			l.write(fmt.Sprintf("%s/%d", dir, f), fmt.Sprint(d, f))
		}
	}
	c := l.as("s")
	for d := range 40 {
		dir := fmt.Sprintf("t/%d", d)
		for f := range 500 {
			parent, name := l.at(fmt.Sprintf("%s/%d", dir, f))
			l.must(l.fs.Unlink(l.call(), parent, name))
		}
		parent, name := l.at(dir)
		l.must(l.fs.Rmdir(l.call(), parent, name))
	}
	at := l.place()
	ws := l.ws()
	for b.Loop() {
		p, err := versions.PlanUndo(b.Context(), l.st, ws, at, versions.UndoSelect{Commands: []store.CommandID{c}, Now: l.clock})
		if err != nil || p.Created != 40*501 {
			b.Fatal(err, p.Created)
		}
	}
}
