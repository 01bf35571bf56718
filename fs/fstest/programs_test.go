package fstest_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// script runs a bash script in a directory with a deadline and returns what it printed.
func script(t testing.TB, dir string, deadline time.Duration, text string, env ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", text)
	cmd.Dir = dir
	home, err := os.MkdirTemp("", "home")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(home)
	cmd.Env = append(append(os.Environ(), "HOME="+home, "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0"), env...)
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		s := string(out)
		if len(s) > 5000 {
			s = "...\n" + s[len(s)-5000:]
		}
		t.Fatalf("%v: in %s\n%s\nprinted:\n%s", err, dir, text, s)
	}
	return strings.TrimSpace(string(out))
}

func need(t testing.TB, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("%s is not installed (scripts/test installs it): %v", p, err)
		}
	}
}

// TestPrograms lets real programs work on one mount. Each case is right on a plain directory, too (-dir).
func TestPrograms(t *testing.T) {
	dir := *opt.dir
	if dir == "" {
		_, dir = newMount(t)
	}
	for _, p := range []struct {
		name string
		run  func(t *testing.T, dir string)
	}{
		{"git", programGit},
		{"git clone and gc of a large history", programGitLarge},
		{"sqlite wal", func(t *testing.T, dir string) { programSqlite(t, dir, "wal") }},
		{"sqlite delete", func(t *testing.T, dir string) { programSqlite(t, dir, "delete") }},
		{"sqlite truncate", func(t *testing.T, dir string) { programSqlite(t, dir, "truncate") }},
		{"sqlite large wal", programSqliteLarge},
		{"npm install", programNpm},
		{"go build", programGo},
		{"tar", programTar},
		{"rsync", programRsync},
		{"cp and find", programCp},
		{"vim", programVim},
		{"python venv", programPython},
		{"make and gcc", programMake},
		{"fio mmap verify", programFio},
	} {
		t.Run(p.name, func(t *testing.T) {
			sub := filepath.Join(dir, strings.ReplaceAll(p.name, " ", "-"))
			if err := os.Mkdir(sub, 0o755); err != nil {
				t.Fatal(err)
			}
			p.run(t, sub)
			if err := os.RemoveAll(sub); err != nil {
				t.Errorf("clean up: %v", err)
			}
		})
	}
}

const gitSetup = `git config --global user.email a@b; git config --global user.name a; git config --global init.defaultBranch main
git config --global protocol.file.allow always; git config --global safe.directory '*'
`

func programGit(t *testing.T, dir string) {
	need(t, "git")
	out := script(t, dir, 2*time.Minute, gitSetup+`
		git init -q src; cd src
		for i in $(seq 20); do echo "$i" >> "f$((i%4))"; mkdir -p "d$i"; echo "$i" > "d$i/file"; git add -A; git commit -qm "$i"; done
		git mv f0 renamed; git rm -q f1; git commit -qam moved; git tag v1
		git switch -qc side HEAD~5; echo side > side; git add side; git commit -qm side; git switch -q main; git merge -qm merge side
		git stash list; echo dirty >> f2; git stash -q; git stash pop -q; git checkout -q f2; git rebase -q v1~3 side 2>/dev/null; git switch -q main
		git repack -adq; git gc -q --prune=now; git fsck --strict --no-progress; git status --short
		cd ..; git clone -q src local; git clone -q --no-local src copy; git clone -q --bare src bare.git
		for r in local copy bare.git; do git -C $r fsck --strict --no-progress; done
		diff -r --exclude=.git src local; diff -r --exclude=.git src copy
		git -C local checkout -q v1; git -C local worktree add -q ../tree main; git -C tree log --oneline | wc -l
		git -C copy reset -q --hard HEAD~3; git -C copy pull -q; git -C copy rev-parse HEAD; git -C src rev-parse main`)
	lines := strings.Split(out, "\n")
	if n := len(lines); n < 3 || lines[n-1] != lines[n-2] {
		t.Errorf("the clone is not where its source is:\n%s", out)
	}
	if strings.Contains(out, "error") || strings.Contains(out, "missing") {
		t.Errorf("git fsck complains:\n%s", out)
	}
}

func programGitLarge(t *testing.T, dir string) {
	need(t, "git")
	script(t, dir, 5*time.Minute, gitSetup+`
		git init -q big; cd big
		cp -r "$(go env GOROOT)/src/net" "$(go env GOROOT)/src/os" .
		git add -A; git commit -qm all
		head -c 30000000 /dev/urandom > blob; git add blob; git commit -qm blob
		git status --short | wc -l; git gc -q; git fsck --strict --no-progress
		cd ..; for i in 1 2; do git clone -q --no-local big "c$i" & done; wait
		for i in 1 2; do cmp big/blob c$i/blob; git -C c$i status --short; git -C c$i fsck --no-progress; diff -r --exclude=.git big c$i; done`)
}

