package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"wsfs/internal/ui"
	"wsfs/versions"
)

// Without a mount: two imports are two states.
func TestDiffAndBlameOfImports(t *testing.T) {
	c := newCLI(t)
	src := t.TempDir()
	c.file(src+"/f", "one\ntwo\n")
	c.file(src+"/odd\n\xff", "x\xfe\n")
	c.file(src+"/bin", "a\x00")
	c.want(0, "", "init")
	c.want(0, "", "import", src, "main")
	c.file(src+"/f", "one\n2\ntwo\n")
	c.file(src+"/odd\n\xff", "y\xfe\n")
	c.file(src+"/bin", "b\x00bb")
	c.want(0, "", "import", src, "main")
	c.want(0, "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1,2 +1,3 @@\n one\n+2\n two\n", "diff", "2")
	c.want(0, `diff --git "a/odd\n\377" "b/odd\n\377"`, "diff", "2")
	c.want(0, "Binary files a/bin and b/bin differ\n", "diff", "2")
	c.want(0, "$'odd\\n\\xff'\n", "diff", "2", "--name-only")
	c.want(0, " bin          | binary\n f            | 1 +\n", "diff", "2", "--stat")
	c.want(0, " 3 paths changed, 2 lines added, 1 line removed\n", "diff", "2", "--stat")
	c.want(3, "do not differ in f", "diff", "3", "f")
	c.want(2, "not both", "diff", "2", "--stat", "--name-only")
	c.want(2, "number of lines", "diff", "2", "-U", "-1")
	c.want(2, "revision is missing", "diff", "--", "f")
	c.want(0, "+2\n", "diff", "main@2", "main@3", "f")
	c.want(0, "-2\n", "diff", "3", "2", "f")
	c.want(0, "2) 2\n", "blame", "main:f")
	c.want(1, "no text", "blame", "main:bin")
	c.want(2, "has 3 lines", "blame", "main:f", "-L", "4")
	c.want(0, "+2\n", "show", "3")
	c.want(0, "+2\n", "log", "-p", "main:f", "-n", "1")
	c.want(3, "nothing happened", "log", "--since", "3")
	c.want(3, "nothing happened", "log", "--deleted")
	for args, part := range map[string]string{
		"diff 2 --json":        `"path_base64":"b2RkCv8="`,
		"diff 2 --json --stat": `"lines_added":1,"lines_removed":1`,
		"show 3 --json":        `"paths":3`,
		"sessions --json":      `"commands":`,
		"commands --json":      `"first_seq":`,
		"blame --json main:f":  `"line":2,"text":"2\n","seq":3`,
	} {
		out := c.want(0, part, strings.Fields(args)...)
		for line := range strings.SplitSeq(strings.TrimSuffix(out, "\n"), "\n") {
			if !json.Valid([]byte(line)) {
				t.Errorf("%s: %q is no JSON", args, line)
			}
		}
	}
}

func TestParseLines(t *testing.T) {
	for s, want := range map[string]versions.BlameRange{
		"": {}, "3": {First: 3, Last: 3}, "3,5": {First: 3, Last: 5}, "3,": {First: 3}, ",5": {First: 1, Last: 5}, "3,+2": {First: 3, Last: 4},
	} {
		if got, err := parseLines(s); err != nil || got != want {
			t.Errorf("%q: %v %v", s, got, err)
		}
	}
	for _, s := range []string{",", "0", "5,3", "x", "1,2,3", "-1", "1,+", "1,+0", "99999999999"} {
		if got, err := parseLines(s); err == nil {
			t.Errorf("%q is read as %v", s, got)
		}
	}
}

// What a terminal would act on does not reach it; without a terminal nothing is changed.
func TestPatchOnTerminal(t *testing.T) {
	patch := []byte("diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-\x1b[2J\xff\n+--x\u009b\ttab\n")
	print := func(o ui.Out) string {
		var b bytes.Buffer
		o.W = &b
		p := &diffPrinter{out: &o}
		if err := p.lines(patch); err != nil {
			t.Fatal(err)
		}
		_ = o.Flush()
		return b.String()
	}
	if got := print(ui.Out{}); got != string(patch) {
		t.Errorf("not a terminal: %q", got)
	}
	want := "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-^[[2J\\xff\n+--x\\x9b\ttab\n"
	if got := print(ui.Out{Terminal: true}); got != want {
		t.Errorf("a terminal: %q", got)
	}
	if got := print(ui.Out{Terminal: true, Color: true}); !strings.Contains(got, "\x1b[31m-^[[2J") || !strings.Contains(got, "\x1b[32m+--x") {
		t.Errorf("colours: %q", got)
	}
}
