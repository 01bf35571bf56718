package daemon

import (
	"encoding/json"
	"strings"
	"testing"
)

const table = `22 28 0:20 / /proc rw,nosuid shared:5 - proc proc rw
28 1 254:0 / / rw,relatime - ext4 /dev/root rw
40 28 0:50 / /m\040a\134b\012c rw - fuse.wsfs wsfs:main:/st\040ore rw,user_id=0
41 28 0:51 / /m rw - fuse.wsfs wsfs:other:/store rw,user_id=0
42 28 0:51 /sub /bind rw - fuse.wsfs wsfs:other:/store rw,user_id=0
43 28 0:52 / /m rw - tmpfs tmpfs rw
44 28 0:53 / /sshfs rw - fuse.sshfs host: rw
`

func TestParseMounts(t *testing.T) {
	mounts, err := parseMounts(strings.NewReader(table))
	if err != nil || len(mounts) != 7 {
		t.Fatal(mounts, err)
	}
	m := MountAt(mounts, "/m a\\b\nc")
	if m == nil || !m.Ours() || m.Workspace() != "main" || m.Store() != "/st ore" || m.Minor != 50 || m.ID != 40 {
		t.Errorf("%+v", m)
	}
	if m := MountAt(mounts, "/m"); m == nil || m.Type != "tmpfs" {
		t.Errorf("what was mounted last is on top: %+v", m)
	}
	if m := MountOf(mounts, "/sshfs/x"); m == nil || m.Ours() {
		t.Errorf("%+v", m)
	}
	if m := MountOf(mounts, "/mm"); m == nil || m.Point != "/" {
		t.Errorf("/mm is not in /m: %+v", m)
	}
	if m := MountOf(mounts, "/bind/x/y"); m == nil || m.PathIn("/bind/x/y") != "sub/x/y" || m.PathIn("/bind") != "sub" {
		t.Errorf("%+v", m)
	}
	for _, bad := range []string{"1 2 3\n", "36 35 98:0 / / rw ext4\n"} {
		if _, err := parseMounts(strings.NewReader(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestWithin(t *testing.T) {
	for _, c := range []struct {
		path, dir string
		want      bool
	}{{"/a", "/a", true}, {"/a/b", "/a", true}, {"/ab", "/a", false}, {"/a", "/a/b", false}, {"/x", "/", true}, {"/", "/", true}} {
		if got := within(c.path, c.dir); got != c.want {
			t.Errorf("within(%q, %q) = %v", c.path, c.dir, got)
		}
	}
}

func TestPathJSON(t *testing.T) {
	for _, s := range []string{"", "/plain", "/ü \n", "/\xff\xfe"} {
		b, err := json.Marshal(Path(s))
		if err != nil {
			t.Fatal(err)
		}
		var back Path
		if err := json.Unmarshal(b, &back); err != nil || string(back) != s {
			t.Errorf("%q -> %s -> %q, %v", s, b, back, err)
		}
	}
	var p Path
	if json.Unmarshal([]byte("[1]"), &p) == nil {
		t.Error("a list was taken for a path")
	}
}

func FuzzMounts(f *testing.F) {
	f.Add(table)
	f.Fuzz(func(t *testing.T, s string) {
		mounts, err := parseMounts(strings.NewReader(s))
		if err != nil {
			return
		}
		for i := range mounts {
			mounts[i].Ours()
			mounts[i].Workspace()
			mounts[i].PathIn("/x")
		}
		MountOf(mounts, "/x")
	})
}
