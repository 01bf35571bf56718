package proc

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"
)

const statLine = "4242 (a) b (c\n) S 41 40 39 1025 -1 4194368 101 0 0 0 0 0 0 0 20 0 1 0 131580 3133440 414 " +
	"18446744073709551615 1 2 140734544391568 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 1 2 3 4 5 6 7 0\n"

func TestParseStat(t *testing.T) {
	got, err := parseStat([]byte(statLine))
	if err != nil {
		t.Fatal(err)
	}
	want := stat{
		pid: 4242, comm: "a) b (c\n", state: 'S', ppid: 41, sid: 39, tty: 1025, flags: 4194368, start: 131580,
		stack: 140734544391568,
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got.exiting() || got.flags&flagForkNoExec == 0 {
		t.Errorf("flags %#x: want forked without exec, not exiting", got.flags)
	}
	for cut := range len(statLine) - 120 {
		if _, err := parseStat([]byte(statLine[:cut])); !errors.Is(err, errMalformed) {
			t.Errorf("first %d bytes: error %v, want malformed", cut, err)
		}
	}
	negative := strings.Replace(statLine, " 41 40 39 1025 ", " -1 -1 -1 0 ", 1)
	if got, err = parseStat([]byte(negative)); err != nil || got.ppid != 0 || got.sid != 0 {
		t.Errorf("negative ids: %+v, %v; want zeros", got, err)
	}
}

func TestParseOwnFiles(t *testing.T) {
	line, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		t.Fatal(err)
	}
	st, err := parseStat(line)
	if err != nil || st.pid != os.Getpid() || st.ppid != os.Getppid() {
		t.Errorf("own stat: %+v, %v", st, err)
	}
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	su, err := parseStatus(text)
	if err != nil || su.tgid != os.Getpid() || int(su.uid) != os.Getuid() {
		t.Errorf("own status: %+v, %v", su, err)
	}
}

func TestParseStatus(t *testing.T) {
	for text, want := range map[string]status{
		"Name:\tTgid: 7\nTgid:\t12\nUid:\t1000\t0\t0\t0\n": {12, 1000},
		"Uid:\t4294967295 1 1 1\nTgid: 3":                  {3, 4294967295},
	} {
		if got, err := parseStatus([]byte(text)); err != nil || got != want {
			t.Errorf("%q: %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "Tgid: 4\n", "Uid: 1\n", "Tgid: 0\nUid: 1\n", "Tgid: x\nUid: 1\n", "Tgid: 1\nUid: -1\n"} {
		if got, err := parseStatus([]byte(text)); !errors.Is(err, errMalformed) {
			t.Errorf("%q: %+v, %v; want malformed", text, got, err)
		}
	}
}

func TestParseArgv(t *testing.T) {
	long := bytes.Repeat([]byte("x"), MaxArgv+1)
	for _, c := range []struct{ in, want string }{
		{"", ""}, {"a\x00", "a"}, {"a\x00b\x00", "a\x00b"}, {"a\x00\x00", "a\x00"}, {"title without end", "title without end"},
		{string(long), string(long[:MaxArgv])}, {string(long[:MaxArgv-1]) + "\x00", string(long[:MaxArgv-1])},
		{string(long[:MaxArgv]) + "\x00", string(long[:MaxArgv])},
	} {
		if got := parseArgv([]byte(c.in)); got != c.want {
			t.Errorf("%.20q: got %.20q (%d bytes), want %.20q", c.in, got, len(got), c.want)
		}
	}
}

func TestFindVariable(t *testing.T) {
	long := strings.Repeat("v", 300)
	for env, want := range map[string]string{
		"":                                   "",
		"V=1\x00":                            "1",
		"A=2\x00V=1\x00B=3\x00":              "1",
		"A=2\x00V=1":                         "1",
		"AV=0\x00V1=0\x00VV=0\x00V=1\x00":    "1",
		"V\x00V=1\x00":                       "1",
		"V=\x00V=2\x00":                      "",
		"V=1\x00V=2\x00":                     "1",
		"\x00\x00V=1\x00":                    "1",
		"V=a=b\x00":                          "a=b",
		"A=V=no\x00":                         "",
		"V=" + long + "\x00A=1\x00":          long[:maxSessionName],
		"A=" + long + "\x00V=1\x00":          "1",
		"A=" + long + long + "\nV=1\x00\x00": "",
	} {
		for _, size := range []int{1, 2, 3, 7, 4096} {
			for name, r := range map[string]io.Reader{
				"whole": strings.NewReader(env), "single bytes": iotest.OneByteReader(strings.NewReader(env)),
				"end with data": iotest.DataErrReader(strings.NewReader(env)),
			} {
				buf := make([]byte, size)
				got, _, err := findVariable(r, "V", buf)
				if err != nil || got != want {
					t.Errorf("%.30q, buffer of %d, %s: got %.20q, %v; want %.20q", env, size, name, got, err, want)
				}
				if len(bytes.Trim(buf, "\x00")) != 0 {
					t.Errorf("%.30q: the environment is still in the buffer: %q", env, buf)
				}
			}
		}
	}
	broken := errors.New("broken")
	r := io.MultiReader(strings.NewReader("A=1\x00"), iotest.ErrReader(broken))
	if _, _, err := findVariable(r, "V", make([]byte, 8)); !errors.Is(err, broken) {
		t.Errorf("error %v, want the reader's", err)
	}
}

// naiveVariable is findVariable as one would write it with the whole environment in memory.
func naiveVariable(env, name string) string {
	for s := range strings.SplitSeq(env, "\x00") {
		if v, ok := strings.CutPrefix(s, name+"="); ok {
			return v[:min(len(v), maxSessionName)]
		}
	}
	return ""
}

func FuzzFindVariable(f *testing.F) {
	f.Add("A=2\x00V=1\x00B=3\x00", 3)
	f.Add("V\x00VV=1\x00V=", 1)
	f.Fuzz(func(t *testing.T, env string, size int) {
		size = 1 + (size&0xffff)%64
		got, _, err := findVariable(strings.NewReader(env), "V", make([]byte, size))
		if want := naiveVariable(env, "V"); err != nil || got != want {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
	})
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte(statLine))
	f.Add([]byte("1 () S"))
	f.Fuzz(func(t *testing.T, line []byte) {
		if s, err := parseStat(line); err == nil && (s.pid <= 0 || s.ppid < 0 || s.sid < 0 || !bytes.Contains(line, []byte(s.comm))) {
			t.Errorf("accepted as %+v", s)
		}
	})
}

func FuzzParseStatus(f *testing.F) {
	f.Add([]byte("Tgid:\t12\nUid:\t1000\t0\t0\t0\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if s, err := parseStatus(text); err == nil && s.tgid <= 0 {
			t.Errorf("accepted as %+v", s)
		}
	})
}

func FuzzParseArgv(f *testing.F) {
	f.Add([]byte("a\x00b\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if got := parseArgv(b); len(got) > MaxArgv || !bytes.HasPrefix(b, []byte(got)) {
			t.Errorf("%d bytes, or not the start", len(got))
		}
	})
}
