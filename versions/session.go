package versions

import (
	"strings"

	"wsfs/store"
)

// maxSessionDepth bounds a chain of sessions that damage has made a circle.
const maxSessionDepth = 1000

// InSession reports whether s is the session of that name or one below it: named NAME/..., or started by one that is.
// s may be nil.
func InSession(s *store.Session, name string) bool {
	for n := 0; s != nil && n < maxSessionDepth; n, s = n+1, s.Parent {
		if s.Name == name || strings.HasPrefix(s.Name, name+"/") {
			return true
		}
	}
	return false
}
