package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// While somebody who can write to the directory, and to the one above, swaps what is there for links, a backup writes, changes and removes
// nothing elsewhere, first and later ones, whether it ends well or not.
func TestBackupIsRaced(t *testing.T) {
	src, o, c := t.TempDir(), newOutside(t), newCLI(t)
	for _, name := range []string{"packs", "next"} { // what a backup would look for there
		if err := os.Mkdir(o.dir+"/"+name, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	o.want = o.look()
	for _, name := range []string{"a", "b", "c"} {
		c.file(src+"/"+name, strings.Repeat(name, 100_000))
	}
	c.want(0, "made store", "init")
	c.want(0, "imported", "import", src, "main")
	target := filepath.Join(t.TempDir(), "new")
	end, ended := time.Now().Add(2*time.Second), map[int]int{}
	for i := 0; i < 6 || time.Now().Before(end) && i < 200; i++ {
		var args []string
		if i%3 == 2 {
			args = []string{"--link"}
		}
		stop := swapper(t, target, o, i%4 == 0, time.Duration((i%5)*(i%5))*3*time.Millisecond)
		code, out, errs := c.run(append([]string{"backup", target}, args...)...)
		if ended[code]++; code != 0 && code != 1 {
			t.Fatalf("backup ended with %d: %s%s", code, out, errs)
		}
		if o.same("after " + out + errs); t.Failed() {
			return
		}
		stop()
		if i%2 == 1 {
			_ = os.RemoveAll(target) // or a link of that name
		}
	}
	t.Logf("backups by exit code: %v", ended)
}