// programSqlite: three writers at once, one that is killed, and the numbers must add up.
func programSqlite(t *testing.T, dir, mode string) {
	need(t, "sqlite3")
	out := script(t, dir, 3*time.Minute, `
		sqlite3 db "pragma journal_mode=`+mode+`; create table t(id integer primary key, w int, i int, b blob); create index x on t(w,i);" > mode
		writer() {
			for i in $(seq 1 40); do
				echo "pragma busy_timeout=60000; begin immediate; insert into t(w,i,b) values($1,$i,randomblob(abs(random())%6000)); update t set b=zeroblob(3000) where w=$1 and i=$i-3; commit;"
			done | sqlite3 db > /dev/null
		}
		killed() { while :; do echo "pragma busy_timeout=60000; begin immediate; insert into t(w,i,b) values(9,0,randomblob(5000)); commit;"; done | sqlite3 db > /dev/null; }
		pids=
		for w in 1 2 3; do writer $w & pids="$pids $!"; done
		( killed & echo $! > kpid; wait $! ) 2>/dev/null & sub=$!
		sleep 1; pkill -9 -P $(cat kpid) sqlite3 2>/dev/null || true; kill -9 $(cat kpid) 2>/dev/null || true
		for p in $pids; do wait $p; done; wait $sub 2>/dev/null || true
		cat mode; sqlite3 db "pragma busy_timeout=60000; pragma integrity_check; select count(*) from t where w<4; select count(distinct w*1000+i) from t where w<4;"
		sqlite3 db "pragma mmap_size=67108864; update t set b=randomblob(2000) where w=1; pragma integrity_check; vacuum; pragma integrity_check;"
		cp db copy; sqlite3 copy 'pragma integrity_check'`)
	want := mode + "\n60000\nok\n120\n120\n67108864\nok\nok\nok"
	if out != want {
		t.Errorf("printed %q, want %q", out, want)
	}
}

// programSqliteLarge: one transaction of 120 MB, or of a GiB (s28).
func programSqliteLarge(t *testing.T, dir string) {
	need(t, "sqlite3")
	rows := 2000
	if os.Getenv("WSFS_TEST_FULL") != "" {
		rows = 18_000
	}
	out := script(t, dir, 10*time.Minute, fmt.Sprintf(`
		sqlite3 db "pragma journal_mode=wal; create table t(b);
			begin; with recursive n(i) as (select 1 union all select i+1 from n where i<%d) insert into t select randomblob(60000) from n; commit;
			pragma wal_checkpoint(truncate); pragma integrity_check; select count(*), sum(length(b)) from t;"
		stat -c %%s db-wal 2>/dev/null || echo 0`, rows))
	if want := fmt.Sprintf("wal\n0|0|0\nok\n%d|%d\n0", rows, rows*60_000); out != want {
		t.Errorf("printed %q, want %q", out, want)
	}
}

// programNpm installs packages that it packs itself, with scripts, binaries and links, so no registry is asked.
func programNpm(t *testing.T, dir string) {
	need(t, "npm", "node")
	out := script(t, dir, 4*time.Minute, `
		export npm_config_cache=$PWD/cache npm_config_update_notifier=false npm_config_fund=false npm_config_audit=false npm_config_offline=true
		mkdir a b app
		for i in $(seq 300); do mkdir -p a/lib/$((i%17)); echo "module.exports = $i" > a/lib/$((i%17))/m$i.js; done
		echo '{"name":"a","version":"1.0.0","main":"index.js","bin":{"hello":"hello.js"},"scripts":{"postinstall":"node post.js"}}' > a/package.json
		echo 'module.exports = require("./lib/3/m3.js")' > a/index.js
		echo 'require("fs").writeFileSync("posted", process.cwd())' > a/post.js
		printf '#!/usr/bin/env node\nconsole.log("hello", require("./index.js"))\n' > a/hello.js
		(cd a; npm pack --silent --pack-destination ..)
		echo '{"name":"b","version":"1.0.0","dependencies":{"a":"1.0.0"}}' > b/package.json
		(cd b; npm pack --silent --pack-destination ..)
		cd app; npm init -y >/dev/null
		npm install --silent ../a-1.0.0.tgz ../b-1.0.0.tgz
		node -e 'console.log(require("a"))'; npx --no-install hello; ls node_modules/.bin; test -f node_modules/a/posted
		npm ls --silent >/dev/null; rm -rf node_modules; npm ci --silent; node -e 'require("fs").copyFileSync("package.json","copy.json")'
		cmp package.json copy.json; find node_modules -type f | wc -l`)
	if lines := strings.Split(out, "\n"); !strings.Contains(out, "\n3\nhello 3\nhello\n") || len(lines) < 5 {
		t.Errorf("printed %q", out)
	}
	if out, err := npmRegistry(dir); err != nil {
		t.Logf("no registry here, its package was not installed: %v %s", err, out)
	}
}

