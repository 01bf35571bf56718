package fstest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

func toolsTests() []test {
	return []test{
		{"git loop (s47)", toolsGit},
		{"parallel cp -r (s52)", toolsCp},
		{"tar round trip (s53)", toolsTar},
		{"du counts a hard link once (s12)", toolsDu},
		{"sed -i, install, mv, ln -sf", toolsSmall},
		{"shell redirections", toolsShell},
	}
}

// sh runs a shell script in the test's directory and returns what it printed.
func (e *env) sh(script string, args ...string) string {
	e.Helper()
	cmd := exec.Command("/bin/bash", append([]string{"-c", script, "bash"}, args...)...)
	cmd.Dir = e.dir
	cmd.Env = append(os.Environ(), "HOME="+e.dir) // the caller's may belong to somebody else
	out, err := cmd.CombinedOutput()
	if err != nil {
		e.Fatalf("%s\n%s%v", script, out, err)
	}
	return strings.TrimSpace(string(out))
}

func (e *env) tool(name string) {
	e.Helper()
	if _, err := exec.LookPath(name); err != nil {
		e.Skipf("%s is not installed: %v", name, err)
	}
}

func toolsGit(e *env) {
	e.tool("git")
	out := e.sh(`set -e
		git init -q . ; git config user.email a@b; git config user.name a; git config gc.auto 0
		for i in $(seq 15); do echo $i >> f$((i%5)); git add -A; git commit -qm $i; done
		git gc -q; git switch -qc other; echo x >> f0; git commit -qam other; git switch -q -; git merge -q other
		git fsck --strict 2>&1 | grep -vE '^(notice|dangling)' || true
		git status -s; git log --oneline | wc -l
		test $(git reflog | wc -l) = $(wc -l < .git/logs/HEAD); wc -l < .git/logs/HEAD`) // commits, two switches, a commit, a merge (s25)
	e.eq(out, "16\n19", "git fsck, status and number of commits and of reflog entries")
}

func toolsCp(e *env) {
	e.mkdir("o")
	for i := range 100 {
		e.write(fmt.Sprintf("o/%d", i), pattern(2000+i, byte(i)))
	}
	e.each(8, func(k int) error {
		c := fmt.Sprintf("c%d", k)
		if out, err := exec.Command("cp", "-r", e.p("o"), e.p(c)).CombinedOutput(); err != nil {
			return fmt.Errorf("cp: %w %s", err, out)
		}
		if out, err := exec.Command("diff", "-rq", e.p("o"), e.p(c)).CombinedOutput(); err != nil {
			return fmt.Errorf("diff: %w %s", err, out)
		}
		return nil
	})
}

func toolsTar(e *env) {
	e.mkdir("t")
	for i, n := range oddNames() {
		if err := os.WriteFile(e.p("t/"+n), []byte(pattern(i*1000, byte(i))), os.FileMode(0o600+i)); err != nil {
			e.Fatal(err)
		}
	}
	e.sh(`set -e
		mkdir -p t/deep/er; ln -s ../x t/deep/l; ln t/A t/deep/hard; mkfifo t/deep/p; touch -d '2001-02-03 04:05:06.789012345' t/deep/er
		tar cf a.tar t; mkdir out; tar xpf a.tar -C out; tar df a.tar -C out
		rm -f t/deep/p out/t/deep/p; diff -r --no-dereference t out/t`)
	e.eq(mtime(e.stat("out/t/deep/er"))/1e9, mtime(e.stat("t/deep/er"))/1e9, "mtime of a directory")
	e.eq(e.stat("out/t/A").Ino, e.stat("out/t/deep/hard").Ino, "a hard link stays one")
}

func toolsDu(e *env) {
	e.write("f", pattern(4<<20, 1))
	one := e.sh("sync f; du -k f | cut -f1")
	e.sh("ln f g; ln f h")
	total := e.sh("du -kc f g h | tail -1 | cut -f1")
	e.eq(total, one, "du of three links")
}

func toolsSmall(e *env) {
	out := e.sh(`set -e
		printf 'one\ntwo\n' > f; sed -i s/one/ONE/ f; cat f
		install -m 750 f g; stat -c %a g
		ln -sf f l; ln -sf g l; readlink l
		cp -p g h; mv -f h f; cat f; rm -f l; truncate -s 3 f; cat f; echo
		cp --sparse=always f s; cmp f s; touch -r g s; [ ! s -nt g ]; mktemp -p . >/dev/null; ls | wc -l`)
	e.eq(out, "ONE\ntwo\n750\ng\nONE\ntwo\nONE\n4", "output")
}

func toolsShell(e *env) {
	out := e.sh(`set -e
		for i in 1 2 3; do /bin/echo $i; done > log; cat log
		echo a > f; echo b >> f; cat < f; : > f; wc -c < f; set -C; (echo x > f) 2>/dev/null || echo refused
		{ echo to3 >&3; } 3> three; cat three; exec 5<> rw; echo hello >&5; exec 5>&-; cat rw
		cat > here <<< "here string"; cat here; echo in-tee | tee t1 t2 > t3; cat t1 t2 t3`)
	want := "1\n2\n3\na\nb\n0\nrefused\nto3\nhello\nhere string\nin-tee\nin-tee\nin-tee"
	if !bytes.Equal([]byte(out), []byte(want)) {
		e.Errorf("output %q, want %q", out, want)
	}
}
