package daemon

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strings"
	"syscall"

	"wsfs/internal/hosttree"
	"wsfs/store"
)

// RefusedAttr is an extended attribute that the directory does not take.
type RefusedAttr struct {
	Path Path   `json:"path"`
	Name string `json:"name"`
	Why  string `json:"why"`
}

// hasAttrs reports whether what lies at a path has extended attributes that can be applied.
func hasAttrs(e *hosttree.Entry) bool { return e.IsDir() || e.Type() == syscall.S_IFREG }

func attrsOf(v *store.Version) map[string][]byte {
	if v == nil {
		return nil
	}
	return v.Xattrs
}

// wasAttrs are the extended attributes that a path had when workspace and directory were last equal there.
func (p *applying) wasAttrs(ctx context.Context, path string) (map[string][]byte, error) {
	if p.idx.Moved[path] {
		return p.idx.Xattrs[path], nil
	}
	_, ver, err := stateAt(ctx, p.base, path)
	return attrsOf(ver), err
}

// changedAttrs are the names whose values differ.
func changedAttrs(was, want map[string][]byte) []string {
	var list []string
	for name, v := range want {
		if old, ok := was[name]; !ok || !bytes.Equal(old, v) {
			list = append(list, name)
		}
	}
	for name := range was {
		if _, ok := want[name]; !ok {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

// missingAttrs are the changed attributes that the directory does not have yet; nil values are to go. clash is one that
// is neither what it was nor what it is to be. Only users' own are compared: the others are the system's business.
func missingAttrs(changed []string, was, want, host map[string][]byte) (set map[string][]byte, clash string) {
	for _, name := range changed {
		old, hadOld := was[name]
		v, wanted := want[name]
		have, has := host[name]
		if has == wanted && bytes.Equal(have, v) {
			continue
		}
		if strings.HasPrefix(name, "user.") && (has != hadOld || !bytes.Equal(have, old)) {
			return nil, name
		}
		if set == nil {
			set = map[string][]byte{}
		}
		set[name] = nil
		if wanted {
			set[name] = append([]byte{}, v...)
		}
	}
	return set, ""
}

// overlay is what a file that replaces another one gets: the attributes of that, and what is to be set.
func overlay(host, set map[string][]byte) map[string][]byte {
	out := maps.Clone(host)
	if out == nil {
		out = map[string][]byte{}
	}
	for name, v := range set {
		if out[name] = v; v == nil {
			delete(out, name)
		}
	}
	return out
}

// refuse notes what could not be set.
func (p *applying) refuse(path string, no map[string]error) {
	for _, name := range slices.Sorted(maps.Keys(no)) {
		p.out.Refused = append(p.out.Refused, RefusedAttr{Path(path), name, no[name].Error()})
	}
}