// npmRegistry installs a small package with dependencies from the registry that npm is set up for, if it answers.
func npmRegistry(dir string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", `mkdir reg && cd reg && npm init -y >/dev/null && npm install --no-audit --no-fund --cache "$PWD/../cache2" chalk@4.1.2 >/dev/null && node -e 'require("chalk")'`)
	cmd.Dir = dir
	cmd.WaitDelay = 5 * time.Second
	return cmd.CombinedOutput()
}

func programGo(t *testing.T, dir string) {
	need(t, "go")
	// The module comes from the machine's own module cache: no network is needed. It is one that needs little of the
	// standard library, all of which is compiled here.
	proxy, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	env := []string{
		"GOCACHE=" + dir + "/cache", "GOMODCACHE=" + dir + "/mod", "GOTMPDIR=" + dir + "/tmp", "GOFLAGS=-modcacherw",
		"GOPROXY=file://" + strings.TrimSpace(string(proxy)) + "/cache/download,off", "GONOSUMDB=*", "GOSUMDB=off", "GOTOOLCHAIN=local",
	}
	out := script(t, dir, 5*time.Minute, `
		mkdir tmp app; cd app; go mod init app 2>/dev/null
		cat > main.go <<-'E'
			package main

			import (
				"fmt"

				"github.com/VividCortex/ewma"
			)

			func Answer() int { return 42 }

			func main() {
				average := ewma.NewMovingAverage()
				average.Add(36)
				fmt.Println(Answer(), average.Value())
			}
		E
		cat > main_test.go <<-'E'
			package main

			import "testing"

			func TestAnswer(t *testing.T) {
				if Answer() != 42 {
					t.Fail()
				}
			}
		E
		go mod edit -require=github.com/VividCortex/ewma@v1.2.0; go mod download all; go mod tidy 2>/dev/null
		go build -o app .; ./app; go test . | cut -f1; go build -o app2 .; cmp app app2; go vet .; go run .; go clean -cache`, env...)
	if out != "42 36\nok  \n42 36" {
		t.Errorf("printed %q", out)
	}
}

func programTar(t *testing.T, dir string) {
	need(t, "tar")
	script(t, dir, 3*time.Minute, `
		tar cf src.tar -C "$(go env GOROOT)/src" net os encoding
		mkdir a b; tar xpf src.tar -C a; tar xpf src.tar -C b; diff -r a b; tar df src.tar -C a
		tar cf again.tar --sort=name -C a net os; tar cf again2.tar --sort=name -C b net os; cmp again.tar again2.tar
		tar czf z.tgz a; tar tzf z.tgz | wc -l; (cd "$(go env GOROOT)/src"; find net os encoding -type f | sort | xargs sha256sum) > sums; (cd a; sha256sum -c --quiet ../sums)
		head -c 1000 /dev/zero > s; truncate -s 200M s; tar cSf sparse.tar s; test $(stat -c %s sparse.tar) -lt 1000000; mkdir c; tar xSf sparse.tar -C c; cmp s c/s; test $(du -k c/s | cut -f1) -lt 10000`)
}

func programRsync(t *testing.T, dir string) {
	need(t, "rsync")
	out := script(t, dir, 3*time.Minute, `
		mkdir src; cp -r "$(go env GOROOT)/src/encoding" src/; ln -s encoding src/l; ln src/encoding/json/encode.go src/hard; touch -d '2020-01-02 03:04:05.678901234' src/hard
		rsync -aHX --stats src/ dst/ > first; rsync -aHX --itemize-changes --stats src/ dst/ > second
		grep -E '^[<>ch.][fdLDS]' second || true; grep 'files transferred' second
		diff -r src dst; echo more >> src/hard; rm src/l; rsync -aHX --delete --itemize-changes src/ dst/ | grep -v '/$' | sort
		rsync -ac --dry-run --itemize-changes src/ dst/; rsync -a --inplace --no-whole-file src/ dst/; diff -r src dst`)
	want := "Number of regular files transferred: 0\n*deleting   l\n"
	if !strings.HasPrefix(out, want) {
		t.Errorf("printed %q, want it to begin with %q", out, want)
	}
}

