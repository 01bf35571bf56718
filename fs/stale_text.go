package fs

import (
	"bytes"
	"encoding/json"
	"io"
	"path"

	"wsfs/internal/diff"
)

// MergeText merges two edits of one text: what changed from base to theirs is done to ours. It says no where both changed the
// same lines, to what is no text, and to JSON that was JSON and would be none after, or would say one thing twice.
func MergeText(name string, base, ours, theirs []byte) (merged []byte, ok bool) {
	if diff.Binary(base) || diff.Binary(ours) || diff.Binary(theirs) {
		return nil, false
	}
	merged, _, ok = diff.Merge3(base, ours, theirs)
	if !ok {
		return nil, false
	}
	if merged == nil {
		merged = []byte{}
	}
	switch path.Ext(name) {
	case ".json", ".webmanifest", ".ipynb":
		was, double := readJSON(ours)
		theirsWas, theirDouble := readJSON(theirs)
		is, nowDouble := readJSON(merged)
		if was && theirsWas && (!is || nowDouble && !double && !theirDouble) {
			return nil, false
		}
	}
	return merged, true
}

// readJSON reports whether a text is JSON, and whether an object in it has a name twice.
func readJSON(text []byte) (valid, double bool) {
	if !json.Valid(text) {
		return false, false
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	type level struct {
		names map[string]bool // nil: an array
		value bool            // a value comes next
	}
	var in []level
	for {
		tok, err := dec.Token()
		if err == io.EOF {
			return true, double
		}
		if err != nil {
			return false, double
		}
		if n := len(in); n > 0 && in[n-1].names != nil && tok != json.Delim('}') {
			top := &in[n-1]
			if name, isName := tok.(string); isName && !top.value {
				double = double || top.names[name]
				top.names[name], top.value = true, true
				continue
			}
			top.value = false
		}
		switch tok {
		case json.Delim('{'):
			in = append(in, level{names: map[string]bool{}})
		case json.Delim('['):
			in = append(in, level{})
		case json.Delim('}'), json.Delim(']'):
			in = in[:len(in)-1]
		}
	}
}
