package fuse

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"

	"wsfs/fs"
	"wsfs/store"
	"wsfs/store/sqlite"
)

// The tests of mounts run the server in a child process: a process that uses a mount it serves itself can wait for
// itself, and a stuck server must not take the test with it.

const (
	serveEnv      = "WSFS_TEST_SERVE"
	echoHelperArg = "echo-helper"
)

type serveConfig struct {
	Point   string
	Options Options
	// NoCache makes the kernel ask for attributes every time.
	NoCache bool
	// NoFlush opens with FOPEN_NOFLUSH.
	NoFlush bool
	// Store mounts a new workspace of this store directory and not the fake.
	Store string
	// Second mounts the workspace on one more directory.
	Second string
	// Fallback: the transport is another one than asked for.
	Fallback bool
	// NoRings makes the kernel refuse the rings.
	NoRings bool
}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == echoHelperArg {
		if err := RunEchoHelper(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if os.Getenv(packEnv) != "" {
		packForEver()
	}
	if cfg := os.Getenv(serveEnv); cfg != "" {
		if err := serveChild(cfg); err != nil {
			fmt.Fprintln(os.Stderr, "server:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// serveChild mounts the fake file system and obeys one command a line on its standard input.
func serveChild(cfg string) error {
	var c serveConfig
	if err := json.Unmarshal([]byte(cfg), &c); err != nil {
		return err
	}
	c.Options.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil { // else a helper with the race detector takes a second to end
		return err
	}
	if c.Options.EchoHelper == nil {
		c.Options.EchoHelper = []string{"/proc/self/exe", echoHelperArg}
	}
	raw := newFake(c.NoCache)
	raw.noFlush = c.NoFlush
	var m *Mount
	var f *fs.FS
	var err error
	end := func() error { return nil }
	c.Options.refuseRings = c.NoRings
	var more *Mount
	marks := map[string]fs.Move{}
	var over func()
	if c.Store != "" {
		m, f, end, err = serveStore(&c)
	} else {
		m, err = mountRaw(context.Background(), raw, c.Point, c.Options.withDefaults(), func(m *Mount) { raw.t = m.transport })
	}
	if err != nil {
		fmt.Printf("error %v\n", err)
		return err
	}
	go func() {
		err := m.Wait()
		fmt.Printf("ended %v\n", errors.Join(err, end()))
		os.Exit(0)
	}()
	fmt.Println("ready")
	sc := bufio.NewScanner(os.Stdin)
	for sc.Scan() {
		words := strings.Fields(sc.Text())
		switch words[0] {
		case "stats":
			b, err := json.Marshal(m.Stats())
			fmt.Println(string(b), errText(err))
		case "waiting":
			fmt.Println(raw.waiting.Load())
		case "entry":
			m.EntryChanged(1, words[1])
			fmt.Println("ok")
		case "inode":
			m.InodeChanged(2)
			fmt.Println("ok")
		case "epoch":
			fmt.Println(m.AllNamesChanged())
		case "content":
			raw.set(strings.Join(words[1:], " "))
			fmt.Println("ok")
		case "more": // one more mount of the fake
			other := newFake(false)
			more, err = mountRaw(context.Background(), other, words[1], c.Options.withDefaults(), func(m *Mount) { other.t = m.transport })
			fmt.Println(errText(err))
		case "less":
			switch words[1] {
			case "unmount":
				err = more.Unmount(context.Background(), false)
			case "lazy":
				err = more.Unmount(context.Background(), true)
			case "shutdown":
				err = more.Shutdown(context.Background())
			case "abort":
				err = more.Abort()
			}
			fmt.Println(errText(errors.Join(err, more.Wait())))
		case "unmount":
			fmt.Println(errText(m.Unmount(context.Background(), false)))
		case "lazy":
			fmt.Println(errText(m.Unmount(context.Background(), true)))
		case "shutdown":
			fmt.Println(errText(m.Shutdown(context.Background())))
		case "abort":
			fmt.Println(errText(m.Abort()))
		case "mark":
			fmt.Println(errText(mark(f, marks, words[1], "")))
		case "move":
			fmt.Println(errText(mark(f, marks, "", words[1])))
		case "foresee":
			over = f.Foresee()
			fmt.Println("ok")
		case "over":
			over()
			fmt.Println("ok")
		case "seq":
			h, err := f.Hold(context.Background())
			if err != nil {
				return err
			}
			timeline, seq := h.At()
			h.Release()
			fmt.Println(timeline, seq)
		case "known": // a point by its name, from another server
			var at fs.Move
			_, err := fmt.Sscan(words[2]+" "+words[3], &at.Timeline, &at.Seq)
			marks[words[1]] = at
			fmt.Println(errText(err))
		}
	}
	return sc.Err()
}

// mark names the point where the workspace stands, or moves it to one that was named.
func mark(f *fs.FS, marks map[string]fs.Move, name, to string) error {
	h, err := f.Hold(context.Background())
	if err != nil {
		return err
	}
	defer h.Release()
	if to != "" {
		return h.Move(context.Background(), marks[to])
	}
	timeline, seq := h.At()
	marks[name] = fs.Move{Timeline: timeline, Seq: seq, Why: "test"}
	return nil
}

// serveStore mounts a workspace of a real store.
func serveStore(c *serveConfig) (*Mount, *fs.FS, func() error, error) {
	ctx := context.Background()
	if err := store.Init(ctx, c.Store, sqlite.Driver()); err != nil && !errors.Is(err, store.ErrExists) {
		return nil, nil, nil, err
	}
	st, err := store.Open(ctx, c.Store, sqlite.Driver(), store.Options{Log: c.Options.Log})
	if err != nil {
		return nil, nil, nil, err
	}
	ws, err := st.Workspace(ctx, "w") // of a server that was killed
	if err != nil {
		ws, err = fs.NewWorkspace(ctx, st, "w", "", store.Attribution{})
	}
	if err != nil {
		return nil, nil, nil, err
	}
	f, err := fs.Open(ctx, st, ws, fs.Options{Log: c.Options.Log})
	if err != nil {
		return nil, nil, nil, err
	}
	m, err := New(ctx, f, c.Point, c.Options)
	if err == nil && c.Second != "" {
		_, err = New(ctx, f, c.Second, c.Options)
	}
	return m, f, func() error { return errors.Join(f.Close(), st.Close()) }, err
}

func errText(err error) string {
	if err == nil {
		return "ok"
	}
	return "error " + strings.ReplaceAll(err.Error(), "\n", "; ")
}

// server is the child as the test sees it.
type server struct {
	t     testing.TB
	point string
	cmd   *exec.Cmd
	in    io.Writer
	out   *bufio.Scanner
	log   *safeBuffer
}

// safeBuffer is written by the copy of the server's standard error while the test reads it.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// needFuse ends a test where nothing can be mounted.
func needFuse(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounts for this test need root (the test of unprivileged mounts is TestMountAsUser)")
	}
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Skip("this machine has no /dev/fuse:", err)
	}
}

// needUring switches FUSE over io_uring on for the test, or ends it where that is impossible.
func needUring(t testing.TB) {
	t.Helper()
	const param = "/sys/module/fuse/parameters/enable_uring"
	was, err := os.ReadFile(param)
	if err != nil {
		t.Skip("this kernel has no FUSE over io_uring (Linux 6.14):", err)
	}
	if r, err := newRing(4); err != nil {
		t.Skip("no io_uring here:", err)
	} else {
		r.close()
	}
	if was[0] == 'Y' {
		return
	}
	if err := os.WriteFile(param, []byte("Y"), 0); err != nil {
		t.Skip("FUSE over io_uring is off, and only root may switch it on:", err)
	}
	t.Cleanup(func() {
		if err := os.WriteFile(param, was, 0); err != nil {
			t.Error(err)
		}
	})
}

func startServer(t testing.TB, c serveConfig) *server {
	t.Helper()
	needFuse(t)
	if c.Options.Transport == TransportUring {
		needUring(t)
	}
	if c.Point == "" {
		c.Point = filepath.Join(t.TempDir(), "mnt")
		if err := os.Mkdir(c.Point, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, point: c.Point, log: &safeBuffer{}}
	s.cmd = exec.Command(os.Args[0])
	s.cmd.Env = append(os.Environ(), serveEnv+"="+string(cfg))
	s.cmd.Stderr = s.log
	in, err1 := s.cmd.StdinPipe()
	out, err2 := s.cmd.StdoutPipe()
	if err := errors.Join(err1, err2, s.cmd.Start()); err != nil {
		t.Fatal(err)
	}
	s.in, s.out = in, bufio.NewScanner(out)
	// A hanging test must end: with its server gone, everything in the mount fails.
	watchdog := time.AfterFunc(3*time.Minute, func() {
		_ = s.cmd.Process.Kill()
	})
	t.Cleanup(func() {
		watchdog.Stop()
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		_ = UnmountPath(context.Background(), c.Point, true)
		if t.Failed() {
			t.Logf("the server said:\n%s", s.log.String())
		}
	})
	if line := s.line(); line != "ready" {
		t.Fatalf("server: %s\n%s", line, s.log.String())
	}
	if want := c.Options.Transport; want != "" && !c.Fallback && s.stats().Transport != want {
		t.Fatalf("the transport is %s, not %s\n%s", s.stats().Transport, want, s.log.String())
	}
	return s
}

func (s *server) line() string {
	s.t.Helper()
	if !s.out.Scan() {
		s.t.Fatalf("the server is gone: %v\n%s", s.out.Err(), s.log.String())
	}
	return s.out.Text()
}

// do sends a command and returns its answer.
func (s *server) do(cmd string) string {
	s.t.Helper()
	if _, err := fmt.Fprintln(s.in, cmd); err != nil {
		s.t.Fatal(err)
	}
	return s.line()
}

func (s *server) stats() Stats {
	s.t.Helper()
	var st Stats
	if err := json.NewDecoder(strings.NewReader(s.do("stats"))).Decode(&st); err != nil {
		s.t.Fatal(err)
	}
	return st
}

// waiting returns how many handlers of the fake wait. Stats.Yields is no measure of it: a handler whose role was taken
// before it came to yield has none to give.
func (s *server) waiting() int {
	s.t.Helper()
	n, err := strconv.Atoi(s.do("waiting"))
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *server) path(name string) string { return filepath.Join(s.point, name) }

// fake is a file system whose root holds names that do things:
//
//	f          has the content
//	panic      panics at OPEN
//	block      waits at OPEN, after giving the role away, until "unblock" is looked up or the caller is interrupted
//	hold       as block, but ignores interrupts
//	lock       any SETLKW waits as in block
type fake struct {
	gofuse.RawFileSystem
	noCache bool
	noFlush bool
	t       transport

	mu      sync.Mutex
	content string
	release chan struct{}
	waiting atomic.Int64 // handlers in wait
}

func newFake(noCache bool) *fake {
	return &fake{
		RawFileSystem: gofuse.NewDefaultRawFileSystem(), noCache: noCache, content: "hello\n", release: make(chan struct{}),
	}
}

func fakeNames() []string { return []string{2: "f", 3: "panic", 4: "block", 5: "hold", 6: "lock"} }

func (f *fake) set(s string) {
	f.mu.Lock()
	f.content = s
	f.mu.Unlock()
}

func (f *fake) get() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.content
}

func (f *fake) attr(ino uint64, a *gofuse.Attr) {
	*a = gofuse.Attr{Ino: ino, Nlink: 1, Mode: syscall.S_IFREG | 0o644}
	if ino == 1 {
		a.Mode = syscall.S_IFDIR | 0o755
		return
	}
	a.Size = uint64(len(f.get()))
}

func (f *fake) ttl() time.Duration {
	if f.noCache {
		return 0
	}
	return time.Hour
}

func (f *fake) Lookup(_ <-chan struct{}, _ *gofuse.InHeader, name string, out *gofuse.EntryOut) gofuse.Status {
	if name == "unblock" {
		f.mu.Lock()
		close(f.release)
		f.release = make(chan struct{})
		f.mu.Unlock()
		return gofuse.ENOENT
	}
	for ino, n := range fakeNames() {
		if n == name && n != "" {
			out.NodeId = uint64(ino)
			f.attr(out.NodeId, &out.Attr)
			out.SetEntryTimeout(time.Hour)
			out.SetAttrTimeout(f.ttl())
			return gofuse.OK
		}
	}
	if name == "appears" && f.get() == "HELLO!" {
		out.NodeId = 99
		f.attr(99, &out.Attr)
		return gofuse.OK
	}
	out.SetEntryTimeout(time.Hour)
	return gofuse.OK // remembered as absent
}

func (f *fake) GetAttr(_ <-chan struct{}, in *gofuse.GetAttrIn, out *gofuse.AttrOut) gofuse.Status {
	f.attr(in.NodeId, &out.Attr)
	out.SetTimeout(f.ttl())
	return gofuse.OK
}

func (f *fake) wait(h *gofuse.InHeader, cancel <-chan struct{}) gofuse.Status {
	f.mu.Lock()
	ch := f.release
	f.mu.Unlock()
	f.t.yield(h)
	f.waiting.Add(1)
	defer f.waiting.Add(-1)
	select {
	case <-ch:
		return gofuse.OK
	case <-cancel:
		return gofuse.EINTR
	}
}

func (f *fake) Open(cancel <-chan struct{}, in *gofuse.OpenIn, out *gofuse.OpenOut) gofuse.Status {
	switch fakeNames()[in.NodeId] {
	case "panic":
		panic("as asked")
	case "block":
		return f.wait(&in.InHeader, cancel)
	case "hold":
		return f.wait(&in.InHeader, nil)
	}
	out.OpenFlags = gofuse.FOPEN_KEEP_CACHE
	if f.noFlush {
		out.OpenFlags |= gofuse.FOPEN_NOFLUSH
	}
	return gofuse.OK
}

func (f *fake) SetLkw(cancel <-chan struct{}, in *gofuse.LkIn) gofuse.Status {
	return f.wait(&in.InHeader, cancel)
}

func (f *fake) Read(_ <-chan struct{}, in *gofuse.ReadIn, buf []byte) (gofuse.ReadResult, gofuse.Status) {
	c := f.get()
	if in.Offset >= uint64(len(c)) {
		return gofuse.ReadResultData(nil), gofuse.OK
	}
	return &filled{buf: buf[:copy(buf, c[in.Offset:])], pool: &sync.Pool{}}, gofuse.OK
}

func (f *fake) Write(_ <-chan struct{}, in *gofuse.WriteIn, data []byte) (uint32, gofuse.Status) {
	return uint32(len(data)), gofuse.OK
}

func (f *fake) Flush(<-chan struct{}, *gofuse.FlushIn) gofuse.Status { return gofuse.OK }

func (f *fake) StatFs(<-chan struct{}, *gofuse.InHeader, *gofuse.StatfsOut) gofuse.Status {
	return gofuse.OK
}
