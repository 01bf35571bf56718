package store_test

import (
	"context"
	"encoding/gob"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"wsfs/blob"
	"wsfs/fs"
	"wsfs/store"
	"wsfs/store/sqlite"
)

// agentsFile, in the environment, is where a child of TestKillRandom finds what it has to do.
const agentsFile = "WSFS_TEST_KILL_AGENTS"

// orders are what a child has to do.
type orders struct {
	Dir, Page string // the store; the page that tells what it was at when it died
	Events    string // the file of a disk that is told what begins and ends; "" for standard output
	Point     string // die at the Nth time of this point, Delay after it; "" for not by itself
	N         int
	Delay     time.Duration
	Keep      string   // a policy by which history is collected all the time; "" for not at all
	Classes   bool     // classes let go of what is past, all the time
	Where     []string // the workspace that each agent begins in
	Ops       [][]mop
}

// What a page tells: one byte for each of these, then one for each agent.
const (
	pageApply = iota
	pageCheckpoint
	pageMerge
	pageReplay
	pageGC
	pageDied   // it died by itself, at its point
	pageAgents // 1: at work
	pageSize   = 4096
)

// phases are the points of the store, and which byte of the page is what after them.
func phases() map[string][2]byte {
	return map[string][2]byte{
		"apply": {pageApply, 'c'}, "settled": {pageApply, 's'}, "synced": {pageApply, 't'}, "committed": {pageApply, 0},
		"durable": {pageApply, 0}, "checkpoint": {pageCheckpoint, 1}, "checkpointed": {pageCheckpoint, 0},
		"merge": {pageMerge, 1}, "merged": {pageMerge, 0}, "replayed": {pageReplay, 1}, "replay durable": {pageReplay, 1},
		"gc step": {pageGC, 1}, "gc stepped": {pageGC, 0}, "gc copied": {pageGC, 'p'}, "gc durable": {pageGC, 'd'}, "gc removed": {pageGC, 0},
	}
}

// options are those of the small stores of these tests: everything that comes seldom in life comes often.
func killOptions(page []byte, at func(string)) store.Options {
	o := store.Options{
		SegmentBytes: 128 << 10, GroupOps: 32, GroupDelay: 3 * time.Millisecond, MergeAfter: 2,
		Log:  slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Blob: blob.Options{PackSize: 128 << 10},
	}
	table := phases()
	o.SetCrashPoint(func(point string) {
		if p, ok := table[point]; ok {
			page[p[0]] = p[1]
		}
		at(point)
	})
	return o
}

func TestKillAgentsChild(t *testing.T) {
	file := os.Getenv(agentsFile)
	if file == "" {
		return // only of use to TestKillRandom
	}
	if err := agents(context.Background(), file); err != nil {
		fmt.Printf("error %s\n", strings.ReplaceAll(err.Error(), "\n", " "))
		os.Exit(1)
	}
}

// agents ends only by its death, or with an error.
func agents(ctx context.Context, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	var o orders
	if err := gob.NewDecoder(f).Decode(&o); err != nil {
		return err
	}
	page, _, err := mapPage(o.Page)
	if err != nil {
		return err
	}
	events := os.Stdout
	if o.Events != "" {
		if events, err = os.OpenFile(o.Events, os.O_WRONLY, 0); err != nil {
			return err
		}
		defer events.Close()
	}
	var mu sync.Mutex
	left := o.N
	at := func(point string) {
		if point != o.Point {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if left--; left != 0 {
			return
		}
		page[pageDied] = 1
		if o.Delay > 0 {
			time.AfterFunc(o.Delay, die)
			return
		}
		die()
	}
	st, err := store.Open(ctx, o.Dir, sqlite.Driver(), killOptions(page, at))
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	page[pageReplay] = 0
	fmt.Println("open")
	if o.Events != "" {
		fmt.Fprintln(events, "open")
	}
	errs := make(chan error)
	var all []*agent
	for i := range o.Ops {
		a := &agent{st: st, name: "agent-" + strconv.Itoa(i), cut: 100 * time.Millisecond, tmp: filepath.Dir(o.Page)}
		if o.Classes {
			a.classes = killClasses()
		}
		if err := a.open(ctx, o.Where[i]); err != nil {
			return err
		}
		all = append(all, a)
	}
	for i, a := range all {
		a.all = all
		go func() { errs <- a.run(ctx, i, o.Ops[i], page, at, &mu, events) }()
	}
	if o.Keep != "" || o.Classes {
		var keep store.Retention // all
		if o.Keep != "" {
			if keep, err = store.ParseRetention(o.Keep); err != nil {
				return err
			}
		}
		go func() {
			for ; ; time.Sleep(10 * time.Millisecond) {
				if err := all[0].collect(ctx, keep); err != nil {
					errs <- fmt.Errorf("collect: %w", err)
				}
			}
		}()
	}
	return <-errs
}

func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// run tells of the beginning and the end of everything it does. A line is written whole, in the order of what happened.
func (a *agent) run(ctx context.Context, id int, ops []mop, page []byte, at func(string), mu *sync.Mutex, events *os.File) error {
	r := rand.New(rand.NewPCG(uint64(os.Getpid()), uint64(id)))
	say := func(what string, n int) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = fmt.Fprintf(events, "%s %d %d\n", what, id, n) // the test that reads it may be gone
	}
	for n, op := range ops {
		say("begin", n)
		page[pageAgents+id] = 1
		at("op " + op.Kind)
		if err := a.do(ctx, op); err != nil {
			return fmt.Errorf("agent %d, op %d %.200v: %w", id, n, op, err)
		}
		page[pageAgents+id] = 0
		say("end", n)
		if r.IntN(20) == 0 {
			time.Sleep(time.Duration(r.IntN(5)) * time.Millisecond)
		}
	}
	select {} // until somebody ends it
}

// makeAgents makes a store with the first workspace of each of n agents.
func makeAgents(t *testing.T, dir string, n int) []*magent {
	t.Helper()
	ctx := t.Context()
	if err := store.Init(ctx, dir, sqlite.Driver()); err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(ctx, dir, sqlite.Driver(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var all []*magent
	for i := range n {
		a := newAgent(i)
		if _, err := fs.NewWorkspace(ctx, st, a.ws, "", store.Attribution{}); err != nil {
			t.Fatal(err)
		}
		all = append(all, a)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	return all
}
