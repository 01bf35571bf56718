package daemon

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"wsfs/store"
	"wsfs/store/sqlite"
)

func newStore(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	if err := store.Init(context.Background(), dir, sqlite.Driver()); err != nil {
		t.Fatal(err)
	}
	checkAtEnd(t, dir)
	return dir
}

// checkAtEnd tests every invariant of the store when whoever had it open is gone.
func checkAtEnd(t testing.TB, dir string) {
	t.Helper()
	t.Cleanup(func() {
		var st *store.Store
		err := error(&store.LockedError{})
		for deadline := time.Now().Add(time.Minute); errors.As(err, new(*store.LockedError)) && time.Now().Before(deadline); {
			// A daemon that is ending gives its socket up before its lock.
			if st, err = store.Open(context.Background(), dir, sqlite.Driver(), store.Options{}); err != nil {
				time.Sleep(10 * time.Millisecond)
			}
		}
		if err != nil {
			t.Error(err)
			return
		}
		if err := st.Check(context.Background(), func(p store.Problem) { t.Error(p) }); err != nil {
			t.Error(err)
		}
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
}

func local(t testing.TB, dir string) *Client {
	t.Helper()
	c, err := InProcess(context.Background(), Options{Store: dir, Driver: sqlite.Driver(), Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// serve runs a daemon in this process, with its socket.
func serve(t *testing.T, dir string, o Options) (*Daemon, *Client) {
	t.Helper()
	o.Store, o.Driver, o.Serve = dir, sqlite.Driver(), true
	d, err := Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Listen(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(SocketPath(dir)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the socket is left: %v", err)
		}
	})
	c, err := Dial(dir)
	if err != nil || c == nil {
		t.Fatal(c, err)
	}
	return d, c
}

func wantExit(t *testing.T, err error, code int, part string) {
	t.Helper()
	if err == nil || ExitCode(err) != code || !strings.Contains(err.Error(), part) {
		t.Errorf("error %v leads to exit code %d; want %d and %q", err, ExitCode(err), code, part)
	}
}

func TestImportAndRestore(t *testing.T) {
	ctx := context.Background()
	src := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(src, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("f", "one")
	c := local(t, newStore(t))
	lines := 0
	req := ImportRequest{Workspace: "main", Dir: Path(src)}
	res, err := c.Import(ctx, req, func(ImportLine) { lines++ })
	if err != nil || !res.Created || res.Added != 1 || res.Seq == 0 || lines == 0 {
		t.Fatalf("import: %+v, %v, %d lines", res, err, lines)
	}
	first := res.Seq
	if res, err = c.Import(ctx, req, func(ImportLine) {}); err != nil || res.Created || res.Seq != 0 {
		t.Fatalf("importing the same again: %+v, %v", res, err)
	}
	write("f", "two!")
	if res, err = c.Import(ctx, req, func(ImportLine) {}); err != nil || res.Changed != 1 {
		t.Fatalf("importing a change: %+v, %v", res, err)
	}
	r, err := c.Restore(ctx, RestoreRequest{Workspace: "main", Path: "f", Revision: strconv.FormatInt(first, 10)})
	if err != nil || r.Restored != 1 {
		t.Fatalf("restore: %+v, %v", r, err)
	}
	_, err = c.Restore(ctx, RestoreRequest{Workspace: "main", Path: "f", Revision: strconv.FormatInt(first, 10)})
	wantExit(t, err, ExitNothing, "as it was")
	_, err = c.Restore(ctx, RestoreRequest{Workspace: "main", Path: "f", Revision: "main@5x"})
	wantExit(t, err, ExitUsage, "unknown unit")
	_, err = c.Restore(ctx, RestoreRequest{Workspace: "main", Path: "nope", Revision: "1"})
	wantExit(t, err, ExitFailed, "no such file")
	_, err = c.Restore(ctx, RestoreRequest{Workspace: "mein", Path: "f", Revision: "1"})
	wantExit(t, err, ExitFailed, `did you mean "main"`)

	write(".wsfs", "")
	_, err = c.Import(ctx, req, func(ImportLine) {})
	wantExit(t, err, ExitFailed, "reserved")
	_, err = c.Import(ctx, ImportRequest{Workspace: "x", Dir: Path(src + "/nope")}, func(ImportLine) {})
	wantExit(t, err, ExitFailed, "no such directory")
	_, err = c.Import(ctx, ImportRequest{Workspace: "x", Dir: Path(src + "/f")}, func(ImportLine) {})
	wantExit(t, err, ExitFailed, "only a directory")
	_, err = c.Import(ctx, ImportRequest{Workspace: "a:b", Dir: Path(src)}, func(ImportLine) {})
	wantExit(t, err, ExitUsage, "':'")
}

func TestWorkspaces(t *testing.T) {
	ctx := context.Background()
	c := local(t, newStore(t))
	if err := c.CreateWorkspace(ctx, "main"); err != nil {
		t.Fatal(err)
	}
	wantExit(t, c.CreateWorkspace(ctx, "main"), ExitFailed, "there is one")
	for _, name := range []string{"", "-x", "a/b", ".wsfs", "a@b", "a:b", "a\x00b", strings.Repeat("x", 300), "\xff"} {
		wantExit(t, c.CreateWorkspace(ctx, name), ExitUsage, "workspace name")
	}
	if st, err := c.Status(ctx); err != nil || st.PID != os.Getpid() || st.Ops != st.Applied || st.Socket != "" {
		t.Errorf("status: %+v, %v", st, err)
	}
	if res, err := c.Sync(ctx, SyncRequest{Durable: true}); err != nil || res.Ops != 1 {
		t.Errorf("sync: %+v, %v", res, err)
	}
}

func TestSecondDaemon(t *testing.T) {
	dir := newStore(t)
	serve(t, dir, Options{})
	_, err := Open(context.Background(), Options{Store: dir, Driver: sqlite.Driver(), Serve: true, LockWait: time.Minute})
	var locked *store.LockedError
	if !errors.As(err, &locked) || locked.PID != os.Getpid() || locked.Socket != SocketPath(dir) || !strings.Contains(err.Error(), strconv.Itoa(os.Getpid())) {
		t.Errorf("the second daemon got %v", err)
	}
}

// A store may lie deeper than a socket address can say.
func TestLongStorePath(t *testing.T) {
	dir := t.TempDir()
	for len(dir) < 300 {
		dir = filepath.Join(dir, strings.Repeat("d", 60))
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := store.Init(context.Background(), dir, sqlite.Driver()); err != nil {
		t.Fatal(err)
	}
	_, c := serve(t, dir, Options{})
	if _, err := c.Status(context.Background()); err != nil {
		t.Error(err)
	}
	if st, err := os.Stat(SocketPath(dir)); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v, %v", st, err)
	}
}

func TestNoDaemon(t *testing.T) {
	dir := newStore(t)
	if c, err := Dial(dir); c != nil || err != nil {
		t.Error(c, err)
	}
	// A socket that nobody listens on was left by a daemon that was killed.
	l, err := listen(dir, func(uid uint32) { t.Errorf("user %d was refused", uid) })
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	if c, err := Dial(dir); c != nil || err != nil {
		t.Error(c, err)
	}
	serve(t, dir, Options{}) // takes its place
}

func TestCheckPlace(t *testing.T) {
	dir := newStore(t)
	d, c := serve(t, dir, Options{})
	if err := c.CreateWorkspace(context.Background(), "main"); err != nil {
		t.Fatal(err)
	}
	for point, part := range map[string]string{
		dir:               "inside the store",
		dir + "/x":        "inside the store",
		filepath.Dir(dir): "the store",
		"relative":        "absolute",
		"/a/../b":         "clean",
	} {
		if err := d.checkPlace(point); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("checkPlace(%q): %v", point, err)
		}
	}
	_, err := c.Mount(context.Background(), MountRequest{Workspace: "nope", Mountpoint: Path(t.TempDir())})
	wantExit(t, err, ExitFailed, "no workspace")
	_, err = c.Mount(context.Background(), MountRequest{Workspace: "main", Mountpoint: Path(t.TempDir() + "/nope")})
	wantExit(t, err, ExitFailed, "mkdir")
	_, err = c.Unmount(context.Background(), t.TempDir(), false)
	wantExit(t, err, ExitNothing, "no mount")
}

func TestAPIErrors(t *testing.T) {
	d, _ := serve(t, newStore(t), Options{})
	do := func(method, path, body string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		d.Handler().ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
		return w
	}
	for _, c := range []struct {
		method, path, body string
		code               int
	}{
		{"GET", "/v1/status", "", 200},
		{"GET", "/v1/mounts", "", 200},
		{"POST", "/v1/mounts", "{", 400},
		{"POST", "/v1/sync", `{"unknown":1}`, 400},
		{"POST", "/v1/import", "[]", 400},
		{"DELETE", "/v1/mounts", "", 400},
		{"DELETE", "/v1/mounts?mountpoint=/nope", "", 409},
		{"GET", "/nope", "", 404},
		{"PUT", "/v1/status", "", 405},
		{"GET", "/debug/pprof/goroutine?debug=1", "", 200},
	} {
		if w := do(c.method, c.path, c.body); w.Code != c.code {
			t.Errorf("%s %s: %d %s, want %d", c.method, c.path, w.Code, w.Body, c.code)
		}
	}
}

// A bug in one request costs that request, not the daemon.
func TestGuard(t *testing.T) {
	d, c := serve(t, newStore(t), Options{})
	w := httptest.NewRecorder()
	d.guard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("a bug") })).ServeHTTP(w, httptest.NewRequest("GET", "/x", nil))
	if w.Code != 500 || !strings.Contains(w.Body.String(), `"exit":1`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	st, err := c.Status(context.Background())
	if err != nil || !strings.Contains(st.LastError, "a bug") {
		t.Errorf("%+v, %v", st, err)
	}
}

// Every line of the metrics is a comment or a sample, and every sample has its head.
func TestMetrics(t *testing.T) {
	d, _ := serve(t, newStore(t), Options{})
	w := httptest.NewRecorder()
	d.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	heads := map[string]bool{}
	n := 0
	for sc := bufio.NewScanner(w.Body); sc.Scan(); {
		line := sc.Text()
		if f := strings.Fields(line); f[0] == "#" {
			heads[f[2]] = true
			continue
		}
		name, value, _ := strings.Cut(line, " ")
		if i := strings.LastIndexByte(line, ' '); i > 0 {
			name, value = line[:i], line[i+1:]
		}
		name, _, _ = strings.Cut(name, "{")
		if _, err := strconv.ParseFloat(value, 64); err != nil || !heads[name] {
			t.Errorf("sample %q: %v", line, err)
		}
		n++
	}
	for _, name := range []string{"wsfs_journal_depth_ops", "wsfs_apply_lag_seconds", "wsfs_blob_cache_bytes", "wsfs_conflicts", "wsfs_held"} {
		if !heads[name] {
			t.Errorf("no %s", name)
		}
	}
	if n < 10 || !heads["wsfs_ops"] {
		t.Errorf("only %d samples: %v", n, heads)
	}
	var b strings.Builder
	m := &metrics{w: bufio.NewWriter(&b)}
	m.value("x", 1, "path", "a\"b\\c\nd\xff")
	_ = m.w.Flush()
	if b.String() != "x{path=\"a\\\"b\\\\c\\nd\uFFFD\"} 1\n" {
		t.Errorf("%q", b.String())
	}
}

func TestExitCode(t *testing.T) {
	if ExitCode(nil) != 0 || ExitCode(errors.New("x")) != 1 || ExitCode(Fail(3, "x")) != 3 {
		t.Error("exit codes")
	}
	if err := Fail(1, "x: %w", syscall.EBUSY); !errors.Is(err, syscall.EBUSY) {
		t.Error("Fail does not wrap")
	}
}
