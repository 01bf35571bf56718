package diff

import "testing"

func TestStillParses(t *testing.T) {
	for _, c := range []struct {
		name, merged string
		from         []string
		want         bool
	}{
		{"package.json", `{"a":1 "b":2}`, []string{`{"a":1}`, `{"b":2}`}, false},
		{"package.json", `{"a":1,"b":2}`, []string{`{"a":1}`}, true},
		{"package.json", `{"a":{"x":1},"b":2,"a":3}`, []string{`{"a":1}`}, false},
		{"package.json", `{"a":{"a":1},"b":[{"a":1},{"a":"a"}, "a", "a"]}`, []string{`{"a":1}`}, true},
		{"tsconfig.json", `{"a":1 "b":2}`, []string{`{"a":1} // a comment`}, true},
		{"x.toml", "a = 1\na = 2\n", []string{"a = 1\n", "b = 1\n"}, false},
		{"x.toml", "a = 1\nb = 2\n", []string{"a = 1\n", "b = 1\n"}, true},
		{"c.yml", "a: 1\na: 2\n", []string{"a: 1\n"}, false},
		{"c.yml", "a: 1\n b: 2\n", []string{"a: 1\n"}, false},
		{"c.yml", "a: 1\n---\na: 2\n", []string{"a: 1\n"}, true},
		{"c.txt", "{", []string{"{}"}, true},
	} {
		var from [][]byte
		for _, f := range c.from {
			from = append(from, []byte(f))
		}
		if got := StillParses("dir/"+c.name, []byte(c.merged), from...); got != c.want {
			t.Errorf("%s %q of %q: %v", c.name, c.merged, c.from, got)
		}
	}
}
