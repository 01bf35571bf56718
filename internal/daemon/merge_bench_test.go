package daemon

import (
	"context"
	"fmt"
	"syscall"
	"testing"

	"wsfs/fs"
	"wsfs/store"
)

// BenchmarkMerge is a whole merge of two workspaces of 100,000 files with 100 changes each, of which 25 are of the same files: from the request
// over the plan to the acknowledgement and what kernels would be told, in the process of the daemon. The bar is 100 ms. The target is
// live in "mounted", and opened for the merge and closed after it in "idle".
func BenchmarkMerge(b *testing.B) {
	const dirs, files = 100, 1000
	ctx := context.Background()
	c := local(b, newStore(b))
	if err := c.CreateWorkspace(ctx, "main"); err != nil {
		b.Fatal(err)
	}
	fill := func(workspace string, fn func(p *dirPen)) {
		_, f, release, err := c.local.acquire(ctx, workspace)
		if err != nil {
			b.Fatal(err)
		}
		defer release()
		fn(&dirPen{b, f, &fs.Call{}})
	}
	fill("main", func(p *dirPen) {
		for d := range dirs {
			a, err := p.f.Mkdir(p.c, store.RootIno, fmt.Sprintf("d%d", d), 0o755)
			p.must(err)
			for f := range files {
				p.write(a.ID, fmt.Sprintf("f%d", f), "1\n2\n3\n4\n5\n")
			}
		}
	})
	mustFork(b, c, "main", "theirs")
	fill("theirs", func(p *dirPen) {
		for n := range 100 {
			dir, name := p.dir(n), fmt.Sprintf("f%d", n*7)
			switch n % 4 {
			case 0:
				p.write(dir, name, fmt.Sprintf("1\n2\n3\n4\ntheirs %d\n", n))
			case 1:
				p.write(dir, name+".tmp", fmt.Sprintf("1\n2\n3\n4\ntheirs %d\n", n))
				p.must(p.f.Rename(p.c, dir, name+".tmp", dir, name, 0))
			case 2:
				p.must(p.f.Rename(p.c, dir, name, dir, name+".moved", 0))
			case 3:
				p.must(p.f.Unlink(p.c, dir, name))
			}
		}
	})
	fill("main", func(p *dirPen) {
		for n := range 100 {
			if n%4 == 0 {
				p.write(p.dir(n), fmt.Sprintf("f%d", n*7), fmt.Sprintf("ours %d\n2\n3\n4\n5\n", n))
			} else {
				p.write(p.dir(n), fmt.Sprintf("f%d", n*7+1), "other\n")
			}
		}
	})
	round := 0
	for _, live := range []bool{true, false} {
		b.Run(map[bool]string{true: "mounted", false: "idle"}[live], func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				round++
				into := fmt.Sprint("into", round)
				mustFork(b, c, "main", into)
				release := func() {}
				if live {
					var err error
					var f *fs.FS
					if _, f, release, err = c.local.acquire(ctx, into); err != nil {
						b.Fatal(err)
					}
					p := &dirPen{b, f, &fs.Call{}}
					for n := range dirs { // as somebody who works in it has
						p.dir(n)
					}
				}
				if _, err := c.Sync(ctx, SyncRequest{}); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				out, err := c.Merge(ctx, MergeRequest{From: "theirs", Into: into})
				if err != nil || len(out.Conflicts) > 0 || out.Merged != 25 || out.Changed != 25 || out.Renamed != 25 || out.Removed != 25 {
					b.Fatal(out, err)
				}
				b.StopTimer()
				release()
				b.StartTimer()
			}
		})
	}
}

// dirPen writes below directories.
type dirPen struct {
	b testing.TB
	f *fs.FS
	c *fs.Call
}

func (p *dirPen) must(err error) {
	if err != nil {
		p.b.Helper()
		p.b.Fatal(err)
	}
}

func (p *dirPen) dir(n int) store.Ino {
	a, err := p.f.Lookup(p.c, store.RootIno, fmt.Sprintf("d%d", n))
	p.must(err)
	return a.ID
}

func (p *dirPen) write(dir store.Ino, name, text string) {
	a, h, err := p.f.Create(p.c, dir, name, 0o644, syscall.O_WRONLY|syscall.O_TRUNC)
	p.must(err)
	_, err = h.WriteAt(p.c, []byte(text), 0, false)
	p.must(err)
	p.must(h.Flush(p.c, 1))
	h.Release(p.c, 0)
	p.f.Forget(a.ID, 1)
}
