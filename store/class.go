package store

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// PathClass says how long the bytes of a path's past are kept. It says nothing else: bytes that are shown now lie where all lie, forks have
// them, and names move as they like, whatever the class. It is decided when history is collected, and so costs a write nothing.
type PathClass string

// The classes.
const (
	// Versioned is everything that no other class is said for: kept as the policy says.
	Versioned PathClass = "versioned"
	// Short is a ring: the last versions of a path, or those of the last time.
	Short PathClass = "short"
	// Scratch can be made again: what a build or an installation wrote.
	Scratch PathClass = "scratch"
	// Secret is what should not stay: its past is kept for so long that a mistake can be undone, and never longer.
	Secret PathClass = "secret"
)

// ClassNames are the classes in the order in which they are shown.
func ClassNames() []PathClass { return []PathClass{Versioned, Short, Scratch, Secret} }

// ClassLimit is for how long a class keeps what is past. Age counts from when it was replaced or removed.
type ClassLimit struct {
	For      time.Duration // 0: no class limits it by age
	Versions int           // at most so many past versions of a path; 0: any number
}

// LeastClass is for how long the past of every class is kept at least, by what is set for good: long enough to take the last command
// back, a `rm -rf node_modules` say.
const LeastClass = time.Hour

// ClassRule gives the paths that a pattern matches a class.
type ClassRule struct {
	Class   PathClass
	Pattern string // as in a .gitignore, from the root of the workspace
}

// Classes are the rules. Of those that match a path, or a directory that it is in, the last decides.
type Classes struct {
	Limits map[PathClass]ClassLimit
	Rules  []ClassRule
}

// DefaultClasses are those of a store in which nothing else was said.
func DefaultClasses() Classes {
	c := Classes{Limits: map[PathClass]ClassLimit{
		Short: {For: day, Versions: 0}, Scratch: {For: LeastClass}, Secret: {For: day},
	}}
	for _, r := range []struct {
		class    PathClass
		patterns string
	}{
		{Scratch, "node_modules/ target/ __pycache__/ *.pyc .venv/ venv/ .tox/ .nox/ .gradle/ .next/cache/ .turbo/ .parcel-cache/ .ccls-cache/"},
		{Short, "*.log .cache/ .pytest_cache/ .mypy_cache/ .ruff_cache/ .nyc_output/ htmlcov/"},
		{Secret, ".env .env.* *.pem *.key *.p12 *.pfx *.kdbx id_rsa id_dsa id_ecdsa id_ed25519 .netrc .pgpass .aws/credentials"},
		{Versioned, ".env.example .env.sample .env.template"},
	} {
		for p := range strings.FieldsSeq(r.patterns) {
			c.Rules = append(c.Rules, ClassRule{r.class, p})
		}
	}
	return c
}

// Of is the class of a path: bytes, separated by '/'. dir: it is a directory.
func (c *Classes) Of(path string, dir bool) PathClass {
	for _, r := range slices.Backward(c.Rules) {
		if matchIgnore(r.Pattern, path, dir) {
			return r.Class
		}
	}
	return Versioned
}

// ofAny is the class of what has several paths, about: names that it had only for a moment count too.
func (c *Classes) ofAny(paths []heldPath) PathClass {
	best := Versioned
	for i, p := range paths {
		switch class := c.Of(p.path, false); {
		case class == Secret:
			return Secret
		case i == 0 || class == Versioned:
			best = class
		}
	}
	return best
}

// Limit is what a class keeps; ok is false if it keeps what the policy does.
func (c *Classes) Limit(class PathClass) (l ClassLimit, ok bool) {
	l = c.Limits[class]
	return l, l.For != 0 || l.Versions != 0
}

// Limited reports whether any class keeps less than the policy might.
func (c *Classes) Limited() bool {
	return slices.ContainsFunc(c.Rules, func(r ClassRule) bool { _, ok := c.Limit(r.Class); return ok })
}

// Set makes a pattern belong to a class; the last one set decides. It returns false if it does already.
func (c *Classes) Set(class PathClass, pattern string) bool {
	i := slices.IndexFunc(c.Rules, func(r ClassRule) bool { return r.Pattern == pattern })
	if i >= 0 && i == len(c.Rules)-1 && c.Rules[i].Class == class {
		return false
	}
	if i >= 0 {
		c.Rules = slices.Delete(c.Rules, i, i+1)
	}
	c.Rules = append(c.Rules, ClassRule{class, pattern})
	return true
}

// Unset takes the rule for a pattern away. It returns false if there is none.
func (c *Classes) Unset(pattern string) bool {
	n := len(c.Rules)
	c.Rules = slices.DeleteFunc(c.Rules, func(r ClassRule) bool { return r.Pattern == pattern })
	return len(c.Rules) < n
}

// String writes a limit so that ParseClassLimit reads the same.
func (l ClassLimit) String() string {
	var parts []string
	if l.For != 0 {
		parts = append(parts, "for "+formatAge(l.For))
	}
	if l.Versions != 0 {
		parts = append(parts, fmt.Sprintf("at most %d versions", l.Versions))
	}
	if len(parts) == 0 {
		return "for ever"
	}
	return strings.Join(parts, ", ")
}

