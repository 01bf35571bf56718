// floor mounts a file system that answers from memory, through the transport of package fs/fuse: no history, no journal,
// no hash, no database, nobody attributed. What a tool takes on it is what the kernel's round trips alone cost;
// scripts/bench measures wsfs against it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"wsfs/fs/fuse"
)

func main() {
	transport := flag.String("transport", string(fuse.TransportOwn), "as of `wsfs mount`")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: floor [--transport T] MOUNTPOINT")
		os.Exit(2)
	}
	m, err := fuse.NewRaw(context.Background(), newTree(), flag.Arg(0), fuse.Options{Name: "floor", Transport: fuse.Transport(*transport)})
	if err == nil {
		err = m.Wait()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "floor: %v\n", err)
		os.Exit(1)
	}
}
