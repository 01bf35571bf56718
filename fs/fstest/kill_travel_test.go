package fstest_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// traveller works alone in a mount with files and the program's forks, tags, rollbacks and undo, and knows what every
// workspace must hold. A picture is name -> content of the root directory.
type traveller struct {
	w    *world
	dir  string
	rnd  *rand.Rand
	n    int
	live map[string]picture // by workspace
	tags []picture          // tag tN is tags[N]
	last picture            // before the last command that changed something, nil: none is known
	acks map[string]int
}

type picture map[string]string

// step does one thing. It returns what may be there instead of what was, if the kill came in between: the workspaces
// as they would be after it.
func (p *traveller) step() (after map[string]picture, err error) {
	p.n++
	now := p.live["main"]
	after = maps.Clone(p.live)
	session := []string{"WSFS_SESSION=traveller"}
	kind := ""
	next := p.last
	switch dice := p.rnd.IntN(20); {
	case dice == 0 && len(p.live) < 4:
		kind = "fork"
		name := fmt.Sprintf("fork%d", p.n)
		after[name] = now
		err = p.run(session, "fork", "main", name)
	case dice == 1:
		kind = "tag"
		if err = p.run(session, "tag", "main", fmt.Sprintf("t%d", len(p.tags))); err == nil {
			p.tags = append(p.tags, now)
		}
	case dice < 4 && len(p.tags) > 0:
		kind = "rollback"
		k := p.rnd.IntN(len(p.tags))
		if maps.Equal(p.tags[k], now) {
			return nil, nil
		}
		after["main"], next = p.tags[k], now
		err = p.run(session, "rollback", "main", fmt.Sprintf("@t%d", k), "-y")
	case dice == 7:
		kind = "gc"
		err = p.run(session, "gc", "--keep", "all for 1h", "--dropped", "0", "--thorough")
	case dice < 7 && p.last != nil:
		kind = "undo"
		after["main"], next = p.last, nil
		err = p.run(session, "undo")
	default: // one shell, one command
		kind = "command"
		script, then := p.script(now)
		after["main"], next = then, now
		cmd := exec.Command("sh", "-ec", script)
		cmd.Dir, cmd.Env = p.dir, append(p.w.env(), session...)
		var out []byte
		if out, err = cmd.CombinedOutput(); err != nil {
			err = fmt.Errorf("%s: %w: %s", script, err, out)
		}
	}
	if err != nil {
		return after, fmt.Errorf("%s: %w", kind, err)
	}
	p.acks[kind]++
	p.live, p.last = after, next
	return nil, nil
}

// script changes one to three files in ways that a kill may cut off between two of them.
func (p *traveller) script(now picture) (string, picture) {
	then := maps.Clone(now)
	var b strings.Builder
	f := fmt.Sprintf("f%d", p.rnd.IntN(12))
	text := fmt.Sprintf("%d-%d", p.n, p.rnd.Uint32())
	switch names := slices.Sorted(maps.Keys(now)); {
	case len(names) > 2 && p.rnd.IntN(4) == 0:
		old := names[p.rnd.IntN(len(names))]
		fmt.Fprintf(&b, "rm %s", old)
		delete(then, old)
	case len(names) > 0 && p.rnd.IntN(4) == 0:
		old := names[p.rnd.IntN(len(names))]
		to := fmt.Sprintf("m%d", p.n)
		fmt.Fprintf(&b, "mv %s %s", old, to)
		then[to] = then[old]
		delete(then, old)
	default:
		fmt.Fprintf(&b, "echo %s > %s", text, f)
		then[f] = text + "\n"
	}
	return b.String(), then
}

