package daemon

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"wsfs/store"
)

// TestDieWhileWriting kills the daemon at each step of a program that replaces a file in place. The next daemon knows the program as another
// command, and yet the file is never empty, nor half of what is written.
func TestDieWhileWriting(t *testing.T) {
	k := newKeptMount(t)
	const py = `import os, sys
os.chdir(sys.argv[1])
fd = os.open("f", os.O_WRONLY|os.O_TRUNC|os.O_CREAT)
os.write(fd, b"one\n"); os.write(fd, b"two\n"); os.close(fd)`
	want := []string{"old\n"}
	sh(t, `echo old > "$1/f"`, k.point)
	for _, point := range []string{"open", "write", "flush", "release"} {
		k.dies(point, func() {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, "python3", "-c", py, k.point)
			cmd.Env = append(os.Environ(), "WSFS_SESSION="+point)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v: %s", point, err, out)
			}
		})
		sh(t, `test "$(cat "$1/f")" = "$(printf 'one\ntwo')"; echo old > "$1/f"`, k.point)
		want = append(want, "one\ntwo\n", "old\n")
	}
	k.end()
	st := k.open()
	defer st.Close()
	ctx := context.Background()
	ws, err := st.Workspace(ctx, "main")
	if err != nil {
		t.Fatal(err)
	}
	view, err := st.ViewOf(ctx, ws)
	if err != nil {
		t.Fatal(err)
	}
	name, err := view.Lookup(ctx, store.RootIno, "f")
	if err != nil {
		t.Fatal(err)
	}
	v, err := view.Version(ctx, name.Ino)
	if err != nil {
		t.Fatal(err)
	}
	past, err := st.PastOf(ctx, v.ID, 100)
	if err != nil {
		t.Fatal(err)
	}
	for i := range past {
		p := past[len(past)-1-i]
		b := make([]byte, p.Content.Size)
		if len(b) > 0 {
			if _, err := st.Blobs().ReadAt(ctx, p.Content, b, 0); err != nil {
				t.Fatal(err)
			}
		}
		if i >= len(want) || string(b) != want[i] {
			t.Errorf("version %d of %d is %q, want %q", i, len(past), b, want[min(i, len(want)-1)])
		}
	}
}
