package fstest_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// A save is how a real program changes the line $FROM of f to $TO, which is as long. Its script runs by `bash -eu` in the directory of f with
// $NEW, a file with the whole of what it means f to become, $OUT, a directory outside of the mount, and $OFF, where $FROM begins.
type save struct {
	name, needs string
	script      string
	// read is what the program does before `hold` returns: until then others may save. Empty: somebody has read f with cat.
	read string
	// fresh: it reads f itself when it saves, so that it means to keep what it meets.
	fresh bool
	// refuses: it may find out by itself that somebody has been there, and end without having changed anything.
	refuses bool
}

const (
	saveRepo = `export GIT_DIR=$OUT/git GIT_WORK_TREE=$PWD; git init -q; git config user.name x; git config user.email x@y; git config core.fsync none
git add f; git commit -qm base; `
	// It asks whether it is to write over what has changed meanwhile, even where it is told to.
	inVim = `printf yyyy | vim -u NONE -N -es -c 'set noswapfile backupskip= backupdir=. %s' -c "silent %%s/^$FROM\$/$TO/e" %s -c w! -c q! f`
)

func vimSave(name, set string, stale bool) save {
	s := save{name: name, needs: "vim", fresh: true, script: fmt.Sprintf(inVim, set, "")}
	if stale {
		s.fresh, s.name = false, "open in "+name
		s.script = fmt.Sprintf(inVim, set, `-c "call writefile([], '$OUT/read') | while !filereadable('$OUT/go') | sleep 10m | endwhile"`)
	}
	return s
}

func pySave(name, code string) save {
	return save{name: name, needs: "python3", script: `python3 -Ic 'import os; new=open(os.environ["NEW"]).read(); ` + code + `'`}
}

func programSaves() []save {
	return []save{
		vimSave("vim", "", false), vimSave("vim backupcopy=yes", "backup backupcopy=yes", false), vimSave("vim backupcopy=no", "backup backupcopy=no", false),
		vimSave("vim", "", true), vimSave("vim backupcopy=yes", "backup backupcopy=yes", true), vimSave("vim backupcopy=no", "backup backupcopy=no", true),
		{name: "sed -i", fresh: true, script: `sed -i "s/^$FROM\$/$TO/" f`},
		{name: "perl -pi", needs: "perl", fresh: true, script: `perl -i -pe 's/^\Q$ENV{FROM}\E$/$ENV{TO}/' f`},
		{name: "ed", needs: "ed", fresh: true, script: `printf ',s/^%s$/%s/\nw\nq\n' "$FROM" "$TO" | ed -s f`},
		{name: "open in ed", needs: "ed", script: `{ printf ',s/^%s$/%s/\n' "$FROM" "$TO"; hold; printf 'w\nq\n'; } | ed -s f`},
		pySave("python write", `open("f", "w").write(new)`),
		pySave("python os.replace", `t = open("f.tmp", "w"); t.write(new); t.close(); os.replace("f.tmp", "f")`),
		{name: "patch", needs: "patch", fresh: true, script: `patch -s f $OUT/patch`},
		{name: "git checkout of a path", needs: "git", read: saveRepo + `cat $NEW > $OUT/f; git update-index --cacheinfo 100644,$(git hash-object -w $OUT/f),f; git commit -qm new; hold; `,
			script: `git checkout -q HEAD -- f`},
		{name: "git stash pop", needs: "git", read: saveRepo + `cat $NEW > f; git stash -q; hold; `, script: `git stash pop -q`, refuses: true},
		{name: "cp", script: `cp $NEW f`},
		{name: "cp --backup", script: `cp --backup $NEW f`},
		{name: "mv with a link as backup", script: `ln -f f f~; cp $NEW t$WSFS_SESSION; mv t$WSFS_SESSION f`},
		{name: "rsync", needs: "rsync", script: `rsync -I $NEW f`},
		{name: "rsync --inplace", needs: "rsync", script: `rsync -I --inplace --whole-file $NEW f`},
		{name: "tee", script: `tee f < $NEW > /dev/null`},
		{name: "dd", fresh: true, script: `dd if=$OUT/line of=f bs=1 seek=$OFF conv=notrunc status=none`},
	}
}

