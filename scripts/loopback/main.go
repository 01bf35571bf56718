// loopback mounts a directory at another place through go-fuse's own loopback file system and its stock server: what
// FUSE costs without wsfs. scripts/bench measures against it. With -faults it is the disk of scripts/soak --faults, which fails.
package main

import (
	"flag"
	"fmt"
	"os"
	"syscall"

	fusefs "github.com/hanwen/go-fuse/v2/fs"
	gofuse "github.com/hanwen/go-fuse/v2/fuse"
)

func main() {
	through := flag.Bool("passthrough", true, "let the kernel read and write open files without asking, where it allows that")
	others := flag.Bool("allow_other", false, "other users may use it, the kernel checks permissions, set-user-ID programs and devices work")
	faults := flag.String("faults", "", "a file: what it says (read, write, fsync, names) fails with EIO for as long as it says so; without passthrough")
	flag.Parse()
	if flag.NArg() != 2 {
		fmt.Fprintln(os.Stderr, "usage: loopback [-passthrough=false] [-allow_other] [-faults FILE] DIR MOUNTPOINT")
		os.Exit(2)
	}
	var without uint64
	if !*through || *faults != "" {
		without = gofuse.CAP_PASSTHROUGH
	}
	root, err := fusefs.NewLoopbackRoot(flag.Arg(0))
	if err != nil {
		fmt.Fprintf(os.Stderr, "loopback: open %s: %v\n", flag.Arg(0), err)
		os.Exit(1)
	}
	options := gofuse.MountOptions{
		FsName: "loopback:" + flag.Arg(0), Name: "loopback", DirectMount: os.Geteuid() == 0, DisabledCapabilities: without,
	}
	if *others {
		options.AllowOther, options.Options = true, []string{"default_permissions"}
		options.DirectMountFlags = syscall.MS_RELATIME
	}
	tree := fusefs.NewNodeFS(root, &fusefs.Options{MountOptions: options})
	if *faults != "" {
		tree = &faulty{RawFileSystem: tree, at: *faults}
	}
	server, err := gofuse.NewServer(tree, flag.Arg(1), &options)
	if err != nil {
		fmt.Fprintf(os.Stderr, "loopback: mount on %s: %v\n", flag.Arg(1), err)
		os.Exit(1)
	}
	server.Serve()
}
