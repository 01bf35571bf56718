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
}{
	flag.Int("kills", 10, "TestKillRandom: how often a child is killed; 500 by hand"),
	flag.Uint64("killseed", 0, "TestKillRandom: what the dice start from; 0: the clock"),
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
	seed := *killFlags.seed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-killseed=%d", seed)
	c := &killCount{hit: map[string]int{}}
	for from := 0; from < kills && !t.Failed(); from += killsPerStore {
		t.Run(fmt.Sprint(from), func(t *testing.T) {
			randomKills(t, c, seed+uint64(from), min(killsPerStore, kills-from))
			c.report(t) // so far: 500 take minutes
		})
	}
	c.report(t)
	if !t.Failed() && c.acked < 5*c.kills {
		t.Errorf("too little was done to tell anything")
	}
}

type killCount struct {
	kills, cuts, acked, lost int
	hit                      map[string]int
}

func (c *killCount) report(t *testing.T) {
	t.Logf("%d kills, %d of them power cuts; %d things acknowledged, %d undone by a cut; killed at:", c.kills, c.cuts, c.acked, c.lost)
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

// randomKills is the life of one store.
func randomKills(t *testing.T, c *killCount, seed uint64, rounds int) {
	dir := filepath.Join(t.TempDir(), "store")
	all := makeAgents(t, dir, 3)
	r := rand.New(rand.NewPCG(seed, 1))
	points := slices.Sorted(maps.Keys(killPoints()))
	forgot := false // history was collected
	for round := range rounds {
		rs := seed<<16 | uint64(round)
		cut := r.IntN(3) == 0
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
			o.Dir, after = d.dir, 2*after
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
		run := startKilled(t, &o, after)
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
		k := verifyAgents(t, dir, run, plan, o.Ops, cut, forgot)
		if t.Failed() {
			t.Logf("round %d of seed %d: power cut %v, point %q %d +%v, store %s", round, seed, cut, o.Point, o.N, o.Delay, keep(dir))
			return
		}
		for i := range all {
			all[i] = plan[i][k[i]]
			c.acked += run.ended[i]
			c.lost += max(0, run.ended[i]-k[i])
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

// killed is what is known of a child that was killed.
type killed struct {
	page   []byte
	events []event
	began  []int // of each agent, how many things it has begun
	ended  []int // and how many were acknowledged
	synced []int // and how many of them must survive a power cut
	opened bool
}

type event struct {
	end   bool
	agent int
	n     int
}

// startKilled lets a child work, and kills it after a time from when its store is open unless it dies by itself before.
func startKilled(t *testing.T, o *orders, after time.Duration) *killed {
	t.Helper()
	tmp := t.TempDir()
	o.Page = filepath.Join(tmp, "page")
	if err := os.WriteFile(o.Page, make([]byte, pageSize), 0o600); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(o)
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
	n := len(o.Ops)
	k := &killed{began: make([]int, n), ended: make([]int, n), synced: make([]int, n)}
	failed := ""
	ends := make(map[[2]int][]int) // of what was begun: what had ended then
	for in := bufio.NewReader(out); ; {
		line, err := in.ReadString('\n')
		if err != nil {
			break
		}
		var e event
		switch word, rest, _ := strings.Cut(strings.TrimSpace(line), " "); word {
		case "open":
			k.opened = true
			timer.Reset(after)
			continue
		case "begin", "end":
			e.end = word == "end"
			if _, err := fmt.Sscan(rest, &e.agent, &e.n); err != nil {
				t.Errorf("child: %s: %v", line, err)
			}
		default:
			failed += line
			continue
		}
		k.events = append(k.events, e)
		if !e.end {
			k.began[e.agent]++
			ends[[2]int{e.agent, e.n}] = slices.Clone(k.ended)
			continue
		}
		k.ended[e.agent]++
		if kind := o.Ops[e.agent][e.n].Kind; kind == "sync" || kind == "writesync" {
			for i, m := range ends[[2]int{e.agent, e.n}] {
				k.synced[i] = max(k.synced[i], m)
			}
			k.synced[e.agent] = e.n + 1
		}
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("child ended with %v, not by a kill: %s\n%s", err, failed, &stderr)
	}
	if s := stderr.String(); s != "" {
		t.Logf("child: %s", s)
	}
	if k.page, err = os.ReadFile(o.Page); err != nil {
		t.Fatal(err)
	}
	return k
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
