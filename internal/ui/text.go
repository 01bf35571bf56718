package ui

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
)

// Name is a file name or path that is safe to print and can be pasted into a shell when it looks quoted: as it is if
// it holds nothing odd, else in $'...' form. Blanks inside are not odd, at the ends they are.
func Name(s string) string {
	if s == "" || !printable(s) || s != strings.TrimSpace(s) {
		return dollarQuote(s)
	}
	return s
}

func printable(s string) bool {
	if !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		// IsPrint also refuses the characters that turn the direction of writing.
		if r != ' ' && !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}

// dollarQuote writes s as a shell's $'...'. What is UTF-8 and printable stays readable.
func dollarQuote(s string) string {
	if s == "" {
		return "''"
	}
	var b strings.Builder
	b.WriteString("$'")
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == '\'' || r == '\\':
			b.WriteByte('\\')
			b.WriteByte(s[0])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == utf8.RuneError && n == 1, r != ' ' && !unicode.IsPrint(r):
			for i := range n {
				fmt.Fprintf(&b, `\x%02x`, s[i])
			}
			// A hex digit behind \xNN is not read as a part of it by bash, zsh and ksh: two digits at most.
		default:
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	b.WriteByte('\'')
	return b.String()
}

const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-"

// Quote is one argument as a shell would take it.
func Quote(s string) string {
	switch {
	case s == "":
		return "''"
	case strings.Trim(s, plain) == "":
		return s
	case !printable(s):
		return dollarQuote(s)
	case !strings.Contains(s, "'"):
		return "'" + s + "'"
	case !strings.ContainsAny(s, "\"$`\\!"):
		return `"` + s + `"`
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// Command is a command line of arguments joined by NUL, as /proc/PID/cmdline has it, as a shell would take it.
func Command(argv string) string {
	if argv == "" {
		return ""
	}
	if title, rest, ok := strings.Cut(argv, "\x00"); ok && strings.Contains(title, " ") && strings.Trim(rest, "\x00") == "" && printable(title) {
		return title // a program that wrote a title over its arguments, as npm does
	}
	args := strings.Split(strings.TrimSuffix(argv, "\x00"), "\x00")
	for i, a := range args {
		args[i] = Quote(a)
	}
	return strings.Join(args, " ")
}

// Cut shortens s to width columns, with an ellipsis; 0 means unlimited.
func Cut(s string, width int) string {
	if width <= 0 || columns(s) <= width {
		return s
	}
	if dots := runewidth.StringWidth("…"); ascii(s) && width > dots {
		return s[:width-dots] + "…"
	}
	return runewidth.Truncate(s, width, "…")
}

// columns is runewidth.StringWidth, which looks for clusters of characters where there cannot be any.
func columns(s string) int {
	if ascii(s) {
		return len(s)
	}
	return runewidth.StringWidth(s)
}

// ascii reports whether every byte of s is a character that takes one column.
func ascii(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// Ago says how long before now t was, in words.
func Ago(now, t time.Time) string {
	d := now.Sub(t)
	unit := func(n int64, name string) string {
		if n == 1 {
			return "1 " + name + " ago"
		}
		return fmt.Sprintf("%d %ss ago", n, name)
	}
	switch {
	case d < -time.Minute:
		return "in the future"
	case d < 2*time.Second:
		return "just now"
	case d < 2*time.Minute:
		return unit(int64(d/time.Second), "second")
	case d < 2*time.Hour:
		return unit(int64(d/time.Minute), "minute")
	case d < 48*time.Hour:
		return unit(int64(d/time.Hour), "hour")
	case d < 60*24*time.Hour:
		return unit(int64(d/(24*time.Hour)), "day")
	case d < 2*365*24*time.Hour:
		return unit(int64(d/(30*24*time.Hour)), "month")
	}
	return unit(int64(d/(365*24*time.Hour)), "year")
}

// Time is t in words on a terminal, else as a date that sorts.
func (o *Out) Time(t time.Time) string {
	if o.Terminal {
		return Ago(o.Now, t)
	}
	return t.Format("2006-01-02T15:04:05.000Z07:00")
}

// Bytes is a size for people.
func Bytes(n int64) string {
	const units = "KMGTPE"
	if n < 1024 && n > -1024 {
		return fmt.Sprintf("%d B", n)
	}
	v := float64(n)
	i := -1
	for v >= 1023.95 || v <= -1023.95 {
		v /= 1024
		i++
	}
	return fmt.Sprintf("%.1f %ciB", v, units[i])
}

// Count is a number with thousands separated.
func Count(n int64) string {
	s := fmt.Sprint(n)
	sign := ""
	if n < 0 {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// Plural is "1 file" or "2 files".
func Plural(n int64, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return Count(n) + " " + one + "s"
}

// Width is the number of columns that s takes; styles take none.
func Width(s string) int {
	n := 0
	for s != "" {
		plain, rest, styled := strings.Cut(s, "\x1b[")
		n += columns(plain)
		if !styled {
			break
		}
		_, s, _ = strings.Cut(rest, "m")
	}
	return n
}

// Visible replaces what a terminal would act on: ^[ for an escape, \x9b for a byte that is no text.
func Visible(s string) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) && r != '\t' }) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case r < ' ' && r != '\t':
			b.WriteString("^" + string(r+'@'))
		case unicode.IsControl(r) && r != '\t':
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}
