package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"wsfs/internal/daemon"
)

// Child is the whole life of the keeper, if args are its own: the process ends with code after it. ok is false for any
// other process.
func Child(args []string) (code int, ok bool) {
	if len(args) != 3 || args[1] != ChildCommand {
		return 0, false
	}
	if args[2] == probe {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
			return 1, true
		}
		return 0, true
	}
	fd, err := strconv.Atoi(args[2])
	if err != nil || fd < 3 {
		return 0, false
	}
	runtime.LockOSThread() // capabilities and the subreaper's children belong to a thread
	syscall.CloseOnExec(fd)
	_ = os.WriteFile("/proc/self/comm", []byte(daemon.KeeperName), 0) // a name for ps, and for who unmounts
	dropped := make(chan os.Signal, 8)
	for _, s := range Passed() {
		if !signal.Ignored(s) { // else the program shall inherit that
			signal.Notify(dropped, s)
		}
	}
	k := &keeper{link: os.NewFile(uintptr(fd), "asker")}
	k.enc = json.NewEncoder(k.link)
	dec := json.NewDecoder(k.link)
	if err := dec.Decode(&k.spec); err != nil {
		return 0, true // nobody asks any more
	}
	if err := k.enter(); err != nil {
		k.say(event{Failed: err.Error()})
		return 0, true
	}
	if !k.start() {
		return 0, true
	}
	go k.passSignals(dec)
	k.reap()
	return 0, true
}

// Passed are the signals that `wsfs run` passes on.
func Passed() []os.Signal {
	return []os.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2}
}

type keeper struct {
	spec Spec
	link *os.File
	enc  *json.Encoder

	mu  sync.Mutex
	pid int // of the program, 0 once it has been waited for; guarded by mu
}

func (k *keeper) say(ev event) {
	_ = k.enc.Encode(ev) // the asker may have been killed: the program runs on
	_ = k.link.Close()
}

// enter makes the workspace appear, registers this process and takes no more than it needs along.
func (k *keeper) enter() error {
	if k.spec.Mount != "" {
		if err := bind(&k.spec); err != nil {
			return err
		}
	}
	if err := os.Chdir(k.spec.Dir); err != nil {
		return fmt.Errorf("go to %s in the workspace: %w", k.spec.Dir, err)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the parent of orphans: %w", err)
	}
	if err := dropCapabilities(); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	c, err := daemon.Dial(k.spec.Store)
	if err == nil && c == nil {
		err = errors.New("the daemon has ended")
	}
	if err == nil {
		err = c.RegisterCommand(context.Background(), k.spec.Command)
	}
	if err != nil {
		return fmt.Errorf("register the command: %w", err)
	}
	return nil
}

// dropCapabilities takes from this thread what the program would inherit, and was given to make the mount.
func dropCapabilities() error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&head, &caps[0]); err != nil {
		return err
	}
	for i := range caps {
		caps[i].Inheritable = 0
	}
	return unix.Capset(&head, &caps[0])
}

// start starts the program; false if it could not, which has been said.
func (k *keeper) start() bool {
	path, err := exec.LookPath(k.spec.Argv[0])
	if errors.Is(err, exec.ErrDot) {
		err = nil // as execvp does
	}
	var p *os.Process
	if err == nil {
		k.mu.Lock()
		p, err = os.StartProcess(path, k.spec.Argv, &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
		if err == nil {
			k.pid = p.Pid
		}
		k.mu.Unlock()
	}
	if err != nil {
		ev := event{Exit: 127, Missing: fmt.Sprintf("run %s: %v", k.spec.Argv[0], cause(err))}
		if !errors.Is(err, exec.ErrNotFound) && !errors.Is(err, os.ErrNotExist) {
			ev.Exit = 126
		}
		k.ended(&ev)
		k.say(ev)
		return false
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err == nil {
		for fd := range 3 { // whoever reads the other end of a pipe waits for the program, not for us
			_ = unix.Dup3(int(null.Fd()), fd, 0)
		}
		_ = null.Close()
	}
	return true
}

func cause(err error) error {
	var e *exec.Error
	if errors.As(err, &e) {
		return e.Err
	}
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// passSignals ends when the asker does.
func (k *keeper) passSignals(dec *json.Decoder) {
	for {
		var sig int
		if err := dec.Decode(&sig); err != nil {
			return
		}
		k.mu.Lock()
		if k.pid != 0 {
			_ = unix.Kill(k.pid, syscall.Signal(sig))
		}
		k.mu.Unlock()
	}
}

// reap waits for the program, tells about it, and goes on until nothing is left that came from it.
func (k *keeper) reap() {
	k.mu.Lock()
	program := k.pid
	k.mu.Unlock()
	for {
		var info unix.Siginfo
		// First look, then take: the number is the program's until nobody can send it a signal any more.
		err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOWAIT, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return // no children
		}
		var ws unix.WaitStatus
		k.mu.Lock()
		pid, err := unix.Wait4(-1, &ws, unix.WNOHANG, nil)
		if pid == program {
			k.pid = 0
		}
		k.mu.Unlock()
		if err != nil || pid != program {
			continue
		}
		ev := event{Exit: ws.ExitStatus()}
		if ws.Signaled() {
			ev.Exit, ev.Signal = 128+int(ws.Signal()), int(ws.Signal())
		}
		k.ended(&ev)
		k.say(ev)
	}
}

// endPatience is for a daemon that was killed just now and is being started again.
const (
	endPatience = 3 * time.Second
	endPause    = 50 * time.Millisecond
)

// ended tells the daemon, and ev what the daemon says.
func (k *keeper) ended(ev *event) {
	if k.spec.Merge != nil && ev.Exit == 0 {
		k.merge(ev)
	}
	for deadline := time.Now().Add(endPatience); ; time.Sleep(endPause) {
		c, err := daemon.Dial(k.spec.Store)
		if err == nil && c != nil {
			var res daemon.EndReply
			res, err = c.EndCommand(context.Background(), daemon.EndRequest{Exit: ev.Exit, Signal: ev.Signal})
			if err == nil {
				ev.Commands = res.Commands
				return
			}
			if !errors.As(err, new(*daemon.GoneError)) {
				break
			}
		}
		if time.Now().After(deadline) {
			break
		}
	}
	ev.Unknown = true
}

// mergePatience is how long the keeper waits for a daemon, and for the next one, to merge what its program did.
const mergePatience = 10 * time.Second

// merge has what the program did merged. It is asked for by this process, which is registered, so that the merge is what the
// command did.
func (k *keeper) merge(ev *event) {
	got, err := daemon.MergeOnce(context.Background(), k.spec.Store, *k.spec.Merge, mergePatience)
	switch {
	case err == nil:
		ev.Merged = &got
	case daemon.ExitCode(err) != daemon.ExitNothing:
		ev.MergeFailed = &daemon.ErrorBody{Error: err.Error(), Exit: daemon.ExitCode(err)}
	}
}
