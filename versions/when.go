package versions

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// units of an age, largest first: formatAge takes them in this order.
var units = []struct {
	name string
	d    time.Duration
}{
	{"w", 7 * 24 * time.Hour},
	{"d", 24 * time.Hour},
	{"h", time.Hour},
	{"m", time.Minute},
	{"s", time.Second},
	{"ms", time.Millisecond},
}

const maxAge = 200 * 365 * 24 * time.Hour

// parseAge reads 5m, 1h30m, 2d, 1w: whole numbers with the units w, d, h, m, s and ms.
func parseAge(s string) (time.Duration, error) {
	var sum time.Duration
	for rest := s; rest != ""; {
		n := 0
		for n < len(rest) && rest[n] >= '0' && rest[n] <= '9' {
			n++
		}
		u := n
		for u < len(rest) && (rest[u] < '0' || rest[u] > '9') {
			u++
		}
		if n == 0 {
			return 0, fmt.Errorf("the age %s lacks a number before %s", quote(s), quote(rest))
		}
		num, err := strconv.ParseInt(rest[:n], 10, 64)
		unit := unitOf(rest[n:u])
		switch {
		case n == u:
			return 0, fmt.Errorf("the age %s lacks a unit behind %s (use s, m, h, d or w, as in 5m)", quote(s), rest[:n])
		case unit == 0:
			return 0, fmt.Errorf("unknown unit %s in the age %s (use s, m, h, d or w, as in 5m)", quote(rest[n:u]), quote(s))
		case err != nil || num > int64(maxAge/unit) || sum > maxAge-time.Duration(num)*unit:
			return 0, fmt.Errorf("the age %s is longer than 200 years", quote(s))
		}
		sum += time.Duration(num) * unit
		rest = rest[u:]
	}
	return sum, nil
}

func unitOf(name string) time.Duration {
	for _, u := range units {
		if u.name == name {
			return u.d
		}
	}
	return 0
}

func formatAge(d time.Duration) string {
	var b strings.Builder
	for _, u := range units {
		if n := d / u.d; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, u.name)
			d -= n * u.d
		}
	}
	if b.Len() == 0 {
		return "0s"
	}
	return b.String()
}

// looksLikeDate reports whether s begins as 2026-11-29 does: whatever follows is then read as a time.
func looksLikeDate(s string) bool {
	return len(s) >= 5 && isDigits(s[:4]) && s[4] == '-'
}

// The accepted forms; those without a zone are local to the caller.
var timeForms = []string{
	"2006-01-02T15:04:05.999999999Z07:00",
	"2006-01-02T15:04Z07:00",
	"2006-01-02T15:04:05.999999999",
	"2006-01-02T15:04",
	"2006-01-02",
}

func parseTime(s string, loc *time.Location) (time.Time, error) {
	if loc == nil {
		loc = time.UTC
	}
	for _, form := range timeForms {
		t, err := time.ParseInLocation(form, s, loc)
		if err != nil {
			continue
		}
		// Beyond these years UnixNano overflows.
		if t.Year() < 1678 || t.Year() > 2261 {
			return time.Time{}, fmt.Errorf("the year of %s is out of range", s)
		}
		return t, nil
	}
	return time.Time{}, fmt.Errorf("%s is no time (write 2026-11-29T10:00:00Z, 2026-11-29T10:00 or 2026-11-29)", quote(s))
}

// timeLen is the length of the time that s begins with, up to where its form ends: a time holds colons, so the colon
// before a path cannot be found by looking for the first one.
func timeLen(s string) int {
	digits := func(i, n int) bool { return len(s) >= i+n && isDigits(s[i:i+n]) }
	if !looksLikeDate(s) {
		return 0
	}
	i := 10
	if len(s) < i {
		return len(s)
	}
	if len(s) == i || s[i] != 'T' {
		return i
	}
	i++
	for n := 0; n < 3 && digits(i, 2); n++ { // hh[:mm[:ss]]
		i += 2
		if n == 2 || i >= len(s) || s[i] != ':' || !digits(i+1, 2) {
			break
		}
		i++
	}
	if i < len(s) && (s[i] == '.' || s[i] == ',') {
		for i++; i < len(s) && s[i] >= '0' && s[i] <= '9'; i++ {
		}
	}
	switch {
	case i < len(s) && s[i] == 'Z':
		i++
	case i < len(s) && (s[i] == '+' || s[i] == '-') && digits(i+1, 2):
		i += 3
		if i < len(s) && s[i] == ':' && digits(i+1, 2) {
			i += 3
		}
	}
	return i
}
