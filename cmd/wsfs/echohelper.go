package main

import (
	"fmt"
	"os"

	"wsfs/fs/fuse"
)

// echoHelperName is the command that a daemon runs to tell a mount's watchers of an undo or a rollback. It is nobody's to type.
const echoHelperName = "echo-helper"

func echoHelper() int {
	if err := fuse.RunEchoHelper(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
