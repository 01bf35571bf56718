//go:build !race

package storetest

const slow = false
