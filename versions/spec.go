package versions

import (
	"fmt"
	"path"
	"strings"
	"syscall"
	"time"
)

// MaxPath is the longest path that is looked at, as PATH_MAX without its NUL.
const MaxPath = 4095

// Spec is a file or directory at a point: the argument of cat and ls.
type Spec struct {
	Revision
	// Path is as written: for a spec with a workspace it starts at the workspace's root, else at the caller's
	// directory.
	Path string
	// Rooted: the spec names a workspace, WS:PATH or WS@POINT:PATH.
	Rooted bool
}

func (s Spec) String() string {
	switch {
	case s.Rooted:
		return s.Revision.String() + ":" + s.Path
	case s.Point.Kind == AtHead:
		return s.Path
	}
	return s.Path + "@" + s.Point.String()
}

// ParseSpec reads PATH, PATH@POINT, WS:PATH or WS@POINT:PATH. A workspace's name has no '/', so ./a@b:c is always a
// path; a path that itself holds an '@' is written PATH@0s.
func ParseSpec(s string, loc *time.Location) (Spec, error) {
	if strings.IndexByte(s, 0) >= 0 {
		return Spec{}, &RevisionError{s, "holds a NUL byte"}
	}
	if len(s) > MaxPath+MaxWorkspaceName+MaxTagName {
		return Spec{}, fmt.Errorf("path %s is %d bytes long, at most %d are possible: %w", quote(s), len(s), MaxPath, syscall.ENAMETOOLONG)
	}
	if spec, ok, err := parseRooted(s, loc); ok {
		return spec, checkPath(spec.Path, err)
	}
	i := strings.LastIndexByte(s, '@')
	if i < 0 || strings.IndexByte(s[i:], '/') > 0 { // no point holds a '/': node_modules/@scope/name is a path
		return Spec{Path: s}, checkPath(s, nil)
	}
	if i == 0 {
		return Spec{}, &RevisionError{s, "nothing stands before '@'; write PATH@REV or WS@REV:PATH"}
	}
	p, err := parsePoint(s[i+1:], loc)
	if err != nil {
		return Spec{}, &RevisionError{s, err.Error() + "; if the '@' belongs to the file's name, write " + s + "@0s"}
	}
	return Spec{Revision: Revision{Point: p}, Path: s[:i]}, checkPath(s[:i], nil)
}

// parseRooted reads the two forms with a workspace. ok means that s has such a form, even if a part of it is wrong.
func parseRooted(s string, loc *time.Location) (spec Spec, ok bool, err error) {
	sep := strings.IndexAny(s, "@:/")
	if sep <= 0 || s[sep] == '/' || CheckWorkspaceName(s[:sep]) != nil {
		return Spec{}, false, nil
	}
	if s[sep] == ':' {
		return Spec{Revision: Revision{Workspace: s[:sep]}, Path: s[sep+1:], Rooted: true}, true, nil
	}
	rest := s[sep+1:]
	end := timeLen(rest)
	if i := strings.IndexByte(rest[end:], ':'); i >= 0 {
		end += i
	} else {
		return Spec{}, false, nil
	}
	if strings.ContainsAny(rest[:end], "/@") {
		return Spec{}, false, nil // a path such as a@b/c:d
	}
	p, err := parsePoint(rest[:end], loc)
	if err != nil {
		err = &RevisionError{s, err.Error()}
	}
	return Spec{Revision{s[:sep], p}, rest[end+1:], true}, true, err
}

func checkPath(p string, err error) error {
	if err == nil && len(p) > MaxPath {
		return fmt.Errorf("path %s is %d bytes long, at most %d are possible: %w", quote(p), len(p), MaxPath, syscall.ENAMETOOLONG)
	}
	return err
}

// Clean is p as a path from the workspace's root, without a leading slash: "" is the root. It never leaves the root.
func Clean(p string) string {
	return strings.TrimPrefix(path.Clean("/"+p), "/")
}
