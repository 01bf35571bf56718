//go:build race

package fstest_test

// raced: the test, and so the program that is tested, is built with the race detector.
const raced = true

// raceArgs builds the program that is tested as the test itself was built. SQLite is a translation of single-threaded C
// that would be ten times slower, and is not what is tested.
func raceArgs() []string {
	return []string{"-race", "-gcflags=modernc.org/sqlite/lib=-race=false", "-gcflags=modernc.org/libc/...=-race=false"}
}
