package versions

import (
	"fmt"
	"testing"
)

// BenchmarkLogFile is the log of a file of three changes in a directory that has seen many others.
func BenchmarkLogFile(b *testing.B) {
	for _, n := range []int{1_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w := newWorld(b)
			w.unchecked, w.behind = true, true
			w.mkdir("d")
			w.command("s", "sh")
			for i := range n / 2 {
				switch i {
				case n / 8:
					w.create("d/file", "1")
				case n / 4:
					w.write("d/file", "12")
				}
				w.create("d/other", "")
				w.remove("d/other")
			}
			w.behind = false
			w.chmod("d/file", 0o600) // and all of it is in the database
			view := w.view()
			b.ReportAllocs()
			for b.Loop() {
				told := 0
				if err := Log(b.Context(), w.st, LogQuery{View: view, Path: "d/file"}, func(*Entry) error { told++; return nil }); err != nil || told == 0 {
					b.Fatal(told, err)
				}
			}
		})
	}
}
