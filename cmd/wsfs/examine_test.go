package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestExamine(t *testing.T) {
	dir := t.TempDir()
	x := &examiner{dev: dir + "/fuse", fuseConf: dir + "/fuse.conf", proc: dir + "/proc", sys: dir + "/sys"}
	if f := x.device(); f.State != "fail" || !strings.Contains(f.Fix, "modprobe fuse") {
		t.Errorf("%+v", f)
	}
	put := func(name, content string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("fuse", "")
	if f := x.device(); f.State != "ok" {
		t.Errorf("%+v", f)
	}
	for release, state := range map[string]string{"6.18.1-x": "ok", "5.10.0": "warn", "4.19.0-26-amd64": "fail", "what": "warn"} {
		put("proc/sys/kernel/osrelease", release+"\n")
		if f := x.kernel(); f.State != state {
			t.Errorf("kernel %s: %+v", release, f)
		}
	}
	if f := x.uring(); f.State != "ok" || !strings.Contains(f.Detail, "no FUSE over io_uring") {
		t.Errorf("%+v", f)
	}
	put("sys/module/fuse/parameters/enable_uring", "N\n")
	if f := x.uring(); f.State != "ok" || !strings.Contains(f.Detail, "enable_uring") {
		t.Errorf("%+v", f)
	}
	put("sys/module/fuse/parameters/enable_uring", "Y\n")
	if f := x.uring(); !strings.Contains(f.Detail, "is possible") {
		t.Errorf("%+v", f)
	}
	put("proc/sys/fs/inotify/max_user_watches", "8192\n")
	if f := x.watches(); f.State != "warn" || !strings.Contains(f.Fix, "sysctl") {
		t.Errorf("%+v", f)
	}
	store := dir + "/store"
	if f := x.store(store); len(f) != 1 || f[0].State != "warn" || !strings.Contains(f[0].Fix, "wsfs init --store "+store) {
		t.Errorf("%+v", f)
	}
	put("store/wsfs.db", "not a database")
	if f := x.store(store); len(f) != 1 || f[0].State != "fail" {
		t.Errorf("%+v", f)
	}
	c := newCLI(t)
	c.want(0, "", "init")
	store = c.env["WSFS_STORE"]
	if err := os.Chmod(store, 0o755); err != nil {
		t.Fatal(err)
	}
	found := x.store(store)
	if found[0].State != "warn" || !strings.Contains(found[0].Fix, "chmod 700") || len(found) != 6 {
		t.Errorf("%+v", found)
	}
}
