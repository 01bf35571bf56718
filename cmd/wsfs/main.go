// Command wsfs mounts workspaces whose every change is a version. See docs/cli.md.
package main

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"wsfs/internal/runner"
)

func main() {
	if code, ok := runner.Child(os.Args); ok {
		os.Exit(code)
	}
	if len(os.Args) > 1 && os.Args[1] == keeperName {
		os.Exit(keeper(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == echoHelperName {
		os.Exit(echoHelper())
	}
	ctx, stop := context.WithCancel(context.Background())
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		// What a shell's background ignores, a command that is run there ignores too; everything else ends when it is told.
		if !signal.Ignored(s) || !slices.Contains(os.Args, "run") {
			ctx, _ = signal.NotifyContext(ctx, s) // stop ends both
		}
	}
	a := &app{in: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv, exe: "/proc/self/exe"}
	code := a.run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}
