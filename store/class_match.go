package store

import (
	"fmt"
	"path"
	"strings"
	"syscall"
)

// matchIgnore reports whether a pattern of the kind that gitignore(5) describes matches a path or a directory that it is in. A
// pattern without a slash, but for one at its end, matches a name anywhere; any other is from the root. A slash at the end
// matches directories only. "**" is any number of directories.
func matchIgnore(pattern, p string, dir bool) bool {
	dirOnly := strings.HasSuffix(pattern, "/")
	pattern = strings.TrimSuffix(pattern, "/")
	anchored := strings.Contains(pattern, "/")
	want := strings.Split(strings.TrimPrefix(pattern, "/"), "/")
	parts := strings.Split(p, "/")
	for n := 1; n <= len(parts); n++ {
		if n == len(parts) && dirOnly && !dir {
			break
		}
		if !anchored && oneName(want[0], parts[n-1]) || anchored && names(want, parts[:n]) {
			return true
		}
	}
	return false
}

// names matches all of a path with all of a pattern.
func names(want, parts []string) bool {
	for len(want) > 0 {
		if want[0] == "**" {
			for n := range len(parts) + 1 {
				if names(want[1:], parts[n:]) {
					// "a/**" is what is in a, not a
					return len(want) > 1 || len(parts) > 0
				}
			}
			return false
		}
		if len(parts) == 0 || !oneName(want[0], parts[0]) {
			return false
		}
		want, parts = want[1:], parts[1:]
	}
	return len(parts) == 0
}

func oneName(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// checkPattern refuses what matches nothing, or cannot be kept in a line.
func checkPattern(pattern string) error {
	bad := ""
	switch {
	case strings.Trim(pattern, "/") == "":
		bad = "it names nothing"
	case strings.HasPrefix(pattern, "!"):
		bad = "there is no !; give what it is for the class versioned"
	case strings.ContainsAny(pattern, "\n\r\x00"):
		bad = "it has a character that ends a line"
	default:
		for part := range strings.SplitSeq(pattern, "/") {
			if _, err := path.Match(part, ""); err != nil {
				bad = "a bracket or a backslash in it is left open"
			}
		}
	}
	if bad != "" {
		return fmt.Errorf("pattern %q: %s: %w", pattern, bad, syscall.EINVAL)
	}
	return nil
}
