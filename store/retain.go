package store

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Retention is what is kept of the history. The zero value keeps all of it. What a tag, a fork or a pin names is kept
// besides, and so is the present of every workspace.
type Retention struct {
	// Tiers say what is kept by age, the youngest first. Age counts from the event, up to For of each tier; For 0 is without
	// end, and only the last may have it. What is older than the last tier goes. No tiers: all is kept.
	Tiers []Tier
	// Dropped is for how long a dropped workspace can be brought back; 0 means the default, negative: for ever.
	Dropped time.Duration
	// Cap is how many bytes the store may have before history goes although the tiers keep it, the oldest first; 0: any number.
	Cap int64
	// Removals is for how long it is kept that something was removed, and by whom, though the states of then are not; 0: as these,
	// negative: for ever. `log PATH` tells of it.
	Removals time.Duration
}

// Tier keeps the newest state of every stretch of Every, or all states if that is 0, up to the age For.
type Tier struct {
	Every, For time.Duration
}

// DroppedFor is for how long a dropped workspace can be brought back if nothing else is said.
const DroppedFor = 30 * 24 * time.Hour

// day and week are the units that time.Duration has no name for.
const (
	day  = 24 * time.Hour
	week = 7 * day
)

// Recover is for how long a dropped workspace can be brought back.
func (r *Retention) Recover() time.Duration {
	switch {
	case r.Dropped == 0:
		return DroppedFor
	case r.Dropped < 0:
		return math.MaxInt64
	}
	return r.Dropped
}

// Limited reports whether anything but dropped workspaces would ever be collected.
func (r *Retention) Limited() bool { return len(r.Tiers) > 0 || r.Cap > 0 }

// ParseRetention reads a policy as String writes it: `all`, or `all for 7d, then one per hour for 30d, then one per day`, and
// after that, separated by a semicolon, `dropped for 14d`, `removals for 1y` and `at most 20GiB`. An age is a number and s, min, h, d, w or y.
func ParseRetention(text string) (Retention, error) {
	var r Retention
	bad := func(format string, args ...any) (Retention, error) {
		return Retention{}, fmt.Errorf("retention %q: %s; write for example `all for 7d, then one per hour for 30d, then one per day; "+
			"dropped for 30d; at most 20GiB`: %w", text, fmt.Sprintf(format, args...), syscall.EINVAL)
	}
	for i, part := range strings.Split(text, ";") {
		part = strings.TrimSpace(part)
		w := strings.Fields(part)
		switch {
		case i > 0 && len(w) == 3 && w[0] == "dropped" && w[1] == "for":
			if w[2] == "ever" {
				r.Dropped = -1
				continue
			}
			d, err := ParseAge(w[2])
			if err != nil || d == 0 {
				return bad("%q is no time", w[2])
			}
			r.Dropped = d
		case i > 0 && len(w) == 3 && w[0] == "removals" && w[1] == "for":
			if w[2] == "ever" {
				r.Removals = -1
				continue
			}
			d, err := ParseAge(w[2])
			if err != nil || d == 0 {
				return bad("%q is no time", w[2])
			}
			r.Removals = d
		case i > 0 && len(w) == 3 && w[0] == "at" && w[1] == "most":
			n, err := parseBytes(w[2])
			if err != nil {
				return bad("%q is no number of bytes", w[2])
			}
			r.Cap = n
		case i > 0:
			return bad("what does %q mean", part)
		case part == "all":
		default:
			for j, t := range strings.Split(part, ",") {
				tier, err := parseTier(strings.TrimPrefix(strings.TrimSpace(t), "then "))
				if err != nil {
					return bad("%v", err)
				}
				if j > 0 {
					last := r.Tiers[j-1]
					if last.For == 0 || tier.For != 0 && tier.For <= last.For {
						return bad("each part must reach further back than the one before")
					}
					if tier.Every <= last.Every {
						return bad("each part must keep less than the one before")
					}
				}
				r.Tiers = append(r.Tiers, tier)
			}
			if len(r.Tiers) == 1 && r.Tiers[0] == (Tier{}) {
				r.Tiers = nil
			}
		}
	}
	return r, nil
}

func parseTier(text string) (Tier, error) {
	var t Tier
	what, age, limited := strings.Cut(text, " for ")
	if limited {
		d, err := ParseAge(strings.TrimSpace(age))
		if err != nil || d == 0 {
			return t, fmt.Errorf("%q is no age", age)
		}
		t.For = d
	}
	w := strings.Fields(what)
	switch {
	case len(w) == 1 && w[0] == "all":
		return t, nil
	case len(w) == 1 && w[0] == "none" && !limited:
		return t, fmt.Errorf("what is older than the last part goes anyway; leave %q out", what)
	case len(w) == 3 && w[0] == "one" && w[1] == "per":
		switch w[2] {
		case "minute":
			t.Every = time.Minute
		case "hour":
			t.Every = time.Hour
		case "day":
			t.Every = day
		case "week":
			t.Every = week
		default:
			d, err := ParseAge(w[2])
			if err != nil || d == 0 {
				return t, fmt.Errorf("%q is no stretch of time", w[2])
			}
			t.Every = d
		}
		return t, nil
	}
	return t, fmt.Errorf("what does %q mean", text)
}

