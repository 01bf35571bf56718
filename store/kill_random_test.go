package store_test

import (
	"bufio"
	"bytes"
	"cmp"
	"database/sql"
	"encoding/gob"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

var killFlags = struct {
	kills *int
	seed  *uint64
	cuts  *int
}{
	flag.Int("kills", 10, "TestKillRandom: how often a child is killed; 500 by hand"),
	flag.Uint64("killseed", 0, "TestKillRandom: what the dice start from, of TestPowerCuts too; 0: the clock"),
	flag.Int("cuts", 13, "TestPowerCuts: at how many moments the power is cut; 2000 by hand"),
}

// killsPerStore bounds the history that one store of TestKillRandom grows.
const killsPerStore = 25

// TestKillRandom kills children at random, in which agents change files, fork, tag, drop, roll back, undo and redo, and
// compares what the next start finds with what the agents were told: everything acknowledged after a kill; after a
// power cut, in which each file of the store loses of its own what was not synced, everything synced. What is there
// beyond that is a prefix of what was done. Log, blame, past states and the next undo must agree with it.
//
// In a third of the rounds history is collected all the time, by a policy that keeps next to nothing: then agents take nothing back, but
// tags, forks and what is there stay as they are. In the others they collect what was dropped. In half of them classes let go of past bytes of some names
// nearly at once: then what such files were may be refused, by name, to undo, redo and blame, and by nothing else.
func TestKillRandom(t *testing.T) {
	kills := *killFlags.kills
	seed := killSeed(t)
	c := &killCount{hit: map[string]int{}}
	for from := 0; from < kills && !t.Failed(); from += killsPerStore {
		t.Run(fmt.Sprint(from), func(t *testing.T) {
			randomKills(t, c, seed+uint64(from), min(killsPerStore, kills-from), 0)
			c.report(t) // so far: 500 take minutes
		})
	}
	c.report(t)
	if !t.Failed() && c.acked < 5*c.kills {
		t.Errorf("too little was done to tell anything")
	}
	if !t.Failed() && kills >= 50 && c.gone == 0 {
		t.Errorf("no class ever let anything go")
	}
}

func killSeed(t *testing.T) uint64 {
	seed := *killFlags.seed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-killseed=%d", seed)
	return seed
}

// TestPowerCuts cuts the power at many moments of the work of a few children: while one works, the disk keeps what it
// was at random moments, before writes, before and after flushes, before names come and go. Each is a power cut: files
// and directories lose of their own what was not synced, and what the next start makes of the rest is judged as in
// TestKillRandom. The next child goes on with what the last cut left.
func TestPowerCuts(t *testing.T) {
	seed := killSeed(t)
	c := &killCount{hit: map[string]int{}}
	// On a slow machine the first children may do nothing before all their cuts: then there are a few more.
	enough := func() bool { return c.acked >= max(1, c.cuts-13) }
	for n := uint64(0); (c.cuts < *killFlags.cuts || !enough() && c.cuts < *killFlags.cuts+10) && !t.Failed(); n++ {
		t.Run(fmt.Sprint(c.cuts), func(t *testing.T) {
			each := min(6, max(*killFlags.cuts-c.cuts+3, 4)/4)
			randomKills(t, c, seed+n, max(1, min(6, (*killFlags.cuts-c.cuts+4*each)/(4*each+1))), each)
			c.report(t)
		})
	}
	if !t.Failed() && !enough() {
		t.Errorf("too little was done to tell anything")
	}
}

type killCount struct {
	kills, cuts, acked, lost int
	gone                     int // contents that classes had let go, at the end of each round
	hit                      map[string]int
}

func (c *killCount) report(t *testing.T) {
	t.Logf("%d kills, %d power cuts; %d things acknowledged, %d undone by a cut, %d contents let go by classes; at:", c.kills, c.cuts, c.acked, c.lost, c.gone)
	for _, what := range slices.Sorted(maps.Keys(c.hit)) {
		t.Logf("  %4d %s", c.hit[what], what)
	}
}

// killPoints are those that a child dies at by itself, with how late at most. Half of the kills come at any time.
func killPoints() map[string]int {
	return map[string]int{
		"apply": 40, "settled": 40, "synced": 40, "committed": 40, "durable": 4, "checkpoint": 2, "checkpointed": 2,
		"merge": 8, "merged": 8, "op rollback": 3, "op undo": 3, "op redo": 2, "op fork": 4,
		"journal segment": 3, "journal written": 60, "journal synced": 10, "pack begun": 3, "pack started": 3, "import appended": 2,
		"gc step": 30, "gc stepped": 30, "gc copied": 3, "gc durable": 3, "gc removed": 2,
	}
}

// life is that of one store.
type life struct {
	c      *killCount
	dir    string
	all    []*magent
	r      *rand.Rand
	seed   uint64
	n      uint64
	forgot bool // history was collected
	lets   bool // classes let something go
}

func newLife(t *testing.T, c *killCount, seed uint64) *life {
	l := &life{c: c, dir: filepath.Join(t.TempDir(), "store"), r: rand.New(rand.NewPCG(seed, 1)), seed: seed}
	l.all = makeAgents(t, l.dir, 3)
	return l
}

// fate is what becomes of one child.
type fate struct {
	cut   bool // a power cut, not a kill
	each  int  // more of them: so many of every kind of moment
	point string
	n     int           // it dies at the nth time of point
	delay time.Duration // or so much later
	after time.Duration // it is killed then if it still lives
	keep  string        // collect all the time, by this policy
	lets  bool          // and what classes do not keep
	ops   int           // what each agent has to do at most; 0: 300 things
}

// randomKills is a life with random fates. With each, all are power cuts.
func randomKills(t *testing.T, c *killCount, seed uint64, rounds, each int) {
	l := newLife(t, c, seed)
	r := l.r
	points := slices.Sorted(maps.Keys(killPoints()))
	for range rounds {
		f := fate{cut: r.IntN(3) == 0 || each > 0, each: each, n: 1, after: time.Duration(20+r.IntN(400)) * time.Millisecond}
		if r.IntN(2) == 0 {
			f.point = points[r.IntN(len(points))]
			f.n += r.IntN(killPoints()[f.point])
			if r.IntN(2) == 0 {
				f.delay = time.Duration(1 + r.IntN(3000_000))
			}
			f.after = 700 * time.Millisecond
		}
		if f.cut {
			f.after *= 2
		}
		if r.IntN(3) == 0 {
			f.keep = collectAll
		}
		if f.lets = r.IntN(2) == 0; f.lets {
			f.after *= 2 // long enough for some collections to end
		}
		if l.round(t, &f); t.Failed() {
			return
		}
	}
}

const collectAll = "all for 1s, then one per 2s for 4s"

// round lets one child meet its fate and judges what it left. It reports whether the child died by itself, at its point.
func (l *life) round(t *testing.T, f *fate) (itself bool) {
	t.Helper()
	rs := l.seed<<16 | l.n
	l.n++
	o := orders{Dir: l.dir, Point: f.point, N: f.n, Delay: f.delay, Keep: f.keep, Classes: f.lets}
	l.lets = l.lets || f.lets
	l.forgot = l.forgot || f.keep != ""
	var d *disk
	if f.cut {
		if d = newDisk(t, l.dir); d == nil {
			return false
		}
		o.Dir = d.store()
		d.watch = &watch{r: rand.New(rand.NewPCG(rs, 3)), each: f.each}
	}
	// What the agents will do, and the state after each thing.
	var plan [][]*magent
	for _, a := range l.all {
		o.Where = append(o.Where, a.ws)
		a.finish()
		a.lets = l.lets
		if a.forgets = f.keep != ""; l.forgot {
			a.undo, a.redo = nil, nil
		}
		states := []*magent{a.snapshot()}
		var ops []mop
		for range cmp.Or(f.ops, 300) {
			ops = append(ops, a.next(rs))
			states = append(states, a.snapshot())
		}
		o.Ops = append(o.Ops, ops)
		plan = append(plan, states)
	}
	first := o
	if inReplay(f.point) {
		first.Point, first.N = "settled", 1+l.r.IntN(20)
	}
	run := startKilled(t, &first, f.after, d)
	itself = run.page[pageDied] == 1
	if inReplay(f.point) && !t.Failed() { // and the next one dies while it reads the journal; it has nothing else to do
		next := orders{Dir: l.dir, Point: f.point, N: f.n}
		itself = startKilled(t, &next, time.Millisecond, nil).page[pageDied] == 1
	}
	if t.Failed() {
		if d != nil {
			l.dir = d.cut(t, l.r)
		}
		for i := range l.all {
			did := plan[i][run.began[i]].did
			t.Logf("agent %d: %q", i, did[max(0, len(did)-12):])
		}
		t.Logf("round %d of seed %d, store %s", l.n-1, l.seed, keep(l.dir))
		return false
	}
	l.c.kills++
	run.count(l.c, &o)
	if f.cut {
		l.c.cuts++
		l.dir = d.cut(t, l.r)
	}
	if f.each > 0 {
		l.c.moments(t, d.watch, &o, rs, plan, l.forgot)
	}
	left := verifyAgents(t, l.dir, run, plan, o.Ops, f.cut, l.forgot)
	if t.Failed() {
		t.Logf("round %d of seed %d: %+v, store %s", l.n-1, l.seed, *f, keep(l.dir))
		return false
	}
	if f.lets {
		onDatabase(t, l.dir, func(db *sql.DB) {
			n := 0
			if err := db.QueryRow(`SELECT count(*) FROM content_gone`).Scan(&n); err != nil {
				t.Fatal(err)
			}
			l.c.gone += n
		})
	}
	for i := range l.all {
		l.c.acked += run.ended[i]
		l.c.lost += max(0, run.ended[i]-(left[i].n-l.all[i].n))
		l.all[i] = left[i]
	}
	return itself
}

// moments judges the power cuts that might have been in one round.
func (c *killCount) moments(t *testing.T, w *watch, o *orders, seed uint64, plan [][]*magent, forgot bool) {
	t.Helper()
	for kind, list := range w.moments {
		for i, m := range list {
			cut := func(to string) { m.store.cut(t, to, rand.New(rand.NewPCG(seed, uint64(100+kind*100+i)))) }
			dir := filepath.Join(t.TempDir(), "store")
			cut(dir)
			run := w.at(o, m)
			after := verifyAgents(t, dir, run, plan, o.Ops, true, forgot)
			if t.Failed() {
				kept, err := os.MkdirTemp("", "wsfs-cut")
				if err != nil {
					t.Fatal(err)
				}
				cut(filepath.Join(kept, "store"))
				t.Logf("moment %d of kind %d of %d, store %s", i, kind, w.seen[kind], kept)
				return
			}
			c.cuts++
			c.hit[[]string{"moment: before a write", "moment: before a flush", "moment: after a flush", "moment: before a name"}[kind]]++
			run.count(c, o)
			for i := range after {
				c.lost += max(0, run.ended[i]-(after[i].n-plan[i][0].n))
			}
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// keep saves what a failure left.
func keep(dir string) string {
	to, err := os.MkdirTemp("", "wsfs-killed")
	if err == nil {
		err = os.CopyFS(filepath.Join(to, "store"), os.DirFS(dir))
	}
	if err != nil {
		return err.Error()
	}
	return to
}

// startKilled lets a child work, and kills it after a time from when its store is open unless it dies by itself before.
// On a disk, its events come in the order of what the disk does.
func startKilled(t *testing.T, o *orders, after time.Duration, d *disk) *killed {
	t.Helper()
	tmp := t.TempDir()
	o.Page = filepath.Join(tmp, "page")
	if err := os.WriteFile(o.Page, make([]byte, pageSize), 0o600); err != nil {
		t.Fatal(err)
	}
	page, unmap, err := mapPage(o.Page)
	if err != nil {
		t.Fatal(err)
	}
	defer unmap()
	if d != nil {
		o.Events = filepath.Join(d.dir, "events")
		d.watch.page = page
	}
	var b bytes.Buffer
	err = gob.NewEncoder(&b).Encode(o)
	if err == nil {
		err = os.WriteFile(filepath.Join(tmp, "orders"), b.Bytes(), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestKillAgentsChild$")
	cmd.Env = append(os.Environ(), agentsFile+"="+filepath.Join(tmp, "orders"))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	k := newKilled(len(o.Ops))
	for in := bufio.NewReader(out); ; {
		line, err := in.ReadString('\n')
		if err != nil {
			break
		}
		if line = strings.TrimSpace(line); line == "open" {
			timer.Reset(after)
		}
		k.hear(o, line)
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("child ended with %v, not by a kill: %s\n%s", err, k.failed, &stderr)
	} else if k.failed != "" {
		t.Errorf("child: %s", k.failed)
	}
	if s := stderr.String(); s != "" {
		t.Logf("child: %s", s)
	}
	if d != nil {
		d.mu.Lock()
		d.watch.each = 0
		k = d.watch.at(o, &moment{lines: len(d.watch.lines)})
		d.mu.Unlock()
	}
	k.page = slices.Clone(page)
	return k
}

// mapPage maps a page that a child tells in what it is at.
func mapPage(file string) (page []byte, unmap func(), err error) {
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	page, err = syscall.Mmap(int(f.Fd()), 0, pageSize, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	return page, func() { _ = syscall.Munmap(page) }, err
}

// count says what the child was at when it died.
func (k *killed) count(c *killCount, o *orders) {
	hit := func(what string, yes bool) {
		if yes {
			c.hit[what]++
		}
	}
	hit("apply: contents", k.page[pageApply] == 'c')
	hit("apply: sync of packs and journal", k.page[pageApply] == 's')
	hit("apply: transaction", k.page[pageApply] == 't')
	hit("checkpoint", k.page[pageCheckpoint] != 0)
	hit("merge of segments", k.page[pageMerge] != 0)
	hit("collection", k.page[pageGC] != 0)
	hit("replay", k.page[pageReplay] != 0)
	hit("start", !k.opened)
	for i := range k.began {
		if k.began[i] > k.ended[i] {
			switch kind := o.Ops[i][k.began[i]-1].Kind; kind {
			case "rollback", "undo", "redo", "try undo", "try redo", "fork", "drop", "tag", "gc":
				hit("call: "+kind, true)
			case "sync", "writesync":
				hit("call: fsync", true)
			default:
				hit("call: journal append", true)
			}
		}
	}
}
