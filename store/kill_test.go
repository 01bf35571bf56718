package store_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"wsfs/blob"
	"wsfs/store"
	"wsfs/store/sqlite"
)

// The child of a kill test writes files into one directory until it is killed and prints what was acknowledged. Each
// file is named after its seq and its bytes follow from it, so that the parent knows what must be there.
const (
	childDir   = "WSFS_TEST_KILL_DIR"   // where its store is
	childPoint = "WSFS_TEST_KILL_POINT" // "name#n": die when the applier comes to that point for the nth time
)

func TestKillChild(t *testing.T) {
	dir := os.Getenv(childDir)
	if dir == "" {
		return // only of use to the tests below
	}
	if err := child(context.Background(), dir); err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
}

// child never returns but for an error.
func child(ctx context.Context, dir string) error {
	o := store.Options{
		SegmentBytes: 128 << 10, GroupOps: 64, GroupDelay: 3 * time.Millisecond,
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}
	if name, n, ok := strings.Cut(os.Getenv(childPoint), "#"); ok {
		left, err := strconv.Atoi(n)
		if err != nil {
			return err
		}
		name, panics := strings.CutPrefix(name, "panic ")
		o.SetCrashPoint(func(point string) {
			if point == name {
				if left--; left == 0 && panics {
					panic("in the applier")
				} else if left == 0 {
					_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
					select {}
				}
			}
		})
	}
	s, err := store.Open(ctx, dir, sqlite.Driver(), o)
	if err != nil {
		return err
	}
	line, err := s.Timeline(ctx, 1)
	if err != nil {
		return err
	}
	fmt.Println("open", line.Head)
	w := &writer{s: s, seq: line.Head, start: line.Head, bytes: bytesOf, session: &store.Session{ID: s.NewSessionID(), Name: "kill", Workspace: 1}}
	errs := make(chan error)
	for g := range 4 {
		go func() { errs <- w.run(ctx, rand.New(rand.NewPCG(uint64(os.Getpid()), uint64(g)))) }()
	}
	return <-errs
}

// writer makes the ops of a child; mu is what the lock of package fs is in the real thing.
type writer struct {
	s       *store.Store
	mu      sync.Mutex
	seq     store.Seq
	start   store.Seq
	session *store.Session
	bytes   func(store.Seq) []byte
}

func (w *writer) run(ctx context.Context, r *rand.Rand) error {
	var who store.Attribution
	for n := 0; ; n++ {
		if n%10 == 0 {
			who = store.Attribution{
				Session: w.session,
				Command: &store.Command{ID: w.s.NewCommandID(), Session: w.session.ID, N: n, Argv: "make"},
				Process: &store.Process{ID: w.s.NewProcessID(), Session: w.session.ID, PID: n, Comm: "make"},
			}
		}
		slot, seq, err := w.create(ctx, who)
		if err != nil {
			return err
		}
		switch r.IntN(20) {
		case 0:
			if err = w.s.Sync(slot); err == nil {
				fmt.Printf("sync %d\n", seq)
			}
		case 1:
			err = w.s.Apply(ctx, slot)
		default:
			err = w.s.Wait(slot)
		}
		if err != nil {
			return err
		}
		fmt.Printf("ack %d\n", seq)
	}
}

// create appends the op that makes the next file.
func (w *writer) create(ctx context.Context, who store.Attribution) (store.Slot, store.Seq, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.append(ctx, who, w.bytes(w.seq+1))
}

func (w *writer) append(ctx context.Context, who store.Attribution, data []byte) (store.Slot, store.Seq, error) {
	w.seq++
	var st blob.Staged
	if len(data) <= blob.MaxBlob {
		st = w.s.Blobs().StageSmall(data)
	} else {
		var err error
		if st, _, err = w.s.Blobs().Edit(ctx, blob.Content{}, int64(len(data)), []blob.Extent{{Len: int64(len(data))}}, bytes.NewReader(data)); err != nil {
			return 0, 0, err
		}
	}
	ino, now := w.s.NewIno(), int64(w.seq)
	op := &store.Op{
		Kind: store.OpCreate, Timeline: 1, Workspace: 1, Seq: w.seq, At: now, Who: who,
		Names: []store.Name{{Parent: 1, Name: nameOf(w.seq), Ino: ino, Type: syscall.S_IFREG}},
		Versions: []store.Version{
			{
				Ino: ino, Seq: w.seq, ID: w.s.NewVersionID(), Mode: syscall.S_IFREG | 0o644, Nlink: 1, Size: int64(len(data)),
				Mtime: now, Ctime: now, Atime: now, Content: st.Content.Ref,
			},
			{Ino: 1, Seq: w.seq, ID: w.s.NewVersionID(), Mode: syscall.S_IFDIR | 0o755, Nlink: 2, Mtime: now, Ctime: now, Atime: now},
		},
		Items:    []store.Item{{Op: store.OpCreate, Ino: ino, Parent: 1, Name: nameOf(w.seq)}},
		Contents: []blob.Staged{st},
	}
	slot, err := w.s.Append(op)
	if err == nil && slot != store.Slot(w.seq-w.start) {
		err = fmt.Errorf("seq %d got slot %d after starting at %d", w.seq, slot, w.start)
	}
	return slot, w.seq, err
}

