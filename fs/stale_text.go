package fs

import "wsfs/internal/diff"

// MergeText merges two edits of one text: what changed from base to theirs is done to ours. It says no where both changed the
// same lines, to what is no text, and to JSON, TOML and YAML that both sides could be read as and that could not be read after, or
// would say one thing twice.
func MergeText(name string, base, ours, theirs []byte) (merged []byte, ok bool) {
	if diff.Binary(base) || diff.Binary(ours) || diff.Binary(theirs) {
		return nil, false
	}
	merged, _, ok = diff.Merge3(base, ours, theirs)
	if !ok || !diff.StillParses(name, merged, ours, theirs) {
		return nil, false
	}
	if merged == nil {
		merged = []byte{}
	}
	return merged, true
}
