//go:build !race

package fstest_test

// raced: the test, and so the program that is tested, is built with the race detector.
const raced = false

// raceArgs builds the program that is tested as the test itself was built.
func raceArgs() []string { return nil }
