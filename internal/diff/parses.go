package diff

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"path"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"go.yaml.in/yaml/v3"
)

// StillParses reports whether a merged text is what its name says, JSON, TOML or YAML, provided that all the texts that it was
// made from were. Of other names it is always true: lines that merge cleanly can still break a format that has commas and
// brackets, and a key that both sides brought, at different places, would count once only.
func StillParses(name string, merged []byte, from ...[]byte) bool {
	parses := format(name)
	if parses == nil || parses(merged) {
		return true
	}
	for _, text := range from {
		if !parses(text) {
			return true
		}
	}
	return false
}

// format finds out how a file of that name is read; nil: nobody knows.
func format(name string) func([]byte) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".json", ".webmanifest", ".ipynb", ".geojson":
		return parsesJSON
	case ".toml":
		return func(b []byte) bool { var v map[string]any; return toml.Unmarshal(b, &v) == nil }
	case ".yaml", ".yml":
		return parsesYAML
	}
	switch path.Base(name) {
	case "Cargo.lock", "Pipfile", "poetry.lock", "uv.lock":
		return func(b []byte) bool { var v map[string]any; return toml.Unmarshal(b, &v) == nil }
	case "Pipfile.lock", "composer.lock", ".babelrc", ".eslintrc", ".prettierrc":
		return parsesJSON
	}
	return nil
}

// parsesYAML reads every document; a key that comes twice in a mapping is an error, as it is for most who read YAML.
func parsesYAML(text []byte) bool {
	d := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var v any
		err := d.Decode(&v)
		if errors.Is(err, io.EOF) {
			return true
		}
		if err != nil {
			return false
		}
	}
}

// parsesJSON is json.Valid, and no object has a key twice.
func parsesJSON(text []byte) bool {
	if !json.Valid(text) {
		return false
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	type level struct {
		keys map[string]bool // nil in an array
		key  bool            // a key comes next
	}
	var stack []level
	for {
		t, err := d.Token()
		if err != nil {
			return errors.Is(err, io.EOF)
		}
		top := len(stack) - 1
		if top >= 0 && stack[top].keys != nil {
			if s, ok := t.(string); ok && stack[top].key {
				if stack[top].keys[s] {
					return false
				}
				stack[top].keys[s], stack[top].key = true, false
				continue
			}
			stack[top].key = true // after this value
		}
		switch t {
		case json.Delim('{'):
			stack = append(stack, level{map[string]bool{}, true})
		case json.Delim('['):
			stack = append(stack, level{})
		case json.Delim('}'), json.Delim(']'):
			stack = stack[:top]
		}
	}
}
