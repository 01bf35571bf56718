// Command wsfs mounts workspaces whose every change is a version. See docs/cli.md.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	a := &app{in: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv, exe: "/proc/self/exe"}
	code := a.run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}