func (p *traveller) run(env []string, args ...string) error {
	cmd := exec.Command(*opt.wsfs, args...)
	cmd.Dir, cmd.Env = p.dir, append(p.w.env(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("wsfs %v: %w: %s", args, err, out)
	}
	return nil
}

// seen is what the mount shows of a workspace: "main" itself, others as they are exported.
func (p *traveller) seen(ws string) (picture, error) {
	dir := p.dir
	if ws != "main" {
		dir = filepath.Join(p.w.base, fmt.Sprintf("export-%s-%d", ws, p.n))
		p.w.wsfs("export", ws, dir)
		defer os.RemoveAll(dir)
	}
	out := picture{}
	list, err := os.ReadDir(dir)
	for _, e := range list {
		data, readErr := os.ReadFile(filepath.Join(dir, e.Name()))
		out[e.Name()], err = string(data), errors.Join(err, readErr)
	}
	return out, err
}

// TestKillTimeTravel kills the daemon while the program forks, tags, rolls back, undoes and collects on a real mount: what it said
// was done is done afterwards, in every workspace, and what was cut off has happened as a whole or not at all.
func TestKillTimeTravel(t *testing.T) {
	w, dir := newMount(t)
	const seed = 20261130
	p := &traveller{w: w, dir: dir, rnd: rand.New(rand.NewPCG(seed, 1)), live: map[string]picture{"main": {}}, acks: map[string]int{}}
	cut := map[string]int{}
	for round := range max(*opt.kills/10, 2) {
		dead := time.AfterFunc(time.Duration(100+p.rnd.IntN(900))*time.Millisecond, w.kill)
		var after map[string]picture
		var err error
		for err == nil {
			after, err = p.step()
		}
		if dead.Stop() {
			t.Fatalf("round %d: it failed though nobody killed it: %v", round, err)
		}
		if !waitFor(30*time.Second, func() bool { return w.pid() == 0 }) {
			t.Fatal("the daemon outlives its end")
		}
		kind, _, _ := strings.Cut(err.Error(), ":")
		cut[kind]++
		w.remount("main", dir)
		p.settle(round, kind, after)
		if t.Failed() {
			t.Fatalf("round %d: cut off: %v", round, err)
		}
	}
	t.Logf("done: %v; cut off: %v", p.acks, cut)
	if p.acks["command"] == 0 {
		t.Error("nothing was ever done: the test tests nothing")
	}
}

// settle compares all workspaces with what they were before the call that was cut off, and with what they would be.
func (p *traveller) settle(round int, kind string, after map[string]picture) {
	t := p.w.t
	t.Helper()
	var names []string
	for _, line := range strings.Split(p.w.wsfs("workspaces"), "\n") {
		if f := strings.Fields(line); len(f) > 0 {
			if _, ok := after[f[0]]; ok {
				names = append(names, f[0])
			}
		}
	}
	for ws := range p.live {
		if !slices.Contains(names, ws) {
			t.Errorf("round %d: workspace %s is gone; there are %v", round, ws, names)
		}
	}
	for _, ws := range names {
		have, err := p.seen(ws)
		if err != nil {
			t.Errorf("round %d: %s: %v", round, ws, err)
			continue
		}
		before, was := p.live[ws]
		switch {
		case was && maps.Equal(have, before):
		case maps.Equal(have, after[ws]):
			p.last = nil
		case kind == "command" && ws == "main" && subset(have, before, after[ws]):
			p.last = nil
		default:
			t.Errorf("round %d: %s holds %v, it may hold %v or %v", round, ws, have, before, after[ws])
		}
		p.live[ws] = have
	}
	if kind == "tag" { // it may be there: the next one must not be refused
		if _, _, code := p.w.try("ls", fmt.Sprintf("main@t%d", len(p.tags))); code == 0 {
			p.tags = append(p.tags, p.live["main"])
		}
	}
	if kind == "rollback" || kind == "undo" {
		p.last = nil
	}
}

// subset reports whether have is before with some of the files of after: a shell is no transaction, and a rename or a
// redirection that was cut off may have made an empty file.
func subset(have, before, after picture) bool {
	for name, text := range have {
		if text != "" && text != before[name] && text != after[name] {
			return false
		}
	}
	for name := range before {
		if _, there := have[name]; !there {
			if _, kept := after[name]; kept {
				return false
			}
		}
	}
	return true
}
