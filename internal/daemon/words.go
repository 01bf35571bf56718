package daemon

import (
	"context"
	"errors"
	flags "flag"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"wsfs/internal/control"
	"wsfs/internal/ui"
	"wsfs/versions"
)

// runWords runs a command that was written to the ctl of a workspace: the words are those of the command line, without
// the workspace. Whoever wrote them, as ctx says, is the author of what they change.
func (d *Daemon) runWords(ctx context.Context, s *slot, words []string) control.Result {
	text, err := d.words(ctx, s, words)
	if err == nil {
		return control.Result{Text: text}
	}
	d.log.Debug("ctl", "workspace", s.name, "command", words, "error", err)
	if text != "" {
		text += "\n"
	}
	return control.Result{Text: text + err.Error(), Exit: ExitCode(err), Errno: wordsErrno(err)}
}

// wordsErrno is what the write of a command returns: what is wrong in the line is EINVAL, what somebody has to decide
// EBUSY, nothing to do ENODATA.
func wordsErrno(err error) syscall.Errno {
	var errno syscall.Errno
	switch ExitCode(err) {
	case ExitUsage:
		return syscall.EINVAL
	case ExitDecision:
		return syscall.EBUSY
	case ExitNothing:
		return syscall.ENODATA
	}
	if errors.As(err, &errno) {
		return errno
	}
	return syscall.EIO
}

func (d *Daemon) words(ctx context.Context, s *slot, words []string) (string, error) {
	defer d.st.UseHistory()()
	name, args := words[0], words[1:]
	switch name {
	case "undo":
		return d.undoWords(ctx, s, args)
	case "redo":
		return d.redoWords(ctx, s, args)
	case "rollback":
		return d.rollbackWords(ctx, s, args)
	case "fork":
		return d.forkWords(ctx, s, args)
	case "tag":
		return d.tagWords(ctx, s, args)
	case "begin":
		return d.beginWords(ctx, s, args)
	case "commit":
		return d.commitWords(ctx, s, args)
	case "abort":
		return d.abortWords(ctx, s, args)
	}
	return "", Fail(ExitUsage, "there is no command %s; reading ctl tells which there are: %w", ui.Quote(name), syscall.EINVAL)
}

// wordFlags are the options of a command, which may stand before and behind its arguments.
type wordFlags struct {
	*flags.FlagSet
}

func newWordFlags(name string) wordFlags {
	f := flags.NewFlagSet(name, flags.ContinueOnError)
	f.SetOutput(io.Discard)
	f.Usage = func() {}
	return wordFlags{f}
}

// parse returns the arguments; what stands behind -- is one.
func (f wordFlags) parse(words []string) ([]string, error) {
	var args []string
	for len(words) > 0 {
		before := len(words)
		if err := f.Parse(words); err != nil {
			return nil, Fail(ExitUsage, "%s: %v: %w", f.Name(), err, syscall.EINVAL)
		}
		rest := f.Args()
		if used := before - len(rest); used > 0 && words[used-1] == "--" {
			return append(args, rest...), nil
		}
		if len(rest) == 0 {
			break
		}
		args, words = append(args, rest[0]), rest[1:]
	}
	return args, nil
}

// wordList is an option that may be given several times.
type wordList []string

func (l *wordList) String() string { return strings.Join(*l, " ") }

// Set implements flag.Value.
func (l *wordList) Set(s string) error {
	*l = append(*l, s)
	return nil
}

// revisionOf reads a point of the workspace: 5m, 1234, c12+, @TAG, @REV; "" is its present.
func (s *slot) revisionOf(word string) (string, error) {
	rev := versions.Revision{}
	if word != "" {
		var err error
		if rev, err = versions.Parse("@"+strings.TrimPrefix(word, "@"), time.Local); err != nil {
			return "", err
		}
	}
	rev.Workspace = s.name
	return rev.String(), nil
}

// lastAndRevision reads [REV] NAME.
func (s *slot) lastAndRevision(what string, args []string) (rev, last string, err error) {
	switch len(args) {
	case 1:
	case 2:
		rev = args[0]
	default:
		return "", "", Fail(ExitUsage, "%s: write %s [REV] NAME: %w", what, what, syscall.EINVAL)
	}
	if rev, err = s.revisionOf(rev); err != nil {
		return "", "", err
	}
	return rev, args[len(args)-1], nil
}

func (d *Daemon) forkWords(ctx context.Context, s *slot, words []string) (string, error) {
	args, err := newWordFlags("fork").parse(words)
	if err != nil {
		return "", err
	}
	rev, name, err := s.lastAndRevision("fork", args)
	if err != nil {
		return "", err
	}
	out, err := d.fork(ctx, ForkRequest{Revision: rev, Name: name})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s starts as %s@%d", out.Workspace, out.Parent, out.BaseSeq), nil
}

func (d *Daemon) tagWords(ctx context.Context, s *slot, words []string) (string, error) {
	f := newWordFlags("tag")
	var req TagRequest
	f.BoolVar(&req.Force, "force", false, "")
	f.BoolVar(&req.Force, "f", false, "")
	f.BoolVar(&req.Delete, "delete", false, "")
	f.BoolVar(&req.Delete, "d", false, "")
	args, err := f.parse(words)
	if err != nil {
		return "", err
	}
	if req.Revision, req.Name, err = s.lastAndRevision("tag", args); err != nil {
		return "", err
	}
	out, err := d.tag(ctx, req)
	switch {
	case err != nil:
		return "", err
	case req.Delete:
		return fmt.Sprintf("%s@%s is no tag any more; it was %s@%d", out.Workspace, out.Tag, out.Workspace, out.Seq), nil
	case out.Was != 0:
		return fmt.Sprintf("%s@%s is %s@%d now, it was @%d", out.Workspace, out.Tag, out.Workspace, out.Seq, out.Was), nil
	}
	return fmt.Sprintf("%s@%s is %s@%d", out.Workspace, out.Tag, out.Workspace, out.Seq), nil
}
