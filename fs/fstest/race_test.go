//go:build race

package fstest_test

// raceArgs builds the program that is tested as the test itself was built.
func raceArgs() []string { return []string{"-race"} }
