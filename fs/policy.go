package fs

import (
	"fmt"
	"path"
	"strings"
	"syscall"

	"wsfs/store"
)

// Policy is what becomes of a write over a content that another session made and the writer has not seen.
type Policy uint8

// The zero Policy is PolicyMerge.
const (
	PolicyMerge  Policy = iota // texts are merged where that is clean; else as PolicyKeep
	PolicyKeep                 // the newest content stands, the conflict keeps the other one
	PolicyReject               // the content stands that was there, the write fails with EBUSY, the conflict keeps its bytes
)

var policyNames = [...]string{"merge", "keep", "reject"}

func (p Policy) String() string { return policyNames[p] }

// Rules say which policy counts where. The zero value is PolicyMerge everywhere.
type Rules struct {
	Default Policy
	Paths   []PathRule // the last one that matches counts
}

// PathRule is the policy of what a pattern matches: a pattern without a slash, as in path.Match, the name of the file or of a
// directory above it; one with slashes the path from the root or the path of a directory above.
type PathRule struct {
	Pattern string
	Policy  Policy
}

// ParseRules reads rules, nil if there are none: each is a policy, for everything, or PATTERN=POLICY.
func ParseRules(list []string) (*Rules, error) {
	if len(list) == 0 {
		return nil, nil
	}
	r := &Rules{}
	for _, text := range list {
		pattern, name, ok := cutLast(text, "=")
		if !ok {
			pattern, name = "", text
		}
		p := -1
		for i, n := range policyNames {
			if n == name {
				p = i
			}
		}
		if p < 0 {
			return nil, fmt.Errorf("%q: there is no policy %q, only merge, keep and reject: %w", text, name, syscall.EINVAL)
		}
		if !ok {
			r.Default = Policy(p)
			continue
		}
		pattern = strings.Trim(pattern, "/")
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
			return nil, fmt.Errorf("%q: %q is no pattern: %w", text, pattern, syscall.EINVAL)
		}
		r.Paths = append(r.Paths, PathRule{pattern, Policy(p)})
	}
	return r, nil
}

func cutLast(s, sep string) (before, after string, ok bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// For is the policy of a path from the root.
func (r *Rules) For(name string) Policy {
	if r == nil {
		return PolicyMerge
	}
	for i := len(r.Paths) - 1; i >= 0; i-- {
		if r.Paths[i].matches(name) {
			return r.Paths[i].Policy
		}
	}
	return r.Default
}

// rulesFor are the rules for what somebody does by a mount that has these.
func (f *FS) rulesFor(who store.Attribution, mount *Rules) *Rules {
	if f.opts.RulesOf != nil && who.Session != nil {
		if r := f.opts.RulesOf(who.Session.Name); r != nil {
			return r
		}
	}
	return mount
}

func (r *PathRule) matches(name string) bool {
	for at := name; at != "" && at != "."; at = path.Dir(at) {
		of := at
		if !strings.Contains(r.Pattern, "/") {
			of = path.Base(at)
		}
		if ok, _ := path.Match(r.Pattern, of); ok { // the pattern was tried when it was read
			return true
		}
	}
	return false
}

// scratchNames are directories whose files are made again at will: nobody has to have seen what he writes over there. Classes
// by path will say the same of more.
var scratchNames = map[string]bool{
	"node_modules": true, "target": true, "__pycache__": true, ".cache": true, ".venv": true, "venv": true, ".tox": true, ".next": true,
	".gradle": true, "dist": true, "build": true,
}

// pathOf is where n is, from the root; false if it is not known. FS.mu is held.
func (f *FS) pathOf(n *node) (string, bool) {
	up := f.nodeOf(n.parent)
	if up == nil || n.name == "" {
		return n.name, false
	}
	return f.pathIn(up, n.name)
}

// pathIn is pathOf for a name in a directory. FS.mu is held.
func (f *FS) pathIn(dir *node, name string) (string, bool) {
	t := teller{fs: f, dirs: map[*node]dirPath{}}
	at := t.path(dir, 0)
	return path.Join(at.path, name), at.ok
}

// below reports whether a path leads through a directory of one of the names.
func below(name string, in func(string) bool) bool {
	for {
		dir, _, ok := strings.Cut(name, "/")
		if !ok {
			return false
		}
		if in(dir) {
			return true
		}
		name = name[len(dir)+1:]
	}
}
