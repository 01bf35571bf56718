package versions

import (
	"fmt"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"
)

// Longest names, in bytes. A workspace's name becomes part of the source that mount(8) shows.
const (
	MaxWorkspaceName = 128
	MaxTagName       = 128
)

// CheckWorkspaceName says why name cannot name a workspace, or nil. The rules keep `WS@REV:PATH` readable in one way:
// no '/', ':', '@', blanks or control characters; not empty, not "." or "..", not starting with '-' or ".wsfs", valid
// UTF-8, at most MaxWorkspaceName bytes. The error wraps EINVAL.
func CheckWorkspaceName(name string) error {
	return checkName("workspace", name, MaxWorkspaceName, "/:@")
}

// CheckTagName says why name cannot be a tag, or nil. A tag begins with a letter and is nothing that reads as another
// kind of point, so `WS@NAME` has one meaning.
func CheckTagName(name string) error {
	if err := checkName("tag", name, MaxTagName, "/:@+"); err != nil {
		return err
	}
	if r, _ := utf8.DecodeRuneInString(name); !unicode.IsLetter(r) {
		return fmt.Errorf("tag name %q: must begin with a letter: %w", name, syscall.EINVAL)
	}
	if p, err := parsePoint(name, nil); err != nil || p.Kind != AtTag { // c0 is none either
		return fmt.Errorf("tag name %q: would read as a command: %w", name, syscall.EINVAL)
	}
	return nil
}

func checkName(what, name string, longest int, forbidden string) error {
	bad := func(why string) error {
		if len(name) > 80 {
			name = name[:80] + "..."
		}
		return fmt.Errorf("%s name %q: %s: %w", what, name, why, syscall.EINVAL)
	}
	switch {
	case name == "":
		return bad("must not be empty")
	case len(name) > longest:
		return bad(fmt.Sprintf("is %d bytes long, at most %d are allowed", len(name), longest))
	case !utf8.ValidString(name):
		return bad("must be UTF-8")
	case name == "." || name == "..":
		return bad("is a directory's own name")
	case strings.HasPrefix(name, "-"):
		return bad("must not begin with '-', it would read as an option")
	case name == ".wsfs" || strings.HasPrefix(name, ".wsfs."):
		return bad("is reserved")
	}
	if i := strings.IndexAny(name, forbidden); i >= 0 {
		return bad(fmt.Sprintf("must not contain %q", name[i]))
	}
	for _, r := range name {
		if unicode.IsControl(r) || unicode.IsSpace(r) || !unicode.IsPrint(r) || r == utf8.RuneError {
			return bad(fmt.Sprintf("must not contain %q", r))
		}
	}
	return nil
}

// near returns the names of all that look like name, closest first, at most three: what the user may have meant.
func near(name string, all []string) []string {
	type hit struct {
		name string
		d    int
	}
	limit := 1 + len(name)/3
	var hits []hit
	for _, s := range all {
		d := distance(strings.ToLower(name), strings.ToLower(s))
		if d <= limit || (len(name) >= 2 && strings.HasPrefix(s, name)) {
			hits = append(hits, hit{s, d})
		}
	}
	var out []string
	for len(hits) > 0 && len(out) < 3 {
		best := 0
		for i := range hits {
			if hits[i].d < hits[best].d {
				best = i
			}
		}
		out = append(out, hits[best].name)
		hits = append(hits[:best], hits[best+1:]...)
	}
	return out
}

// distance is the Levenshtein distance of two short strings.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diag := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diag
			if a[i-1] != b[j-1] {
				cost++
			}
			diag = row[j]
			row[j] = min(cost, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}
