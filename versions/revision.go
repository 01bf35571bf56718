package versions

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"

	"wsfs/store"
)

// PointKind says how a Point names a place in a workspace's history.
type PointKind uint8

// The kinds of Point.
const (
	AtHead        PointKind = iota // now
	AtSeq                          // right after the change with that seq
	AtAge                          // that long ago
	AtTime                         // at that time
	AtTag                          // at that tag
	BeforeCommand                  // just before the command's first change
	AfterCommand                   // just after its last change
)

// Point is a place in the history of one workspace. The zero Point is the head.
type Point struct {
	Kind    PointKind
	Seq     store.Seq
	Age     time.Duration
	Time    time.Time
	Tag     string
	Command store.CommandID
}

// String is the point as Parse reads it, "" for the head.
func (p Point) String() string {
	switch p.Kind {
	case AtSeq:
		return strconv.FormatInt(int64(p.Seq), 10)
	case AtAge:
		return formatAge(p.Age)
	case AtTime:
		return p.Time.UTC().Format("2006-01-02T15:04:05.999999999Z07:00")
	case AtTag:
		return p.Tag
	case BeforeCommand:
		return "c" + strconv.FormatInt(int64(p.Command), 10)
	case AfterCommand:
		return "c" + strconv.FormatInt(int64(p.Command), 10) + "+"
	}
	return ""
}

// Revision is a point of a named workspace. Workspace "" is the one the caller stands in.
type Revision struct {
	Workspace string
	Point     Point
}

func (r Revision) String() string {
	if r.Point.Kind == AtHead {
		return r.Workspace
	}
	return r.Workspace + "@" + r.Point.String()
}

// RevisionError says which part of a revision could not be understood. It wraps EINVAL.
type RevisionError struct {
	Text string // what was parsed
	Why  string // what is wrong and what would be right
}

func (e *RevisionError) Error() string { return fmt.Sprintf("revision %s: %s", quote(e.Text), e.Why) }

// Unwrap makes errors.Is(err, syscall.EINVAL) true.
func (e *RevisionError) Unwrap() error { return syscall.EINVAL }

func quote(s string) string {
	if len(s) > 120 {
		return strconv.Quote(s[:120]) + "..."
	}
	return strconv.Quote(s)
}

// Parse reads WS, WS@POINT or @POINT. Times without a zone are in loc, nil means UTC.
func Parse(s string, loc *time.Location) (Revision, error) {
	ws, rest, at := strings.Cut(s, "@")
	if ws != "" || !at {
		if err := CheckWorkspaceName(ws); err != nil {
			return Revision{}, &RevisionError{s, strings.TrimSuffix(err.Error(), ": "+syscall.EINVAL.Error())}
		}
	}
	if !at {
		return Revision{Workspace: ws}, nil
	}
	p, err := parsePoint(rest, loc)
	if err != nil {
		return Revision{}, &RevisionError{s, err.Error()}
	}
	return Revision{ws, p}, nil
}

// ParseHere reads a revision where a bare point is allowed because the workspace is known: 5m, 1234, c12+ and times
// are points of it, @TAG is one of its tags, any other word names a workspace.
func ParseHere(s string, loc *time.Location) (Revision, error) {
	if !strings.Contains(s, "@") {
		if p, err := parsePoint(s, loc); err == nil && p.Kind != AtTag {
			return Revision{Point: p}, nil
		} else if s != "" && s[0] >= '0' && s[0] <= '9' && err != nil && CheckWorkspaceName(s) != nil {
			return Revision{}, &RevisionError{s, err.Error()}
		}
	}
	return Parse(s, loc)
}

// parsePoint reads what stands behind '@'. Its errors are bare: the callers add the whole text.
func parsePoint(s string, loc *time.Location) (Point, error) {
	switch {
	case s == "":
		return Point{}, fmt.Errorf("nothing follows '@'; write a seq, an age such as 5m, a time, a tag or a command such as c12")
	case isDigits(s):
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n == int64(store.MaxSeq) {
			return Point{}, fmt.Errorf("the seq %s is too large", s)
		}
		return Point{Kind: AtSeq, Seq: store.Seq(n)}, nil
	case looksLikeDate(s):
		t, err := parseTime(s, loc)
		return Point{Kind: AtTime, Time: t}, err
	case s[0] >= '0' && s[0] <= '9':
		d, err := parseAge(s)
		return Point{Kind: AtAge, Age: d}, err
	case s[0] == '-' || s[0] == '+':
		return Point{}, fmt.Errorf("%s must not begin with '%c'; an age is written 5m", quote(s), s[0])
	}
	if digits, after := strings.CutSuffix(strings.TrimPrefix(s, "c"), "+"); s[0] == 'c' && isDigits(digits) {
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || n == 0 {
			return Point{}, fmt.Errorf("%s is no command's number", s)
		}
		p := Point{Kind: BeforeCommand, Command: store.CommandID(n)}
		if after {
			p.Kind = AfterCommand
		}
		return p, nil
	}
	// Not CheckTagName: that asks us whether the name reads as something else.
	if err := checkName("tag", s, MaxTagName, "/:@+"); err != nil {
		return Point{}, fmt.Errorf("%s", strings.TrimSuffix(err.Error(), ": "+syscall.EINVAL.Error()))
	}
	if c := s[0]; c < 0x80 && !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z') {
		return Point{}, fmt.Errorf("%s is neither a seq, an age, a time, a command nor a tag: a tag begins with a letter", quote(s))
	}
	return Point{Kind: AtTag, Tag: s}, nil
}

func isDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}
