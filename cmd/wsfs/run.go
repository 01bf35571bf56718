package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"wsfs/internal/daemon"
	"wsfs/internal/runner"
	"wsfs/internal/ui"
)

// runOptions are what `wsfs run` was told.
type runOptions struct {
	fork      *string // nil: none
	session   string
	at        string
	meta      []string
	each      bool
	quiet     bool
	keep      bool
	atomic    bool
	serial    bool     // an atomic run fails if what it read has changed
	conflicts []string // rules for its session, as fs.ParseRules reads them
	look      bool     // keep the fork of an atomic run that failed
	argv      []string
}

func (a *app) runCmd() *cobra.Command {
	var o runOptions
	var fork string
	cmd := &cobra.Command{
		Use:   "run [flags] -- CMD...",
		Short: "Run a command in a workspace, at the path that the workspace came from",
		Long: "Runs CMD with the workspace in the place of its directory, which only CMD and what it starts see, and records every\n" +
			"change under one session and one command. In a directory that is no workspace yet, the project (its git top level, or\n" +
			"the directory itself) is imported first; what changed there since the last time is taken in. The directory itself\n" +
			"stays as it is: `wsfs apply` writes the changes back. CMD's exit code is passed on.",
		Args: cobra.MinimumNArgs(1),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed("fork") {
			if fork == forkMadeUp {
				fork = ""
			}
			o.fork = &fork
		}
		o.argv = args
		switch {
		case o.atomic && o.fork != nil:
			return daemon.Fail(daemon.ExitUsage, "run: --atomic makes a fork of its own; leave --fork out")
		case (o.look || o.serial) && !o.atomic:
			return daemon.Fail(daemon.ExitUsage, "run: --keep and --serializable go with --atomic")
		}
		return a.runIn(cmd.Context(), &o)
	}
	f := cmd.Flags()
	f.SetInterspersed(false)
	f.StringVar(&fork, "fork", "", "run in a fork of the workspace: of this name, or of one made up; an existing one is used again")
	f.Lookup("fork").NoOptDefVal = forkMadeUp
	f.StringVarP(&o.session, "session", "s", "", "name of the session (default: that of the caller, or a new one)")
	f.StringVar(&o.at, "at", "", "the directory that the workspace appears on (default: where it came from)")
	f.StringArrayVar(&o.meta, "meta", nil, "key=value to remember of the session, such as human=ada or model=x")
	f.BoolVar(&o.each, "each", false, "every process that CMD starts is a command of its own: for agents (shells without arguments are run so)")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "do not tell what was changed")
	f.BoolVar(&o.keep, "keep-workspace", false, "where both the workspace and its directory changed a file, go on with the workspace's")
	f.BoolVar(&o.atomic, "atomic", false, "what CMD changes appears in the workspace as one change if it ends with 0, and else not at all")
	f.BoolVar(&o.serial, "serializable", false, "with --atomic: not at all either if a file or directory that CMD read was changed in the workspace meanwhile")
	f.StringArrayVar(&o.conflicts, "conflicts", nil, "as `wsfs mount --conflicts`, for the session and as long as CMD runs")
	f.BoolVar(&o.look, "keep", false, "with --atomic: keep the fork that CMD worked in if nothing comes of it")
	a.workspaceOf(cmd)
	return cmd
}

// forkMadeUp stands for --fork without a name. No workspace can have it.
const forkMadeUp = "\x00"

// runIn runs the command and returns its exit code as an error, unless it is 0.
func (a *app) runIn(ctx context.Context, o *runOptions) error {
	if err := daemon.CheckConflicts(o.conflicts); err != nil {
		return err
	}
	meta, err := metaJSON(o.meta)
	if err != nil {
		return err
	}
	parent := a.getenv("WSFS_SESSION")
	named := o.session != "" || parent != ""
	if o.session == "" {
		if o.session = parent; parent == "" {
			o.session = newSessionName(time.Now())
		}
	}
	p, err := a.runPlace(ctx, o, named)
	if err != nil {
		return err
	}
	into := ""
	if o.atomic {
		into = p.Parent
	}
	spec := runner.Spec{Store: p.store, Target: p.target, Dir: p.dir, Argv: o.argv, Command: daemon.CommandRequest{
		Workspace: p.Workspace, Session: o.session, Parent: parent, Meta: meta, Cwd: daemon.Path(p.dir),
		Each: o.each || shellAlone(o.argv), Conflicts: o.conflicts,
	}}
	if o.atomic {
		spec.Command.Workspace = into // the fork is nobody's home
		spec.Merge = &daemon.MergeRequest{From: p.Workspace, Into: into, Whole: true, Serializable: o.serial}
	}
	for _, arg := range o.argv {
		spec.Command.Argv = append(spec.Command.Argv, []byte(arg))
	}
	if !p.mounted {
		err := a.withDaemon(ctx, p.store, func(c *daemon.Client) error {
			m, err := c.RunMount(ctx, daemon.RunMountRequest{Workspace: p.Workspace, Reads: o.serial})
			spec.Mount, spec.Daemon = string(m.Mountpoint), m.PID
			return err
		})
		if err != nil {
			return err
		}
	}
	began := time.Now()
	res, err := a.supervise(spec, a.runEnv(p, o.session))
	if o.atomic {
		return a.endAtomic(context.WithoutCancel(ctx), o, p, res, err)
	}
	var missing *runner.MissingError
	if err != nil && !errors.As(err, &missing) {
		return err
	}
	if missing != nil {
		a.note("%v", missing)
	} else if !o.quiet {
		a.summary(context.WithoutCancel(ctx), p, &spec, res, began)
	}
	if missing == nil && !res.Unknown {
		if n := a.runConflicts(context.WithoutCancel(ctx), p, o.session, began, res); n > 0 && res.Exit == 0 {
			return &quietError{&daemon.Error{Exit: daemon.ExitDecision, Err: fmt.Errorf("%s met %s", o.argv[0], plural(n, "conflict"))}}
		}
	}
	if res.Exit == 0 {
		return nil
	}
	return &quietError{&daemon.Error{Exit: res.Exit, Err: fmt.Errorf("%s ended with %d", o.argv[0], res.Exit)}}
}

