//go:build race

package storetest

// slow: the race detector makes SQLite, which is Go here, fifteen times slower.
const slow = true
