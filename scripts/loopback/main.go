// loopback mounts a directory at another place through go-fuse's own loopback file system and its stock server: what
// FUSE costs without wsfs. scripts/bench measures against it.
package main

import (
	"fmt"
	"os"

	fusefs "github.com/hanwen/go-fuse/v2/fs"
	gofuse "github.com/hanwen/go-fuse/v2/fuse"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: loopback DIR MOUNTPOINT")
		os.Exit(2)
	}
	root, err := fusefs.NewLoopbackRoot(os.Args[1])
	if err != nil {
		fmt.Fprintf(os.Stderr, "loopback: open %s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
	server, err := fusefs.Mount(os.Args[2], root, &fusefs.Options{
		MountOptions: gofuse.MountOptions{FsName: "loopback", Name: "loopback", DirectMount: os.Geteuid() == 0},
	})
	if err != nil {
		fmt.Fprintf(os.Stderr, "loopback: mount on %s: %v\n", os.Args[2], err)
		os.Exit(1)
	}
	server.Wait()
}