// supervise runs it and passes signals on. A terminal sends what its keys mean to the program as well: that is not sent
// twice.
func (a *app) supervise(spec runner.Spec, env []string) (runner.Result, error) {
	signals := make(chan os.Signal, 16)
	for _, s := range runner.Passed() {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	defer signal.Stop(signals)
	r, err := runner.Start(a.exe, spec, env)
	if err != nil {
		return runner.Result{}, err
	}
	go func() {
		for s := range signals {
			if (s == syscall.SIGINT || s == syscall.SIGQUIT) && a.foreground() {
				continue
			}
			r.Signal(s.(syscall.Signal))
		}
	}()
	return r.Wait()
}

// foreground reports whether this process is in the foreground of a terminal.
func (a *app) foreground() bool {
	for _, f := range []*os.File{a.in, a.stdout, a.stderr} {
		if pgrp, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP); err == nil {
			return pgrp == unix.Getpgrp()
		}
	}
	return false
}

// shellAlone reports whether a command line is a shell that reads commands, not one that was given some.
func shellAlone(argv []string) bool {
	switch strings.TrimPrefix(filepath.Base(argv[0]), "-") {
	case "sh", "bash", "zsh", "fish", "dash", "ksh", "mksh", "ash", "nu", "xonsh", "tcsh", "csh":
	default:
		return false
	}
	for _, arg := range argv[1:] {
		if !strings.HasPrefix(arg, "-") || !strings.HasPrefix(arg, "--") && strings.Contains(arg, "c") || arg == "--command" {
			return false
		}
	}
	return true
}

// portBlock is how many ports a workspace has, and portFirst and portBlocks say where the blocks are: below those that
// Linux gives out by itself.
const (
	portFirst  = 10000
	portBlock  = 10
	portBlocks = 2200
)

// portBase is the first port of a workspace's block.
func portBase(id int64) int { return portFirst + int((id-1)%portBlocks)*portBlock }

// runEnv is this environment with what the command should know.
func (a *app) runEnv(p *runPlace, session string) []string {
	set := map[string]string{
		"WSFS_SESSION": session, "WSFS_WORKSPACE": p.Workspace, "WSFS_STORE": p.store, "WSFS_PORT_BASE": strconv.Itoa(portBase(p.ID)),
		"WSFS_FORK": "",
	}
	if p.Parent != "" {
		set["WSFS_FORK"] = p.Workspace
	}
	var env []string
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		if _, ours := set[name]; !ours {
			env = append(env, kv)
		}
	}
	for _, name := range []string{"WSFS_SESSION", "WSFS_WORKSPACE", "WSFS_STORE", "WSFS_PORT_BASE", "WSFS_FORK"} {
		if set[name] != "" {
			env = append(env, name+"="+set[name])
		}
	}
	return env
}

// runtimeDir holds the mounts of runs: never in a store, and nobody else looks into it.
func (a *app) runtimeDir() string {
	if dir := a.getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "wsfs")
	}
	return filepath.Join(os.TempDir(), "wsfs-"+strconv.Itoa(os.Geteuid()))
}

func newSessionName(now time.Time) string {
	var b [2]byte
	_, _ = rand.Read(b[:]) // it never fails
	return "run-" + now.Format("20060102-150405") + "-" + hex.EncodeToString(b[:])
}

func metaJSON(list []string) (string, error) {
	if len(list) == 0 {
		return "", nil
	}
	m := map[string]string{}
	for _, kv := range list {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || k == "" {
			return "", daemon.Fail(daemon.ExitUsage, "--meta %s: give key=value", ui.Quote(kv))
		}
		m[k] = v
	}
	b, err := json.Marshal(m)
	if len(b) > 4096 {
		return "", daemon.Fail(daemon.ExitUsage, "--meta: at most 4 KiB can be kept, this is %d bytes", len(b))
	}
	return string(b), err
}