// ParseClassLimit reads `for 24h`, `at most 10 versions`, or both with a comma between, or `for ever`: as the policy says.
func ParseClassLimit(text string) (ClassLimit, error) {
	var l ClassLimit
	for part := range strings.SplitSeq(text, ",") {
		w := strings.Fields(part)
		switch {
		case len(w) == 2 && w[0] == "for" && w[1] == "ever":
		case len(w) == 2 && w[0] == "for":
			d, err := ParseAge(w[1])
			if err != nil {
				return l, err
			}
			l.For = max(d, time.Nanosecond)
		case len(w) == 4 && w[0] == "at" && w[1] == "most" && strings.HasPrefix(w[3], "version"):
			n, err := strconv.Atoi(w[2])
			if err != nil || n < 1 {
				return l, fmt.Errorf("%q is no number of versions: %w", w[2], syscall.EINVAL)
			}
			l.Versions = n
		default:
			return l, fmt.Errorf("what does %q mean; write for example `for 24h, at most 10 versions`: %w", text, syscall.EINVAL)
		}
	}
	return l, nil
}

// ParseClassLimits reads limits for this time, as `scratch for 1s; secret for 1s`, into a copy of c.
func (c *Classes) ParseClassLimits(text string) (Classes, error) {
	out := c.clone()
	for part := range strings.SplitSeq(text, ";") {
		class, limit, _ := strings.Cut(strings.TrimSpace(part), " ")
		l, err := ParseClassLimit(limit)
		if err == nil {
			err = limitable(PathClass(class))
		}
		if err != nil {
			return out, err
		}
		out.Limits[PathClass(class)] = l
	}
	return out, nil
}

// limitable refuses names that are no class that can be limited.
func limitable(class PathClass) error {
	switch {
	case class == Versioned:
		return fmt.Errorf("what the class versioned keeps is said by `wsfs retain`: %w", syscall.EINVAL)
	case !slices.Contains(ClassNames(), class):
		return fmt.Errorf("there is no class %q, only versioned, short, scratch and secret: %w", class, syscall.EINVAL)
	}
	return nil
}

func (c *Classes) clone() Classes {
	out := Classes{Limits: make(map[PathClass]ClassLimit, len(c.Limits)), Rules: slices.Clone(c.Rules)}
	for k, v := range c.Limits {
		out.Limits[k] = v
	}
	return out
}

const settingClasses = "classes"

// text writes the rules for table setting: a line for each limit, then one for each rule.
func (c *Classes) text() string {
	var b strings.Builder
	for _, name := range ClassNames() {
		if l, ok := c.Limits[name]; ok {
			fmt.Fprintf(&b, "keep %s %s\n", name, l)
		}
	}
	for _, r := range c.Rules {
		fmt.Fprintf(&b, "rule %s %s\n", r.Class, r.Pattern)
	}
	return b.String()
}

func parseClasses(text string) (Classes, error) {
	c := Classes{Limits: map[PathClass]ClassLimit{}}
	for line := range strings.Lines(text) {
		w := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 3)
		if len(w) != 3 || !slices.Contains(ClassNames(), PathClass(w[1])) {
			return c, fmt.Errorf("setting %q: line %q: %w", settingClasses, line, ErrCorrupt)
		}
		if w[0] == "rule" {
			c.Rules = append(c.Rules, ClassRule{PathClass(w[1]), w[2]})
			continue
		}
		l, err := ParseClassLimit(w[2])
		if err != nil {
			return c, fmt.Errorf("setting %q: line %q: %w", settingClasses, line, ErrCorrupt)
		}
		c.Limits[PathClass(w[1])] = l
	}
	return c, nil
}

// Classes are the store's rules. own is false as long as nobody said any.
func (s *Store) Classes(ctx context.Context) (c Classes, own bool, err error) {
	text, err := setting(ctx, s.r, settingClasses)
	if err != nil {
		return c, false, s.dbError("read which paths have which class", err)
	}
	if text == "" {
		return DefaultClasses(), false, nil
	}
	c, err = parseClasses(text)
	return c, true, err
}

// SetClasses changes the store's rules, durably. nil: those that a new store has. Nothing is collected by that.
func (s *Store) SetClasses(ctx context.Context, c *Classes) error {
	const what = "set which paths have which class"
	if s.w == nil {
		return errReadOnly(what)
	}
	text := ""
	if c != nil {
		if err := c.check(); err != nil {
			return err
		}
		text = c.text()
	}
	err := s.w.tx(ctx, func(ctx context.Context) error {
		if text == "" {
			_, err := s.w.exec(ctx, `DELETE FROM setting WHERE name = ?`, settingClasses)
			return err
		}
		return setSetting(ctx, s.w, settingClasses, text)
	})
	if err == nil {
		err = s.commitDurably(ctx)
	}
	return s.dbError(what, err)
}

func (c *Classes) check() error {
	for _, r := range c.Rules {
		if err := checkPattern(r.Pattern); err != nil {
			return err
		}
	}
	for class, l := range c.Limits {
		if err := limitable(class); err != nil {
			return err
		}
		if l.For != 0 && l.For < LeastClass {
			return fmt.Errorf("class %s: %s is less than %s, and the last command could not be taken back (`wsfs gc --class` does it once): %w",
				class, formatAge(l.For), formatAge(LeastClass), syscall.EINVAL)
		}
	}
	return nil
}

// Limited reports whether somebody said what is to be kept, of all or of some class, so that it is collected without being asked.
func (s *Store) Limited(ctx context.Context) (bool, error) {
	keep, err := s.Retention(ctx)
	if err != nil || keep.Limited() {
		return err == nil, err
	}
	c, own, err := s.Classes(ctx)
	return own && c.Limited(), err
}
