package fuse

import (
	"slices"
	"strings"
	"testing"
	"time"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"
)

func TestParseMountinfo(t *testing.T) {
	const text = `22 28 0:20 / /sys rw,nosuid shared:7 - sysfs sysfs rw
36 35 98:0 /mnt1 /a\040b\134c rw,noatime master:1 - fuse.wsfs wsfs:x\011y rw,user_id=0
42 27 0:1048575 / /m rw - fuse.wsfs wsfs:w rw
`
	var got []mountEntry
	if err := parseMountinfo(strings.NewReader(text), func(e mountEntry) bool { got = append(got, e); return true }); err != nil {
		t.Fatal(err)
	}
	want := []mountEntry{
		{22, 28, 0, 20, "/sys", "rw,nosuid", "sysfs", "sysfs", "rw"},
		{36, 35, 98, 0, `/a b\c`, "rw,noatime", "fuse.wsfs", "wsfs:x\ty", "rw,user_id=0"},
		{42, 27, 0, 1048575, "/m", "rw", "fuse.wsfs", "wsfs:w", "rw"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	for _, bad := range []string{"", "1 2 3", "x 28 0:20 / /sys rw - sysfs sysfs rw", "1 2 0:x / / rw - a b c"} {
		if _, err := parseMountLine(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func FuzzParseMountLine(f *testing.F) {
	f.Add(`36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`)
	f.Add(`1 2 0:1 / \04 rw - a \777 c`)
	f.Fuzz(func(t *testing.T, line string) {
		if e, err := parseMountLine(line); err == nil && len(e.Point) > len(line) {
			t.Errorf("%q became longer: %q", line, e.Point)
		}
	})
}

func TestParseGroups(t *testing.T) {
	got := parseGroups([]byte("Name:\tsh\nGroups:\t4 24 1000 \nNStgid:\t1\n"), nil)
	if !slices.Equal(got, []uint32{4, 24, 1000}) {
		t.Errorf("got %v", got)
	}
	for _, none := range []string{"", "Groups: 1", "Name:\tx\nGroups:\t\n", "\nGroups: x y"} {
		if got := parseGroups([]byte(none), nil); len(got) != 0 {
			t.Errorf("%q: %v", none, got)
		}
	}
}

func TestTimesBefore1970(t *testing.T) {
	for _, ns := range []int64{0, 1, -1, -1e9, -1500000000, 1e18 + 7} {
		sec, nsec := splitTime(ns)
		if got := fromTime(sec, nsec); got != ns || nsec >= 1e9 {
			t.Errorf("%d became %d s %d ns, and back %d", ns, int64(sec), nsec, got)
		}
	}
}

func TestSetAttr(t *testing.T) {
	var in gofuse.SetAttrIn
	in.Valid = gofuse.FATTR_MODE | gofuse.FATTR_SIZE | gofuse.FATTR_MTIME | gofuse.FATTR_ATIME | gofuse.FATTR_ATIME_NOW |
		gofuse.FATTR_KILL_SUIDGID
	in.Mode, in.Size, in.Mtime, in.Mtimensec = 0o104755, 7, 3, 5
	s := setAttr(&in, func() time.Time { return time.Unix(9, 0) })
	if *s.Mode != 0o4755 || *s.Size != 7 || *s.Mtime != 3e9+5 || *s.Atime != 9e9 || !s.KillPriv {
		t.Errorf("got %+v", s)
	}
	if s.UID != nil || s.GID != nil || s.Ctime != nil {
		t.Errorf("what was not asked for is set: %+v", s)
	}
}

func TestHandles(t *testing.T) {
	var h handles[int]
	one, two := 1, 2
	a, b := h.add(&one), h.add(&two)
	if a == 0 || b == 0 || a == b || h.get(a) != &one || h.get(b) != &two {
		t.Fatalf("numbers %d and %d", a, b)
	}
	if h.get(0) != nil || h.get(99) != nil || h.remove(99) != nil {
		t.Error("a number that names nothing led somewhere")
	}
	if h.remove(a) != &one || h.remove(a) != nil || h.get(a) != nil {
		t.Error("a removed number still leads somewhere")
	}
	if c := h.add(&one); c != a {
		t.Errorf("number %d, want the free %d", c, a)
	}
	if n := len(h.drain()); n != 2 {
		t.Errorf("drained %d, want 2", n)
	}
}

func TestOpNames(t *testing.T) {
	if opName(1) != "lookup" || opName(52) != "statx" || opName(7) != "op7" || opName(4096) != "op4096" {
		t.Errorf("%s %s %s %s", opName(1), opName(52), opName(7), opName(4096))
	}
}

func TestLatencyBuckets(t *testing.T) {
	var c opCounters
	c.add(3, false, 500*time.Nanosecond)
	c.add(3, true, 3*time.Microsecond)
	c.add(3, false, time.Hour)
	c.add(9999, false, 0)
	s := c.snapshot()
	if len(s) != 2 || s[0].Name != "getattr" || s[0].Count != 3 || s[0].Errors != 1 {
		t.Fatalf("%+v", s)
	}
	if l := s[0].Latency; l[0] != 1 || l[2] != 1 || l[Buckets-1] != 1 {
		t.Errorf("buckets %v", l)
	}
}
