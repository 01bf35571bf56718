package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"wsfs/internal/daemon"
)

// ChildCommand is the first argument of the keeper's process; the second is the descriptor of its socket.
const ChildCommand = "run-child"

// Spec is what to run, and where.
type Spec struct {
	Store   string                // its directory
	Mount   string                // where the workspace is mounted; "": the program needs no namespace
	Daemon  int                   // process that serves it
	Target  string                // where it is to appear
	Dir     string                // working directory of the program
	Argv    []string              // of the program
	Command daemon.CommandRequest // what the daemon is told
	// Merge is asked for if the program ends with 0, as a part of what it did; nil: nothing is.
	Merge *daemon.MergeRequest
}

// Result is how the program ended.
type Result struct {
	Exit     int                   // as a shell would say it: 128+n for signal n, 126 and 127 if it could not be started
	Signal   syscall.Signal        // that killed it
	Commands []daemon.EndedCommand // what it is in the workspaces that it changed
	Unknown  bool                  // the daemon could not be told: Commands is not known
	Merged   *daemon.MergeReply    // what came of Spec.Merge; nil: nothing was changed, and Failed says why if that is no
	Failed   *daemon.ErrorBody     // good reason
}

// event is what the keeper says.
type event struct {
	Failed   string                `json:"failed,omitempty"` // it could not come to start the program
	Missing  string                `json:"missing,omitempty"`
	Exit     int                   `json:"exit"`
	Signal   int                   `json:"signal,omitempty"`
	Commands []daemon.EndedCommand `json:"commands,omitempty"`
	Unknown  bool                  `json:"unknown,omitempty"`

	Merged      *daemon.MergeReply `json:"merged,omitempty"`
	MergeFailed *daemon.ErrorBody  `json:"merge_failed,omitempty"`
}

// Run is a program that runs.
type Run struct {
	link   *os.File
	enc    *json.Encoder
	keeper *os.Process
}

// NamespaceError says that this process may not have a mount namespace.
type NamespaceError struct{ Err error }

func (e *NamespaceError) Error() string {
	return "make a private mount namespace: " + e.Err.Error() + "; " + namespaceAdvice(e.Err) +
		"; or do without: `wsfs mount WS DIR`, and run the program there"
}

func (e *NamespaceError) Unwrap() error { return e.Err }

// Advice says what to do about it.
func (e *NamespaceError) Advice() string { return namespaceAdvice(e.Err) }

func namespaceAdvice(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return "sysctl user.max_user_namespaces or user.max_mnt_namespaces is 0 or used up"
	case os.Geteuid() == 0:
		return "root needs CAP_SYS_ADMIN for it, which containers often take away (docker run --cap-add SYS_ADMIN)"
	case errors.Is(err, syscall.EACCES):
		return "AppArmor forbids it to programs without a profile (sysctl kernel.apparmor_restrict_unprivileged_userns=1)"
	}
	return "users need user namespaces for it (sysctl kernel.unprivileged_userns_clone=1, " +
		"kernel.apparmor_restrict_unprivileged_userns=0, user.max_user_namespaces above 0, and no seccomp filter against unshare)"
}

// Start starts the keeper from exe and hands it spec. env is the program's environment.
func Start(exe string, spec Spec, env []string) (*Run, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("start the program: %w", err)
	}
	// High and inherited by number: descriptors 3, 4, ... may be the program's (`wsfs run -- diff <(a) <(b)`).
	theirs, err := unix.FcntlInt(uintptr(fds[1]), unix.F_DUPFD, 100)
	_ = unix.Close(fds[1])
	if err != nil {
		_ = unix.Close(fds[0])
		return nil, fmt.Errorf("start the program: %w", err)
	}
	defer unix.Close(theirs)
	r := &Run{link: os.NewFile(uintptr(fds[0]), "keeper")}
	r.enc = json.NewEncoder(r.link)
	for _, sys := range attempts(spec.Mount != "") {
		r.keeper, err = os.StartProcess(exe, []string{"wsfs", ChildCommand, strconv.Itoa(theirs)}, &os.ProcAttr{
			Env: env, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Sys: sys,
		})
		if err == nil || !errors.Is(err, syscall.EPERM) {
			break
		}
	}
	if err != nil {
		_ = r.link.Close()
		if spec.Mount != "" {
			return nil, &NamespaceError{err}
		}
		return nil, fmt.Errorf("start the program: %w", err)
	}
	if err := r.enc.Encode(spec); err != nil {
		_ = r.keeper.Kill()
		_ = r.link.Close()
		return nil, fmt.Errorf("start the program: %w", err)
	}
	return r, nil
}

// attempts are the ways to get a mount namespace, the best first: a user namespace maps nobody but the user, and with it
// sudo and supplementary groups are lost.
func attempts(namespace bool) []*syscall.SysProcAttr {
	if !namespace {
		return []*syscall.SysProcAttr{nil}
	}
	user := &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}},
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN}, // exec takes all others; the keeper takes this one from the program
	}
	if os.Geteuid() != 0 {
		return []*syscall.SysProcAttr{user}
	}
	return []*syscall.SysProcAttr{{Cloneflags: unix.CLONE_NEWNS}, user}
}

// Signal passes a signal on to the program.
func (r *Run) Signal(sig syscall.Signal) { _ = r.enc.Encode(int(sig)) } // a keeper that is gone has no program

// Wait returns when the program has ended. What it left in the background may live on.
func (r *Run) Wait() (Result, error) {
	defer r.link.Close()
	var ev event
	if err := json.NewDecoder(r.link).Decode(&ev); err != nil {
		state, werr := r.keeper.Wait()
		if werr != nil {
			return Result{}, fmt.Errorf("run the program: its keeper is gone: %w", err)
		}
		return Result{}, fmt.Errorf("run the program: its keeper ended before it: %s", state)
	}
	if ev.Failed != "" {
		_, _ = r.keeper.Wait()
		return Result{}, errors.New(ev.Failed)
	}
	if ev.Missing != "" {
		_, _ = r.keeper.Wait()
		return Result{Exit: ev.Exit}, &MissingError{ev.Missing}
	}
	return Result{ev.Exit, syscall.Signal(ev.Signal), ev.Commands, ev.Unknown, ev.Merged, ev.MergeFailed}, nil
}

// MissingError is a program that could not be started.
type MissingError struct{ text string }

func (e *MissingError) Error() string { return e.text }
