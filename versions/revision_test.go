package versions

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	at := func(s string) time.Time {
		v, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, c := range []struct {
		in   string
		want Revision
	}{
		{"main", Revision{"main", Point{}}},
		{"main@1234", Revision{"main", Point{Kind: AtSeq, Seq: 1234}}},
		{"main@0", Revision{"main", Point{Kind: AtSeq}}},
		{"main@5m", Revision{"main", Point{Kind: AtAge, Age: 5 * time.Minute}}},
		{"main@1w2d3h4m5s6ms", Revision{"main", Point{Kind: AtAge, Age: 9*24*time.Hour + 3*time.Hour + 4*time.Minute + 5*time.Second + 6*time.Millisecond}}},
		{"main@2026-11-29T10:00:00Z", Revision{"main", Point{Kind: AtTime, Time: at("2026-11-29T10:00:00Z")}}},
		{"main@2026-11-29T10:00:00.25+02:00", Revision{"main", Point{Kind: AtTime, Time: at("2026-11-29T08:00:00.25Z")}}},
		{"main@2026-11-29T10:00", Revision{"main", Point{Kind: AtTime, Time: at("2026-11-29T10:00:00Z")}}},
		{"main@2026-11-29", Revision{"main", Point{Kind: AtTime, Time: at("2026-11-29T00:00:00Z")}}},
		{"main@v1.2", Revision{"main", Point{Kind: AtTag, Tag: "v1.2"}}},
		{"main@c12", Revision{"main", Point{Kind: BeforeCommand, Command: 12}}},
		{"main@c12+", Revision{"main", Point{Kind: AfterCommand, Command: 12}}},
		{"main@c", Revision{"main", Point{Kind: AtTag, Tag: "c"}}},
		{"main@candidate", Revision{"main", Point{Kind: AtTag, Tag: "candidate"}}},
		{"@5m", Revision{"", Point{Kind: AtAge, Age: 5 * time.Minute}}},
		{"ünï", Revision{"ünï", Point{}}},
	} {
		got, err := Parse(c.in, nil)
		if err != nil || !same(got, c.want) {
			t.Errorf("Parse(%q) = %+v, %v; want %+v", c.in, got, err, c.want)
		}
	}
}

func same(a, b Revision) bool {
	eq := a.Point.Time.Equal(b.Point.Time)
	a.Point.Time, b.Point.Time = time.Time{}, time.Time{}
	return eq && a == b
}

func TestParseErrors(t *testing.T) {
	for in, part := range map[string]string{
		"":                            "empty",
		"@":                           "nothing follows",
		"main@":                       "nothing follows",
		"-x":                          "begin with '-'",
		"a/b":                         "'/'",
		"a\x00b":                      `\x00`,
		".wsfs":                       "reserved",
		"a b":                         "' '",
		"\xff":                        "UTF-8",
		strings.Repeat("x", 129):      "129 bytes",
		"main@5x":                     `unknown unit "x"`,
		"main@5m3":                    "lacks a unit",
		"main@99999999999999999999":   "too large",
		"main@99999999999999999999m":  "200 years",
		"main@9223372036854775807":    "too large",
		"main@-5m":                    "begin with '-'",
		"main@2026-13-45":             "is no time",
		"main@2026-11-29T25:00:00Z":   "is no time",
		"main@0001-01-01T00:00:00Z":   "out of range",
		"main@c0":                     "no command",
		"main@c99999999999999999999+": "no command",
		"main@a@b":                    "'@'",
		"main@tag+":                   "'+'",
		"main@_x":                     "begins with a letter",
		"main@ta\ng":                  `'\n'`,
		"main:path":                   "':'",
	} {
		_, err := Parse(in, nil)
		var re *RevisionError
		if !errors.As(err, &re) || !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), part) {
			t.Errorf("Parse(%q): %v; want a *RevisionError with %q", in, err, part)
		}
	}
}

