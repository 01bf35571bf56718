package fuse

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// watchScript prints what a recursive watcher of npm says about a directory: one "EVENT PATH" a line.
const watchScript = `
const [kind, root] = process.argv.slice(2)
const say = (event, path) => console.log(event, path.slice(root.length + 1))
if (kind === 'chokidar') {
  import('chokidar').then(({default: chokidar}) => {
    chokidar.watch(root, {ignoreInitial: true}).on('all', say).on('ready', () => console.log('ready'))
  })
} else {
  const watcher = require('@parcel/watcher')
  const name = {create: 'add', update: 'change', delete: 'unlink'}
  watcher.subscribe(root, (err, list) => {
    if (err) console.log('error', err.message)
    for (const e of list || []) say(name[e.type], e.path)
  }).then(() => console.log('ready'))
}
`

// npmWatchers installs the watchers, or ends the test where npm has no network.
func npmWatchers(t *testing.T) string {
	t.Helper()
	for _, bin := range []string{"npm", "node"} {
		if _, err := exec.LookPath(bin); err != nil {
			t.Skip("needs node and npm:", err)
		}
	}
	dir := t.TempDir()
	cmd := exec.Command("timeout", "120", "npm", "install", "--no-audit", "--no-fund", "--prefix", dir, "chokidar@4", "@parcel/watcher@2")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("npm cannot install here: %v\n%s", err, out)
	}
	write(t, filepath.Join(dir, "watch.js"), watchScript)
	return dir
}

// TestEchoNpmWatchers: watchers of npm, which follow directories (parcel) or directories and files (chokidar), end up with
// the tree that is there.
func TestEchoNpmWatchers(t *testing.T) {
	needFuse(t)
	dir := npmWatchers(t)
	for _, kind := range []string{"chokidar", "parcel"} {
		t.Run(kind, func(t *testing.T) {
			s := startStore(t, serveConfig{})
			s.sh("mkdir -p tree/a dir; echo 1 > tree/a/f; echo 1 > dir/f; echo 1 > changed; echo 1 > gone; echo 1 > held")
			s.must("mark before")
			s.sh("echo 22 > changed; echo 22 > held; rm gone; rm -r tree; mv dir moved; mkdir -p new/b; echo 1 > new/b/f")
			s.must("mark after")
			held, err := os.Open(s.path("held"))
			if err != nil {
				t.Fatal(err)
			}
			defer held.Close()
			next := nodeWatcher(t, dir, kind, s.point)
			back := []string{"change changed", "add gone", "add tree/a/f", "add dir/f", "unlink moved/f", "unlink new/b/f"}
			forth := []string{"change changed", "unlink gone", "unlink tree/a/f", "add moved/f", "unlink dir/f", "add new/b/f"}
			if kind == "parcel" { // of a tree that appears or is renamed it says the topmost only, on any file system
				back = []string{"change changed", "add gone", "add tree", "add dir", "unlink moved", "unlink new"}
				forth = []string{"change changed", "unlink gone", "unlink tree", "add moved", "unlink dir", "add new"}
			}
			for range 2 {
				s.must("move before")
				next(append(back, "held")...)
				s.must("move after")
				next(append(forth, "held")...)
			}
		})
	}
}

// nodeWatcher starts a watcher; what it returns waits for lines. A want without an event stands for any about its path.
func nodeWatcher(t *testing.T, dir, kind, root string) func(want ...string) {
	t.Helper()
	cmd := exec.Command("node", "watch.js", kind, root)
	cmd.Dir = dir
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	lines := make(chan string, 10000)
	go func() {
		for sc := bufio.NewScanner(out); sc.Scan(); {
			lines <- sc.Text()
		}
		close(lines)
	}()
	next := func(want ...string) {
		t.Helper()
		var got []string
		for limit := time.After(time.Minute); len(want) > 0; {
			select {
			case l, ok := <-lines:
				if !ok {
					t.Fatalf("the watcher ended; it said %q", got)
				}
				got = append(got, l)
				_, path, _ := strings.Cut(l, " ")
				want = slices.DeleteFunc(slices.Clone(want), func(w string) bool { return w == l || w == path })
			case <-limit:
				t.Fatalf("the watcher did not say %q but:\n%s", want, strings.Join(got, "\n"))
			}
		}
		// The rest of what belongs to it.
		for {
			select {
			case <-lines:
				continue
			case <-time.After(300 * time.Millisecond):
			}
			return
		}
	}
	next("ready")
	return next
}
