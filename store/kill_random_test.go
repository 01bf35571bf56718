package store_test

import (
	"bufio"
	"bytes"
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

	"wsfs/store"
	"wsfs/store/sqlite"
)

var killFlags = struct {
	kills *int
	seed  *uint64
	cuts  *int
}{
	flag.Int("kills", 10, "TestKillRandom: how often a child is killed; 500 by hand"),
	flag.Uint64("killseed", 0, "TestKillRandom: what the dice start from, of TestPowerCuts too; 0: the clock"),
	flag.Int("cuts", 25, "TestPowerCuts: at how many moments the power is cut; 2000 by hand"),
}

// killsPerStore bounds the history that one store of TestKillRandom grows.
const killsPerStore = 25

// TestKillRandom kills children at random, in which agents change files, fork, tag, drop, roll back, undo and redo, and
// compares what the next start finds with what the agents were told: everything acknowledged after a kill; after a
// power cut, in which each file of the store loses of its own what was not synced, everything synced. What is there
// beyond that is a prefix of what was done. Log, blame, past states and the next undo must agree with it.
//
// In a third of the rounds history is collected all the time, by a policy that keeps next to nothing: then agents take nothing back, but
// tags, forks and what is there stay as they are. In the others they collect what was dropped.
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
	for n := uint64(0); c.cuts < *killFlags.cuts && !t.Failed(); n++ {
		t.Run(fmt.Sprint(c.cuts), func(t *testing.T) {
			each := min(6, (*killFlags.cuts-c.cuts+3)/4)
			randomKills(t, c, seed+n, min(6, (*killFlags.cuts-c.cuts+4*each)/(4*each+1)), each)
			c.report(t)
		})
	}
	if !t.Failed() && c.acked < c.cuts {
		t.Errorf("too little was done to tell anything")
	}
}

type killCount struct {
	kills, cuts, acked, lost int
	hit                      map[string]int
}

func (c *killCount) report(t *testing.T) {
	t.Logf("%d kills, %d power cuts; %d things acknowledged, %d undone by a cut; at:", c.kills, c.cuts, c.acked, c.lost)
	for _, what := range slices.Sorted(maps.Keys(c.hit)) {
		t.Logf("  %4d %s", c.hit[what], what)
	}
}

// killPoints are those that a child dies at by itself, with how late at most. Half of the kills come at any time.
func killPoints() map[string]int {
	return map[string]int{
		"apply": 40, "settled": 40, "synced": 40, "committed": 40, "durable": 4, "checkpoint": 2, "checkpointed": 2,
		"merge": 8, "merged": 8, "replayed": 3, "replay durable": 1, "op rollback": 3, "op undo": 3, "op redo": 2, "op fork": 4,
		"gc step": 30, "gc stepped": 30, "gc copied": 3, "gc durable": 3, "gc removed": 2,
	}
}

// randomKills is the life of one store. With each, all are power cuts, and there are more of them: each of every kind of
// moment of each round.
func randomKills(t *testing.T, c *killCount, seed uint64, rounds, each int) {
	dir := filepath.Join(t.TempDir(), "store")
	all := makeAgents(t, dir, 3)
	r := rand.New(rand.NewPCG(seed, 1))
	points := slices.Sorted(maps.Keys(killPoints()))
	forgot := false // history was collected
	for round := range rounds {
		rs := seed<<16 | uint64(round)
		cut := r.IntN(3) == 0 || each > 0
		o := orders{Dir: dir, N: 1}
		after := time.Duration(20+r.IntN(400)) * time.Millisecond
		if r.IntN(2) == 0 {
			o.Point = points[r.IntN(len(points))]
			o.N += r.IntN(killPoints()[o.Point])
			if r.IntN(2) == 0 {
				o.Delay = time.Duration(1 + r.IntN(3000_000))
			}
			after = 700 * time.Millisecond
		}
		var d *disk
		if cut {
			if d = newDisk(t, dir); d == nil {
				return
			}
			o.Dir, after = d.store(), 2*after
			d.watch = &watch{r: rand.New(rand.NewPCG(rs, 3)), each: each}
		}
		// What the agents will do, and the state after each thing.
		var plan [][]*magent
		if r.IntN(3) == 0 {
			o.Keep = "all for 1s, then one per 2s for 4s"
			forgot = true
		}
		for _, a := range all {
			o.Where = append(o.Where, a.ws)
			a.finish()
			if a.forgets = o.Keep != ""; forgot {
				a.undo, a.redo = nil, nil
			}
			states := []*magent{a.snapshot()}
			var ops []mop
			for range 300 {
				ops = append(ops, a.next(rs))
				states = append(states, a.snapshot())
			}
			o.Ops = append(o.Ops, ops)
			plan = append(plan, states)
		}
		run := startKilled(t, &o, after, d)
		if t.Failed() {
			if d != nil {
				dir = d.cut(t, r)
			}
			for i := range all {
				did := plan[i][run.began[i]].did
				t.Logf("agent %d: %q", i, did[max(0, len(did)-12):])
			}
			t.Logf("round %d of seed %d, store %s", round, seed, keep(dir))
			return
		}
		c.kills++
		run.count(c, &o)
		if cut {
			c.cuts++
			dir = d.cut(t, r)
		}
		if packBegun(t, dir) {
			c.hit["pack rotation: a pack is begun and no row names it"]++
		}
		if each > 0 {
			c.moments(t, d.watch, &o, rs, plan, forgot)
		}
		left := verifyAgents(t, dir, run, plan, o.Ops, cut, forgot)
		if t.Failed() {
			t.Logf("round %d of seed %d: power cut %v, point %q %d +%v, store %s", round, seed, cut, o.Point, o.N, o.Delay, keep(dir))
			return
		}
		for i := range all {
			c.acked += run.ended[i]
			c.lost += max(0, run.ended[i]-(left[i].n-all[i].n))
			all[i] = left[i]
		}
	}
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

// packBegun reports whether the last pack is one that the database does not know of yet.
func packBegun(t *testing.T, dir string) bool {
	t.Helper()
	st, err := store.Open(t.Context(), dir, sqlite.Driver(), store.Options{ReadOnly: true})
	if err != nil {
		return false // the start that comes next says what is wrong
	}
	defer st.Close()
	known, err := st.Count(t.Context(), "SELECT coalesce(max(pack), 0) FROM blob")
	packs, globErr := filepath.Glob(filepath.Join(dir, "packs", "*.pack"))
	if err != nil || globErr != nil || len(packs) == 0 {
		return false
	}
	return filepath.Base(slices.Max(packs)) > fmt.Sprintf("%08d.pack", known)
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
	if o.Point == "replayed" || o.Point == "replay durable" {
		timer.Reset(2 * time.Second) // it may have nothing to replay
	}
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
			case "rollback", "undo", "redo", "fork", "drop", "tag", "gc":
				hit("call: "+kind, true)
			case "sync", "writesync":
				hit("call: fsync", true)
			default:
				hit("call: journal append", true)
			}
		}
	}
}