const (
	saveText = "alpha\nline two of ten\ngamma\ndelta\nepsilon\nzeta\neta\nline eight of ten\niota\nkappa\n"
	lineTwo  = "line two of ten"
	lineNine = "line eight of ten"
)

// TestProgramsSaveOverEachOther has real programs of two sessions save one file: one has read it, another one edits and saves, and then the first one
// saves what it means the file to become. Both edits are in the file, or a conflict has what is not; and where both are, nobody is bothered.
// Pairs by dice, all if WSFS_TEST_FULL is set.
func TestProgramsSaveOverEachOther(t *testing.T) {
	w, dir := newMount(t)
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("WSFS_TEST_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Logf("WSFS_TEST_SEED=%d", seed)
	var styles []save
	for _, s := range programSaves() {
		if _, err := exec.LookPath(s.needs); s.needs != "" && err != nil {
			t.Logf("%s is not installed (scripts/test installs it): %q is not tried", s.needs, s.name)
			continue
		}
		styles = append(styles, s)
	}
	var pairs []*pairOfSaves
	rnd := rand.New(rand.NewPCG(seed, 1))
	shuffled := rnd.Perm(len(styles))
	times := 1
	if os.Getenv("WSFS_TEST_FULL") != "" {
		times = len(styles)
	} else {
		t.Log("each program once on both sides; WSFS_TEST_FULL: all pairs")
	}
	from := rnd.IntN(len(styles))
	for turn := range times { // each as often on both sides
		for i := range styles {
			pairs = append(pairs, &pairOfSaves{w: w, dir: dir, n: len(pairs), first: &styles[shuffled[i]], then: &styles[shuffled[(i+from+turn)%len(styles)]]})
		}
	}
	for _, session := range []string{"ann", "ben"} { // from now on it counts what they read
		script(t, dir, time.Minute, "echo > $WSFS_SESSION", append(w.env(), "WSFS_SESSION="+session)...)
	}
	var all sync.WaitGroup
	next := make(chan *pairOfSaves)
	for range 3 {
		all.Go(func() {
			for p := range next {
				p.run()
			}
		})
	}
	for _, p := range pairs {
		next <- p
	}
	close(next)
	all.Wait()
	open := map[string]string{} // the latest, by path
	out, _, _ := w.try("conflicts", "-w", "main", "--json")
	for _, line := range strings.Split(strings.TrimSpace(out), "\n") {
		var c struct{ Path, Why string }
		if line != "" {
			if err := json.Unmarshal([]byte(line), &c); err != nil {
				t.Fatal(err, line)
			}
			open[c.Path] = c.Why
		}
	}
	told, refused := 0, 0
	for _, p := range pairs {
		why := open[path.Join(p.name(), "f")]
		delete(open, path.Join(p.name(), "f"))
		if why != "" {
			told++
		}
		if p.refused {
			refused++
		}
		p.judge(t, why)
	}
	for _, p := range pairs {
		if backup := path.Join(p.name(), "f~"); open[backup] != "" && strings.Contains(p.first.name+p.first.script, "backup") && strings.Contains(p.then.name+p.then.script, "backup") {
			t.Logf("%s, then %s: the backup: %s", p.first.name, p.then.name, open[backup])
			delete(open, backup)
		}
	}
	for name, why := range open {
		t.Errorf("a conflict about %s: %s", name, why)
	}
	t.Logf("%d pairs of %d styles, %d conflicts open, %d times a program refused", len(pairs), len(styles), told, refused)
}

// pairOfSaves is two of them, one over the other.
type pairOfSaves struct {
	w           *world
	dir         string // of the mount
	n           int
	first, then *save
	failed      error
	refused     bool
	text        string // at last
}

func (p *pairOfSaves) name() string { return fmt.Sprintf("p%d", p.n) }

// session starts a session on the file; `then` waits in hold until the file go is in its directory.
func (p *pairOfSaves) session(name string, s *save, from string, waits bool) (cmd *exec.Cmd, out string, err error) {
	out = filepath.Join(p.w.base, "out", p.name(), name)
	to := strings.ToUpper(from)
	text := strings.Replace(saveText, from, to, 1)
	files := map[string]string{
		"new": text, "line": to, "hold": "echo > $OUT/read; until [ -e $OUT/go ]; do sleep 0.01; done\n",
		"patch": fmt.Sprintf("--- f\n+++ f\n@@ -%d +%d @@\n-%s\n+%s\n", 1+strings.Count(saveText[:strings.Index(saveText, from)], "\n"),
			1+strings.Count(saveText[:strings.Index(saveText, from)], "\n"), from, to),
	}
	if !waits {
		files["go"] = ""
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return nil, "", err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(out, name), []byte(text), 0o644); err != nil {
			return nil, "", err
		}
	}
	read := s.read
	if read == "" && !strings.Contains(s.script, "hold") && !strings.Contains(s.script, "$OUT/read") {
		read = "cat f > /dev/null; hold; "
	}
	cmd = exec.Command("bash", "-euo", "pipefail", "-c", "hold() { . $OUT/hold; }\n"+read+"\n"+s.script)
	cmd.Dir = filepath.Join(p.dir, p.name())
	cmd.Env = append(p.w.env(), "WSFS_SESSION="+name, "OUT="+out, "NEW="+filepath.Join(out, "new"), "FROM="+from, "TO="+to,
		fmt.Sprint("OFF=", strings.Index(saveText, from)), "HOME="+out, "GIT_CONFIG_NOSYSTEM=1")
	cmd.WaitDelay = 5 * time.Second
	return cmd, out, nil
}

