package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"wsfs/internal/daemon"
	"wsfs/internal/ui"
)

// app is one run of the program: what main gives it, the global flags, and where it prints.
type app struct {
	in     *os.File
	stdout *os.File
	stderr *os.File
	getenv func(string) string
	exe    string // what a daemon is started from

	storeFlag     string
	workspaceFlag string
	json          bool
	out           *ui.Out
}

// run executes one command and returns its exit code.
func (a *app) run(ctx context.Context, args []string) int {
	a.out = a.printer(a.stdout)
	root := a.root(args)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if ferr := a.out.Flush(); err == nil {
		err = ferr
	}
	switch {
	case err == nil:
		return daemon.ExitDone
	case errors.Is(err, syscall.EPIPE):
		// Whoever reads has seen enough, as in `wsfs log | head`.
		return daemon.ExitDone
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		fmt.Fprintln(a.stderr, "wsfs: interrupted")
		return daemon.ExitFailed
	}
	var quiet *quietError
	if !errors.As(err, &quiet) {
		fmt.Fprintln(a.stderr, "wsfs: "+explain(err))
	}
	return daemon.ExitCode(err)
}

// quietError ends a command whose output has said everything.
type quietError struct{ error }

func (e *quietError) Unwrap() error { return e.error }

// printer is an Out for a stream, with what a terminal allows.
func (a *app) printer(f *os.File) *ui.Out {
	o := &ui.Out{W: f, Now: time.Now()}
	if ws, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil {
		o.Terminal, o.Width = true, int(ws.Col)
		o.Color = a.getenv("NO_COLOR") == "" && a.getenv("TERM") != "dumb"
		if n, err := strconv.Atoi(a.getenv("COLUMNS")); err == nil && n > 0 {
			o.Width = n
		}
	}
	return o
}

// root is the command tree, or of it what args need: a command that is named first needs no other.
func (a *app) root(args []string) *cobra.Command {
	root := &cobra.Command{
		Use:   "wsfs",
		Short: "A file system in which every close is a version",
		Long: "wsfs mounts workspaces: directories whose every change is kept, with who made it and by which command.\n" +
			"Exit codes: 0 done, 1 failed and nothing changed, 2 usage, 3 nothing to do, 4 needs a decision.",
		SilenceErrors: true, SilenceUsage: true,
		Version: version(),
		Args:    noArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetOut(a.stdout) // before the completion commands are made: they keep it
	root.SetErr(a.stderr)
	root.SetVersionTemplate("wsfs {{.Version}}\n")
	root.PersistentFlags().StringVar(&a.storeFlag, "store", "", "directory of the store (default: the mount you are in, $WSFS_STORE, $XDG_DATA_HOME/wsfs)")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return daemon.Fail(daemon.ExitUsage, "%v; see `%s --help`", err, cmd.CommandPath())
	})
	if len(args) > 0 && args[0] != "man" {
		if make := a.commands()[args[0]]; make != nil {
			root.AddCommand(make())
			usageErrors(root)
			return root
		}
	}
	for _, make := range a.commands() {
		root.AddCommand(make())
	}
	root.InitDefaultCompletionCmd()
	root.SuggestionsMinimumDistance = 2
	usageErrors(root)
	return root
}

// commands makes each command by its name.
func (a *app) commands() map[string]func() *cobra.Command {
	return map[string]func() *cobra.Command{
		"init": a.initCmd, "import": a.importCmd, "mount": a.mountCmd, "umount": a.umountCmd, "workspaces": a.workspacesCmd,
		"status": a.statusCmd, "sync": a.syncCmd, "fork": a.forkCmd, "drop": a.dropCmd, "undrop": a.undropCmd, "tag": a.tagCmd,
		"tags": a.tagsCmd, "log": a.logCmd, "cat": a.catCmd, "ls": a.lsCmd, "restore": a.restoreCmd, "export": a.exportCmd,
		"check": a.checkCmd, "doctor": a.doctorCmd, "man": a.manCmd, "daemon": a.daemonCmd,
		"undo": a.undoCmd, "redo": a.redoCmd, "rollback": a.rollbackCmd, "diff": a.diffCmd, "blame": a.blameCmd, "show": a.showCmd,
		"sessions": a.sessionsCmd, "commands": a.commandsCmd, "run": a.runCmd, "whoami": a.whoamiCmd, "apply": a.applyCmd,
		"backup": a.backupCmd, "store": a.storeCmd, "merge": a.mergeCmd, "review": a.reviewCmd,
		"gc": a.gcCmd, "retain": a.retainCmd, "class": a.classCmd, "du": a.duCmd, "purge": a.purgeCmd, "lock": a.lockCmd, "locks": a.locksCmd,
		"conflicts": a.conflictsCmd, "resolve": a.resolveCmd, "watch": a.watchCmd,
	}
}

// usageErrors makes a wrong number of arguments and an unknown command end with exit code 2.
func usageErrors(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return daemon.Fail(daemon.ExitUsage, "%v; see `%s --help`", err, cmd.CommandPath())
			}
			return nil
		}
	}
	for _, c := range cmd.Commands() {
		usageErrors(c)
	}
}

// noArgs refuses arguments; at the root they are commands that do not exist.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.HasParent() {
		return fmt.Errorf("unexpected argument %q", args[0])
	}
	msg := fmt.Sprintf("unknown command %q", args[0])
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		msg += ", did you mean " + strings.Join(near, " or ") + "?"
	}
	return errors.New(msg)
}

// jsonFlag adds --json to a command that reads.
func (a *app) jsonFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&a.json, "json", false, "print JSON, one object a line")
}

// workspaceOf adds --workspace to a command that works on one.
func (a *app) workspaceOf(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&a.workspaceFlag, "workspace", "w", "", "workspace (default: that of the mount you are in)")
	_ = cmd.RegisterFlagCompletionFunc("workspace", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return a.completeWorkspace(cmd, nil, "")
	}) // the flag was made in the line before
}

// note prints to stderr what is no result and no error.
func (a *app) note(format string, args ...any) {
	fmt.Fprintf(a.stderr, "wsfs: "+format+"\n", args...)
}

// version is the module's version or the commit it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && (v == "" || v == "(devel)") {
			v = s.Value[:min(12, len(s.Value))]
		}
	}
	if v == "" {
		v = "(devel)"
	}
	return v
}

// explain completes errors whose cause is known by what to do about it.
func explain(err error) string {
	msg := err.Error()
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return msg + "; free space on the store's disk and try again"
	case errors.Is(err, syscall.ENOTCONN) && !strings.Contains(msg, "umount"):
		return msg + "; the daemon of this mount died: `wsfs umount` clears it, `wsfs mount` brings it back"
	}
	return msg
}

// copyAll is io.Copy that ends when ctx does.
func copyAll(ctx context.Context, w io.Writer, r io.Reader) (int64, error) {
	buf := make([]byte, 256<<10)
	var n int64
	for {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		k, err := r.Read(buf)
		if k > 0 {
			m, werr := w.Write(buf[:k])
			n += int64(m)
			if werr != nil {
				return n, werr
			}
		}
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
