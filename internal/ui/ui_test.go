package ui

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/mattn/go-runewidth"
)

func TestName(t *testing.T) {
	for in, want := range map[string]string{
		"plain.txt":       "plain.txt",
		"a b":             "a b",
		"ünï/日本":          "ünï/日本",
		"":                "''",
		" lead":           `$' lead'`,
		"a\nb":            `$'a\nb'`,
		"\x1b[31mred":     `$'\x1b[31mred'`,
		"\xff\xfe":        `$'\xff\xfe'`,
		"it's\t":          `$'it\'s\t'`,
		"back\\slash\x01": `$'back\\slash\x01'`,
		"\u202egnp.exe":   `$'\xe2\x80\xaegnp.exe'`,
		"back\\slash":     "back\\slash",
		"emoji 🙂":         "emoji 🙂",
	} {
		if got := Name(in); got != want {
			t.Errorf("Name(%q) = %s, want %s", in, got, want)
		}
	}
}

// What is quoted for a shell is read back by one.
func TestQuoteRoundTrip(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash to read the quotes: ", err)
	}
	for _, s := range []string{
		"", "plain", "a b", "it's", `say "hi"`, `it's "both"`, "$HOME `id` !x", "a\nb\tc\r", "\x01\x7f", "\xff\xfe7", "-n", "~", "*", "#x", "{a,b}", "ü",
		"'", `\`, `\'`,
	} {
		out, err := exec.Command(bash, "-c", "printf %s "+Quote(s)).Output()
		if err != nil || string(out) != s {
			t.Errorf("Quote(%q) = %s, read back as %q, %v", s, Quote(s), out, err)
		}
	}
}

func TestCommand(t *testing.T) {
	if got := Command("git\x00commit\x00-m\x00two words\x00"); got != "git commit -m 'two words'" {
		t.Error(got)
	}
	if got := Command("npm install x\x00\x00\x00\x00"); got != "npm install x" {
		t.Error(got)
	}
	if got := Command("echo\x00\x00"); got != "echo ''" {
		t.Error(got)
	}
	if got := Command(""); got != "" {
		t.Error(got)
	}
}

func TestNumbers(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 1 << 20: "1.0 MiB", 1<<20 - 1: "1.0 MiB", -2048: "-2.0 KiB", 1 << 62: "4.0 EiB"} {
		if got := Bytes(n); got != want {
			t.Errorf("Bytes(%d) = %s, want %s", n, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567"} {
		if got := Count(n); got != want {
			t.Errorf("Count(%d) = %s, want %s", n, got, want)
		}
	}
	if Plural(1, "file") != "1 file" || Plural(2000, "file") != "2,000 files" {
		t.Error("Plural")
	}
}

func TestAgo(t *testing.T) {
	now := time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)
	for d, want := range map[time.Duration]string{
		0: "just now", 45 * time.Second: "45 seconds ago", 5 * time.Minute: "5 minutes ago", 3 * time.Hour: "3 hours ago",
		50 * time.Hour: "2 days ago", 100 * 24 * time.Hour: "3 months ago", 1000 * 24 * time.Hour: "2 years ago", -time.Hour: "in the future",
	} {
		if got := Ago(now, now.Add(-d)); got != want {
			t.Errorf("Ago(%v) = %s, want %s", d, got, want)
		}
	}
}

func TestTable(t *testing.T) {
	var b bytes.Buffer
	o := &Out{W: &b}
	tab := o.NewTable("NAME", ">SEQ", "LAST")
	tab.Row("日本", "7", "x")
	tab.Row("a", "1234", "")
	tab.Print()
	if err := o.Flush(); err != nil {
		t.Fatal(err)
	}
	want := "NAME   SEQ  LAST\n日本     7  x\na     1234\n"
	if b.String() != want {
		t.Errorf("table:\n%swant:\n%s", b.String(), want)
	}
}

// Without a terminal no escape sequence is ever written.
func TestNoColours(t *testing.T) {
	plain, coloured := &Out{}, &Out{Color: true}
	if plain.Styled("x", Red) != "x" || !strings.Contains(coloured.Styled("x", Red), "\x1b[31mx\x1b[0m") {
		t.Error("Styled")
	}
	if Width(coloured.Styled("日本", Bold)) != 4 {
		t.Error("Width counts styles")
	}
	for _, s := range []string{"", "a", "abcdef ~!", "tab\tin", "esc\x1b", "日本語", "caf\u00e9", "\u0301", "a\u0301b", "\xff\xfe", "🇩🇪 ok"} {
		if got, want := columns(s), runewidth.StringWidth(s); got != want {
			t.Errorf("%q takes %d columns, want %d", s, got, want)
		}
		for width := 1; width < 12; width++ {
			want := s
			if runewidth.StringWidth(s) > width {
				want = runewidth.Truncate(s, width, "…")
			}
			if got := Cut(s, width); got != want {
				t.Errorf("%q cut to %d is %q, want %q", s, width, got, want)
			}
		}
	}
	if Cut("abcdef", 4) != "abc…" || Cut("abc", 0) != "abc" {
		t.Error("Cut")
	}
}

func TestJSON(t *testing.T) {
	var b bytes.Buffer
	o := &Out{W: &b}
	text, b64 := Text("a<b>\xff")
	if err := o.JSON(map[string]string{"text": text, "base64": b64}); err != nil {
		t.Fatal(err)
	}
	if err := o.Flush(); err != nil {
		t.Fatal(err)
	}
	if strings.Count(b.String(), "\n") != 1 || !json.Valid(b.Bytes()) || !strings.Contains(b.String(), "a<b>") || b64 == "" {
		t.Errorf("%q", b.String())
	}
	if Stamp(0) != "" || Stamp(1) != "1970-01-01T00:00:00.000000001Z" {
		t.Error("Stamp")
	}
}

func FuzzQuote(f *testing.F) {
	f.Add("it's \xff\n")
	f.Fuzz(func(t *testing.T, s string) {
		for _, q := range []string{Quote(s), Name(s)} {
			if !printable(q) {
				t.Fatalf("%q is printed as %q", s, q)
			}
		}
	})
}

func TestProgress(t *testing.T) {
	var b bytes.Buffer
	p := NewProgress(&b, true, "import")
	for i := range int64(100) {
		p.Set(i, 100, "some note")
	}
	p.Close()
	p.Set(1, 2, "late") // after Close nothing happens
	p.Close()
	quiet := NewProgress(&b, false, "import")
	n := b.Len()
	quiet.Set(1, 2, "")
	quiet.Close()
	if b.Len() != n {
		t.Error("a bar was drawn where no terminal is")
	}
}
