package main

import (
	"context"
	"log/slog"
	"os"
	"runtime/debug"
	"strconv"
	"time"

	"wsfs/internal/daemon"
	"wsfs/internal/keep"
)

// keeperName is the command that holds the mounts of a daemon while it is started again. It is nobody's to type.
const keeperName = "keeper"

// keeper runs the daemon of the store in args[0] and starts it again when it dies. It does as little as it can in a
// process that is there for as long as the mounts: it must be small.
func keeper(args []string) int {
	if len(args) < 1 {
		return daemon.ExitUsage
	}
	dir := args[0]
	debug.SetGCPercent(20)
	debug.SetMemoryLimit(8 << 20)
	o := keep.Options{
		Exe: ownProgram(), Args: []string{"daemon", "--store", dir, "--started", "--kept"},
		Ready: os.NewFile(daemon.ReadyFD, "starter"),
		Log:   func(level slog.Level, msg string, args ...any) { logLine(dir, level, msg, args...) },
	}
	if len(args) > 1 { // of tests, which kill more often than anybody
		o.Tries, _ = strconv.Atoi(args[1])
		o.Every, o.Pause = time.Second, time.Millisecond
	}
	time.AfterFunc(time.Second, debug.FreeOSMemory) // what starting took
	return keep.Run(o)
}

// logLine adds a line to the daemon's log, which may be another file by now.
func logLine(dir string, level slog.Level, msg string, args ...any) {
	f, err := openLog(dir)
	if err != nil {
		return
	}
	defer f.Close()
	slog.New(slog.NewJSONHandler(f, nil)).Log(context.Background(), level, msg, args...)
}

// ownProgram is a path by which this very program can be started again, although there may be another one in its place by
// then. A name is better: ps shows it.
func ownProgram() string {
	const self = "/proc/self/exe"
	path, err := os.Executable()
	if err != nil {
		return self
	}
	a, err1 := os.Stat(path)
	b, err2 := os.Stat(self)
	if err1 != nil || err2 != nil || !os.SameFile(a, b) {
		return self
	}
	return path
}