func nameOf(seq store.Seq) string { return fmt.Sprintf("file-%08d", seq) }

// bytesOf are the bytes of file seq: mostly small, one in 40 a content tree.
func bytesOf(seq store.Seq) []byte {
	r := rand.New(rand.NewPCG(uint64(seq), 3))
	n := r.IntN(6000)
	if seq%40 == 0 {
		n = blob.MaxBlob + r.IntN(200_000)
	}
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32() >> (r.Uint32() % 30)) // somewhat compressible
	}
	return b
}

func newKillStore(t *testing.T) string {
	dir := t.TempDir()
	makeKillStore(t, dir)
	return dir
}

// makeKillStore makes a store with a workspace and its root.
func makeKillStore(t testing.TB, dir string) {
	t.Helper()
	ctx := t.Context()
	if err := store.Init(ctx, dir, sqlite.Driver()); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(ctx, dir, sqlite.Driver(), store.Options{SegmentBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	line, ws := s.NewTimelineID(), s.NewWorkspaceID()
	slot, err := s.Append(&store.Op{
		Kind: store.OpWorkspace, Timeline: line, Workspace: ws, Seq: 1,
		Versions: []store.Version{{Ino: store.RootIno, Seq: 1, ID: s.NewVersionID(), Mode: syscall.S_IFDIR | 0o755, Nlink: 2}},
		Pointer:  &store.Pointer{Workspace: store.Workspace{ID: ws, Name: "w", Timeline: line}, NewTimeline: &store.Timeline{ID: line}, Why: "init"},
	})
	if err == nil {
		err = s.Wait(slot)
	}
	if err = errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	if line != 1 || ws != 1 {
		t.Fatalf("timeline %d, workspace %d", line, ws)
	}
}

// kill runs a child on the store in dir and kills it after the given time, or lets it die at point. It returns the
// highest seq that was acknowledged, in the sense that it and every one before it were.
func kill(t *testing.T, dir, point string, after time.Duration) (acked store.Seq) {
	t.Helper()
	acked, _ = stop(t, dir, point, after, false, func() {})
	return acked
}

// early says that a time counts from the start of the child, its replay included, not from when its store is open.
func early(d time.Duration) time.Duration { return -d }

// stop is kill with something to be done just before, which may make the child fail, and returns also the highest seq
// whose Sync returned.
func stop(t *testing.T, dir, point string, after time.Duration, mayFail bool, before func()) (acked, synced store.Seq) {
	t.Helper()
	failed := "no error was printed"
	cmd := exec.Command(os.Args[0], "-test.run=^TestKillChild$")
	cmd.Env = append(os.Environ(), childDir+"="+dir, childPoint+"="+point)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	wait := time.Minute
	if after < 0 {
		wait = -after
	}
	// What is synced counts if it was said before the disk went: a flush that the shutdown meets may return success.
	var cut atomic.Bool
	timer := time.AfterFunc(wait, func() {
		defer close(ended)
		cut.Store(true)
		before()
		_ = cmd.Process.Kill() // it may have died already
	})
	defer func() {
		if !timer.Stop() {
			<-ended
		}
	}()
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		if err != nil { // a line without its end was not acknowledged
			break
		}
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "ack", "sync":
			n, err := strconv.ParseInt(rest, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			// Either covers every slot before it.
			if word == "sync" && (!mayFail || !cut.Load()) {
				synced = max(synced, store.Seq(n))
			}
			acked = max(acked, store.Seq(n))
		case "error":
			failed = line
		case "open":
			if after > 0 && timer.Stop() {
				timer.Reset(after)
			}
		default:
			t.Errorf("child: %s", line)
		}
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if !mayFail && (!errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL) {
		t.Fatalf("child ended with %v, not by a kill: %s\n%s", err, failed, &stderr)
	}
	return acked, synced
}

// verify opens the store, which replays, and checks that it has every seq up to acked exactly once, that there are no
// gaps, and that files from seq on have their bytes.
func verify(t *testing.T, dir string, from, acked store.Seq, whole bool) (head store.Seq) {
	t.Helper()
	ctx := t.Context()
	s, err := store.Open(ctx, dir, sqlite.Driver(), store.Options{Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatalf("open after a kill: %v", err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Fatalf("close: %v", err)
		}
	}()
	line, err := s.Timeline(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	if line.Head < acked {
		t.Fatalf("seq %d was acknowledged, the store ends at %d", acked, line.Head)
	}
	v, err := s.ViewAt(ctx, 1, store.MaxSeq)
	if err != nil {
		t.Fatal(err)
	}
	want := line.Head
	if err := s.Changes(ctx, store.ChangeQuery{View: v, After: from}, func(c *store.ChangeRow) error {
		if c.Seq != want {
			return fmt.Errorf("change %d follows %d", c.Seq, want+1)
		}
		want--
		if c.Seq > 1 && (c.Session == nil || c.Session.Name != "kill" || c.Command == nil || c.Process == nil || c.Process.Comm != "make") {
			return fmt.Errorf("change %d has lost its attribution: %+v", c.Seq, c)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if want != from {
		t.Fatalf("changes from %d to %d are missing", from+1, want)
	}
	for seq := max(from+1, 2); seq <= line.Head; seq++ {
		n, err := v.Lookup(ctx, store.RootIno, nameOf(seq))
		if err != nil {
			t.Fatal(err)
		}
		ver, err := v.Version(ctx, n.Ino)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(s.Blobs().Reader(ctx, blob.Content{Ref: ver.Content, Size: ver.Size}))
		if err != nil {
			t.Fatalf("seq %d: %v", seq, err)
		}
		if !bytes.Equal(got, bytesOf(seq)) {
			t.Fatalf("seq %d has other bytes", seq)
		}
	}
	if whole {
		if err := s.Check(ctx, func(p store.Problem) { t.Errorf("check: %v", p) }); err != nil {
			t.Fatal(err)
		}
	}
	return line.Head
}

// Killed at any moment, a store has what it acknowledged.
func TestKill(t *testing.T) {
	rounds := 60
	if testing.Short() {
		rounds = 10
	}
	dir := newKillStore(t)
	r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	head := store.Seq(1)
	acks, silent := 0, 0
	for i := range rounds {
		after := time.Duration(1+r.IntN(100)) * time.Millisecond
		if i%4 == 3 {
			after = early(2 * after)
		}
		acked := kill(t, dir, "", after)
		if acked == 0 {
			silent++
			acked = head
		} else {
			acks += int(acked - head)
		}
		if i%3 == 2 { // else two or three kills in a row, with nothing but the children's own replays between them
			head = verify(t, dir, head, acked, i == rounds-1)
		} else if acked > head {
			head = verify(t, dir, head, acked, false)
		}
	}
	t.Logf("%d kills, %d of them before anything was acknowledged; %d acknowledged, %d there", rounds, silent, acks, head-1)
	if acks == 0 {
		t.Fatal("nothing was ever acknowledged: the test has tested nothing")
	}
}

// The same at the points where something could be done twice or not at all, and again in the replay of it.
func TestKillInReplay(t *testing.T) {
	dir := newKillStore(t)
	head := store.Seq(1)
	for _, point := range []string{"settled", "synced", "committed", "durable"} {
		for _, n := range []int{1, 4} {
			acked := kill(t, dir, fmt.Sprint(point, "#", n), time.Minute)
			// And again while the next start replays: each start dies at a later group, or when all is done.
			for _, again := range []string{"replayed#1", "replayed#2", "replay durable#1"} {
				acked = max(acked, kill(t, dir, again, early(300*time.Millisecond)))
			}
			head = verify(t, dir, head, acked, false)
		}
	}
	verify(t, dir, 0, head, true)
}

// A panic of the applier ends the process, as nothing would be applied any more, and loses nothing.
func TestApplierPanics(t *testing.T) {
	dir := newKillStore(t)
	acked, _ := stop(t, dir, "panic settled#3", time.Minute, true, func() { t.Error("the child lives on after a panic") })
	if acked == 0 {
		t.Fatal("nothing was acknowledged: the test tests nothing")
	}
	verify(t, dir, 1, acked, true)
}