func TestParseHere(t *testing.T) {
	for in, want := range map[string]Revision{
		"5m":      {"", Point{Kind: AtAge, Age: 5 * time.Minute}},
		"17":      {"", Point{Kind: AtSeq, Seq: 17}},
		"c3+":     {"", Point{Kind: AfterCommand, Command: 3}},
		"@v1":     {"", Point{Kind: AtTag, Tag: "v1"}},
		"main":    {"main", Point{}},
		"main@7":  {"main", Point{Kind: AtSeq, Seq: 7}},
		"3d-plan": {"3d-plan", Point{}},
	} {
		if got, err := ParseHere(in, nil); err != nil || got != want {
			t.Errorf("ParseHere(%q) = %+v, %v; want %+v", in, got, err, want)
		}
	}
}

func TestParseSpec(t *testing.T) {
	age := Point{Kind: AtAge, Age: 5 * time.Minute}
	at := Point{Kind: AtTime, Time: time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)}
	for in, want := range map[string]Spec{
		"f":                                {Path: "f"},
		"a/b@5m":                           {Revision: Revision{Point: age}, Path: "a/b"},
		"user@host@5m":                     {Revision: Revision{Point: age}, Path: "user@host"},
		"main@5m:a/b":                      {Revision{"main", age}, "a/b", true},
		"main@5m:":                         {Revision{"main", age}, "", true},
		"main@5m:/a@b:c":                   {Revision{"main", age}, "/a@b:c", true},
		"main:a":                           {Revision{Workspace: "main"}, "a", true},
		"./main:a":                         {Path: "./main:a"},
		"./main@x:a@5m":                    {Revision: Revision{Point: age}, Path: "./main@x:a"},
		"main@2026-11-29T10:00:00Z:x":      {Revision{"main", at}, "x", true},
		"main@2026-11-29T12:00:00+02:00:x": {Revision{"main", at}, "x", true},
		"main@2026-11-29T10:00:12:34":      {Revision{"main", Point{Kind: AtTime, Time: at.Time.Add(12 * time.Second)}}, "34", true},
		"x@2026-11-29T10:00:00Z":           {Revision: Revision{Point: at}, Path: "x"},
		"a@b/c:d":                          {Path: "a@b/c:d"},
		"node_modules/@scope/x":            {Path: "node_modules/@scope/x"},
		"node_modules/@scope/x@5m":         {Revision: Revision{Point: age}, Path: "node_modules/@scope/x"},
	} {
		got, err := ParseSpec(in, nil)
		if err != nil || !same(got.Revision, want.Revision) || got.Path != want.Path || got.Rooted != want.Rooted {
			t.Errorf("ParseSpec(%q) = %+v, %v; want %+v", in, got, err, want)
		}
	}
	for _, in := range []string{"@5m", "a\x00", "main@5x:f", "f@", strings.Repeat("x", 5000), strings.Repeat("x/", 2048)} {
		if got, err := ParseSpec(in, nil); err == nil {
			t.Errorf("ParseSpec(%.20q) = %+v; want an error", in, got)
		}
	}
}

func TestNames(t *testing.T) {
	for _, good := range []string{"main", "a.b", "1234", "5m", "wsfs", "ünï-Ω_1", ".hidden", "WS.rescued-1"} {
		if err := CheckWorkspaceName(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"c12", "c1+", "5m", "2026-11-29", "12", "", "-a", "a:b"} {
		if CheckTagName(bad) == nil {
			t.Errorf("tag %q was accepted", bad)
		}
	}
	if got := near("mian", []string{"other", "main", "mine", "maintenance"}); len(got) == 0 || got[0] != "mine" && got[0] != "main" {
		t.Errorf("near = %q", got)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"main", "main@5m", "main@c1+", "main@2026-11-29T10:00:00Z:a/b", "a@b@1h30m", "x:y", "@", "m@1w2d3h4m5s6ms:", "\xff@3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if r, err := Parse(s, nil); err == nil {
			again, err := Parse(r.String(), nil)
			if err != nil || !same(again, r) {
				t.Fatalf("%q -> %q -> %+v, %v; want %+v", s, r, again, err, r)
			}
		}
		if sp, err := ParseSpec(s, nil); err == nil {
			again, err := ParseSpec(sp.String(), nil)
			if err != nil || !same(again.Revision, sp.Revision) || again.Path != sp.Path || again.Rooted != sp.Rooted {
				t.Fatalf("%q -> %q -> %+v, %v; want %+v", s, sp, again, err, sp)
			}
		}
	})
}
