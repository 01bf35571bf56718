// Package report says what happened in words and in JSON: the log, blame, lists of commands. The command line and the
// .wsfs tree of a mount print with it, so that both say the same. It reads nothing itself.
package report
