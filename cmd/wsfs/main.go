// Command wsfs mounts workspaces whose every change is a version. See docs/cli.md.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"wsfs/internal/runner"
)

func main() {
	if code, ok := runner.Child(os.Args); ok {
		os.Exit(code)
	}
	ctx, stop := context.WithCancel(context.Background())
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		if !signal.Ignored(s) { // as in a shell's background
			ctx, _ = signal.NotifyContext(ctx, s) // stop ends both
		}
	}
	a := &app{in: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv, exe: "/proc/self/exe"}
	code := a.run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}
