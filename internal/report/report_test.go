package report_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"wsfs/internal/report"
	"wsfs/internal/ui"
	"wsfs/store"
	"wsfs/versions"
)

func TestLog(t *testing.T) {
	var b bytes.Buffer
	out := &ui.Out{W: &b, Now: time.Unix(100, 0)}
	p := &report.Log{Out: out, Lines: 2}
	ses := &store.Session{ID: 1, Name: "agent-1"}
	cmd := &store.Command{ID: 7, Argv: "npm\x00install\x00left pad"}
	mode := uint32(0o100000)
	for i := range 5 {
		e := &versions.Entry{Seq: store.Seq(9 - i), At: 1e9, What: versions.Created, Type: mode, Path: "a\n", Plus: 1536, Session: ses, Command: cmd}
		if err := p.Entry(e); err != nil {
			t.Fatal(err)
		}
	}
	p.Lines = 4
	for _, e := range []*versions.Entry{
		{Seq: 4, What: versions.Renamed, From: "a", Path: "b", Session: ses},
		{Seq: 3, What: versions.Mode, Path: "b", OldMode: 0o644, NewMode: 0o4755, Session: ses},
		{Seq: 2, What: versions.Written, Type: mode, Path: "b", Session: ses},
		{Seq: 1, What: versions.Deleted, Type: 0o040000, Path: "d", Session: ses},
	} {
		if err := p.Entry(e); err != nil {
			t.Fatal(err)
		}
	}
	if !p.End() {
		t.Fatal("it says that there was nothing")
	}
	if err := out.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"c7  agent-1  ", "  $ npm install 'left pad'\n  @9 created $'a\\n' +1.5 KiB\n  @8 created",
		"  ... and 3 more: 3 created, +4.5 KiB (--command c7 shows them)\n\nagent-1  ",
		"  (unknown)\n  @4 renamed a -> b\n  @3 mode b 0644 -> 4755\n  @2 written b same size\n  @1 deleted d/\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%s\nlacks %q", b.String(), want)
		}
	}
}