func (p *pairOfSaves) run() {
	if p.failed = p.try(); p.failed != nil {
		p.failed = fmt.Errorf("%s, then %s: %w", p.first.name, p.then.name, p.failed)
	}
}

func (p *pairOfSaves) try() error {
	dir := filepath.Join(p.dir, p.name())
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte(saveText), 0o644); err != nil {
		return err
	}
	stale, out, err := p.session("ann", p.then, lineTwo, true)
	if err != nil {
		return err
	}
	var said strings.Builder
	stale.Stdout, stale.Stderr = &said, &said
	if err := stale.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- stale.Wait() }()
	end := func() error {
		select {
		case err := <-ended:
			return err
		case <-time.After(time.Minute):
			_ = stale.Process.Kill()
			return fmt.Errorf("it does not end: %w", <-ended)
		}
	}
	if !waitFor(30*time.Second, func() bool { _, err := os.Stat(filepath.Join(out, "read")); return err == nil }) {
		_ = os.WriteFile(filepath.Join(out, "go"), nil, 0o644)
		return fmt.Errorf("%s never reads: %w: %s", p.then.name, end(), said.String())
	}
	other, _, err := p.session("ben", p.first, lineNine, false)
	if err == nil {
		var text []byte
		if text, err = other.CombinedOutput(); err != nil {
			err = fmt.Errorf("%s: %w: %s", p.first.name, err, text)
		}
	}
	if e := os.WriteFile(filepath.Join(out, "go"), nil, 0o644); err == nil {
		err = e
	}
	if e := end(); e != nil && p.then.refuses {
		p.refused = true
	} else if e != nil && err == nil {
		err = fmt.Errorf("%s: %w: %s", p.then.name, e, said.String())
	}
	text, e := os.ReadFile(filepath.Join(dir, "f"))
	if p.text = string(text); err == nil {
		err = e
	}
	return err
}

// judge compares what became of it with what may: why is that of the conflict that is open, "" if none is.
func (p *pairOfSaves) judge(t *testing.T, why string) {
	if p.failed != nil {
		t.Error(p.failed)
		return
	}
	what := fmt.Sprintf("%s, then %s", p.first.name, p.then.name)
	mine, theirs := strings.Contains(p.text, strings.ToUpper(lineTwo)), strings.Contains(p.text, strings.ToUpper(lineNine))
	switch {
	case p.refused && theirs && !mine && why == "":
	case p.refused:
		t.Errorf("%s: it refused, and there is %q (conflict: %q)", what, p.text, why)
	case mine && theirs && why != "":
		t.Errorf("%s: both edits are there, and a conflict is open: %s", what, why)
	case mine && theirs && len(p.text) != len(saveText):
		t.Errorf("%s: there is %q", what, p.text)
	case mine && theirs:
	case p.then.fresh:
		t.Errorf("%s: it read what was there, and there is %q (conflict: %q)", what, p.text, why)
	case why == "":
		t.Errorf("%s: an edit is gone and nothing tells: %q", what, p.text)
	default:
		t.Logf("%s: %s: %q", what, why, p.text)
	}
}