func programCp(t *testing.T, dir string) {
	out := script(t, dir, 3*time.Minute, `
		mkdir src; cp -r "$(go env GOROOT)/src/go" "$(go env GOROOT)/src/text" src/; ln -s go/ast src/l; mkfifo src/p; chmod 640 src/go/doc/*.go
		cp -a src dst; diff -r --no-dereference src/go dst/go
		p() { (cd $1; find . -printf '%p %y %m %n %s %T@ %l\n' | sed 's/ [0-9]* [0-9.]* $/ /' | sort; find . -type f -printf '%p %s %T@\n' | sort); }
		p src > a; p dst > b; cmp a b
		cp -al src links; find links -type f -links 2 | wc -l > c; find src -type f | wc -l | cmp - c
		find src -name '*.go' -newer src/go/ast/ast.go | wc -l >/dev/null; grep -r 'func Inspect' src | wc -l
		find links -delete; find src -type f -links 1 | wc -l | cmp - c; mv dst moved; rm -rf src; find moved -empty -type d | wc -l >/dev/null; ls | tr '\n' ' '`)
	if !strings.HasSuffix(out, "a b c moved") {
		t.Errorf("printed %q", out)
	}
}

func programVim(t *testing.T, dir string) {
	out := script(t, dir, time.Minute, `
		printf 'one\ntwo\n' > f; i=$(stat -c %i f)
		if command -v vim >/dev/null; then
			vim -u NONE -N -es -c 'set backup backupskip= backupdir=. backupcopy=no writebackup' -c '%s/one/ONE/' -c wq f </dev/null
			vim -u NONE -N -es -c 'set backupcopy=yes writebackup' -c '%s/two/TWO/' -c 'w' -c 'normal Gothree' -c wq f </dev/null
		else
			sed 's/one/ONE/;s/two/TWO/' f > f.tmp; echo three >> f.tmp; ln f f~; mv f.tmp f
		fi
		cat f; ls -A`)
	if !strings.HasPrefix(out, "ONE\nTWO\nthree\nf\nf~") {
		t.Errorf("printed %q", out)
	}
}

func programPython(t *testing.T, dir string) {
	need(t, "python3")
	if err := exec.Command("python3", "-c", "import venv, ensurepip").Run(); err != nil {
		out := script(t, dir, time.Minute, `python3 -m venv --without-pip v; v/bin/python -c 'import sys; print(sys.prefix)'; echo 'x=1' > m.py; v/bin/python -c 'import m; print(m.x)'; ls -d __pycache__`)
		if out != dir+"/v\n1\n__pycache__" {
			t.Errorf("printed %q", out)
		}
		return
	}
	out := script(t, dir, 3*time.Minute, `python3 -m venv v; v/bin/python -c 'import pip, sys; print(sys.prefix)'; v/bin/pip --version | cut -d' ' -f1; python3 -m compileall -q v; rm -rf v`)
	if out != dir+"/v\npip" {
		t.Errorf("printed %q", out)
	}
}

func programMake(t *testing.T, dir string) {
	need(t, "make", "gcc")
	out := script(t, dir, time.Minute, `
		for i in $(seq 20); do echo "int f$i(void){return $i;}" > f$i.c; done
		{ echo '#include <stdio.h>'; for i in $(seq 20); do echo "int f$i(void);"; done; echo 'int main(void){printf("%d\n",0'; for i in $(seq 20); do echo "+f$i()"; done; echo ');return 0;}'; } > main.c
		printf 'O=$(patsubst %%.c,%%.o,$(wildcard *.c))\nprog: lib.a main.o\n\tgcc -o $@ main.o lib.a\nlib.a: $(filter-out main.o,$(O))\n\tar rcs $@ $^\n' > Makefile
		make -sj4 prog; ./prog; make -q prog; sleep 1.1; touch f3.c; ! make -q prog; make -sj4 prog; ./prog; strip prog; ./prog`)
	if out != "210\n210\n210" {
		t.Errorf("printed %q", out)
	}
}

func programFio(t *testing.T, dir string) {
	need(t, "fio")
	for _, engine := range []string{"mmap", "psync"} {
		script(t, dir, 2*time.Minute, fmt.Sprintf(`fio --name=v --ioengine=%s --rw=randrw --bs=4k --size=32m --io_size=64m --verify=crc32c --verify_fatal=1 --directory=. --output=out-%s >/dev/null 2>&1 || { cat out-%s; exit 1; }`, engine, engine, engine))
	}
}