// ageUnits are the units of ages, the longest first.
func ageUnits() []struct {
	Name string
	Of   time.Duration
} {
	return []struct {
		Name string
		Of   time.Duration
	}{{"y", 365 * day}, {"w", week}, {"d", day}, {"h", time.Hour}, {"min", time.Minute}, {"s", time.Second}}
}

// ParseAge reads a whole number and a unit: 90s, 10min, 12h, 7d, 2w, 1y.
func ParseAge(text string) (time.Duration, error) {
	n := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyz")
	v, err := strconv.ParseInt(n, 10, 64)
	if err == nil && v == 0 && n == text {
		return 0, nil
	}
	for _, u := range ageUnits() {
		if err == nil && text[len(n):] == u.Name && v >= 0 && v <= math.MaxInt64/int64(u.Of) {
			return time.Duration(v) * u.Of, nil
		}
	}
	return 0, fmt.Errorf("%q is no age such as 90s, 10min, 12h, 7d, 2w or 1y: %w", text, syscall.EINVAL)
}

func formatAge(d time.Duration) string {
	for _, u := range ageUnits() {
		if u.Name != "y" && u.Name != "w" && d%u.Of == 0 || d%u.Of == 0 && d >= u.Of && u.Name == "y" {
			return strconv.FormatInt(int64(d/u.Of), 10) + u.Name
		}
	}
	return strconv.FormatInt(int64(d/time.Second), 10) + "s"
}

func parseBytes(text string) (int64, error) {
	n := strings.TrimRight(text, "KMGTiB")
	v, err := strconv.ParseInt(n, 10, 64)
	shift := map[string]uint{"": 0, "B": 0, "KiB": 10, "K": 10, "MiB": 20, "M": 20, "GiB": 30, "G": 30, "TiB": 40, "T": 40}
	s, ok := shift[text[len(n):]]
	if err != nil || !ok || v <= 0 || v > math.MaxInt64>>s {
		return 0, fmt.Errorf("%q is no number of bytes: %w", text, syscall.EINVAL)
	}
	return v << s, nil
}

func formatBytes(n int64) string {
	for _, u := range []struct {
		name  string
		shift uint
	}{{"TiB", 40}, {"GiB", 30}, {"MiB", 20}, {"KiB", 10}} {
		if n%(1<<u.shift) == 0 {
			return strconv.FormatInt(n>>u.shift, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10) + "B"
}

// String writes the policy so that ParseRetention reads the same.
func (r Retention) String() string {
	parts := make([]string, 0, len(r.Tiers))
	for i, t := range r.Tiers {
		s := "all"
		switch t.Every {
		case 0:
		case time.Minute:
			s = "one per minute"
		case time.Hour:
			s = "one per hour"
		case day:
			s = "one per day"
		case week:
			s = "one per week"
		default:
			s = "one per " + formatAge(t.Every)
		}
		if t.For != 0 {
			s += " for " + formatAge(t.For)
		}
		if i > 0 {
			s = "then " + s
		}
		parts = append(parts, s)
	}
	if len(parts) == 0 {
		parts = []string{"all"}
	}
	out := strings.Join(parts, ", ")
	switch {
	case r.Dropped < 0:
		out += "; dropped for ever"
	case r.Dropped > 0:
		out += "; dropped for " + formatAge(r.Dropped)
	}
	switch {
	case r.Removals < 0:
		out += "; removals for ever"
	case r.Removals > 0:
		out += "; removals for " + formatAge(r.Removals)
	}
	if r.Cap > 0 {
		out += "; at most " + formatBytes(r.Cap)
	}
	return out
}

const settingRetention = "retention"

// Retention is the store's policy.
func (s *Store) Retention(ctx context.Context) (Retention, error) {
	text, err := setting(ctx, s.r, settingRetention)
	if err != nil {
		return Retention{}, s.dbError("read what is kept of the history", err)
	}
	if text == "" {
		return Retention{}, nil
	}
	return ParseRetention(text)
}

// SetRetention changes the store's policy, durably. Nothing is collected by that.
func (s *Store) SetRetention(ctx context.Context, r Retention) error {
	if s.w == nil {
		return errReadOnly("set what is kept of the history")
	}
	err := s.w.tx(ctx, func(ctx context.Context) error { return setSetting(ctx, s.w, settingRetention, r.String()) })
	if err == nil {
		err = s.commitDurably(ctx)
	}
	return s.dbError("set what is kept of the history", err)
}

// setting is a row of table setting, "" if there is none.
func setting(ctx context.Context, q querier, name string) (string, error) {
	var v string
	_, err := scanAll(ctx, q, 1, `SELECT value FROM setting WHERE name = ?`, []any{name}, func(c *cells) error {
		v = c.string(0)
		return nil
	})
	return v, err
}

func setSetting(ctx context.Context, w *writer, name, value string) error {
	_, err := w.exec(ctx, `INSERT INTO setting (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value`, name, value)
	return err
}
