package proc

import (
	"errors"
	"io/fs"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"wsfs/store"
)

// MaxArgv is how many bytes of a command line are kept.
const MaxArgv = 4 << 10

// image is one process as it was when it was first seen, while its facts are read and after. Guarded by Resolver.mu
// unless noted.
type image struct {
	pid     int           // immutable
	since   time.Time     // immutable; when reading began
	done    chan struct{} // immutable; closed when nothing more will be read
	comm    *file         // immutable; its cache entry's
	space   *file         // pagemap, owned by the cache entry; nil if it may not be used
	dropped bool          // no longer in the cache
	late    atomic.Bool   // somebody has waited for done in vain: nobody does again

	facts  facts
	known  bool   // facts hold all but argv and env
	placed bool   // parent is final
	parent *image // nil: none, or not needed any more
	whole  bool   // done is closed: facts hold what will ever be known
	err    error  // why they do not hold everything; then the image is not in the cache

	node    *node // once it is decided
	who     store.Attribution
	session *session // of who, once it is final; nil if unknown
	partial bool     // who was made before everything was known
	final   bool     // who was made from node
}

// reader collects the facts of one image in a goroutine of its own: each step may wait for the process.
type reader struct {
	r    *Resolver
	img  *image
	comm *file
	dir  dir
	uid  uint32
	hops int // how many descendants of it asked
	buf  *buffer
}

// run has no deadline: what is slow is used by later requests. Resolver.startReading bounds how many there are.
func (rd *reader) run() {
	defer rd.dir.close()
	defer rd.comm.release()
	rd.buf = rd.r.borrow()
	defer rd.r.giveBack(rd.buf)
	for pause := time.Millisecond; ; pause *= 2 {
		f, space, err := rd.read()
		// An ancestor may call exec while we read: its old comm must not go with its new argv.
		again := errors.Is(err, errInExec) || err == nil && !rd.unchanged(f, space)
		if again && pause < 100*time.Millisecond {
			space.release()
			time.Sleep(pause)
			continue
		}
		rd.r.finish(rd.img, f, space, err)
		return
	}
}

// read publishes what it has as it goes, so that a caller whose patience ends gets at least that.
func (rd *reader) read() (f facts, space *file, err error) {
	if f, err = rd.readFacts(); err != nil {
		return f, nil, err
	}
	rd.r.publish(rd.img, f)
	parentErr := rd.findParent(f)
	space = rd.openSpace(f)
	var seen int
	if f.env, seen, err = rd.readEnviron(f); err != nil {
		return f, space, err
	}
	if seen > 0 || f.env.state != envAbsent {
		rd.r.publish(rd.img, f)
	}
	if parentErr != nil {
		return f, space, parentErr
	}
	buf, err := rd.dir.read("cmdline", rd.buf[:MaxArgv+1])
	if err != nil && !gone(err) && !errors.Is(err, fs.ErrPermission) {
		return f, space, err
	}
	f.argv = parseArgv(buf)
	if f.env.state == envAbsent && seen == 0 && len(buf) == 0 && f.flags&flagKernel == 0 {
		// No process has neither: its memory is gone, or exec has not filled it in yet.
		if !rd.exiting() {
			return f, space, errInExec
		}
		f.env = environ{}
	}
	return f, space, nil
}

var errInExec = errors.New("the process does not get on with its exec")

func (rd *reader) readStat() (stat, error) {
	line, err := rd.dir.read("stat", rd.buf[:maxStat])
	if err != nil {
		return stat{}, err
	}
	return parseStat(line)
}

func (rd *reader) exiting() bool {
	st, err := rd.readStat()
	return err != nil || st.exiting()
}

func (rd *reader) readFacts() (f facts, err error) {
	if f.stat, err = rd.readStat(); err != nil {
		return f, err
	}
	f.uid = rd.uid
	f.cwd = rd.dir.link("cwd")
	if f.sid != f.pid && f.sid != f.ppid && f.sid != 0 {
		f.leader = rd.r.leader(f.sid, f.start, rd.buf)
	}
	return f, nil
}

// findParent gets the parent read too. If it dies meanwhile, there is another one.
func (rd *reader) findParent(f facts) error {
	ppid := f.ppid
	for range 3 {
		if ppid == 0 || rd.hops >= maxHops {
			break
		}
		parent, err := rd.r.process(ppid, rd.hops+1)
		if err == nil {
			rd.r.setParent(rd.img, parent)
			return nil
		}
		if !gone(err) {
			return err
		}
		st, err := rd.readStat()
		if err != nil {
			return err
		}
		ppid = st.ppid
	}
	rd.r.setParent(rd.img, nil)
	return nil
}

// openSpace opens the detector of exec, see the package comment. A check holds a reference to the address space for an
// instant: it must never be one that we could be the last to hold, which a child between vfork and exec would make
// possible once its parent exits.
func (rd *reader) openSpace(f facts) *file {
	if f.flags&flagKernel != 0 || f.exiting() {
		return nil
	}
	if f.flags&flagForkNoExec != 0 && f.ppid != 0 && sharesSpace(f.pid, f.ppid) {
		return nil
	}
	fd, err := rd.dir.open("pagemap")
	if err != nil {
		return nil
	}
	space := newFile(fd)
	if !space.sameSpace() { // a kernel, or a fake /proc, that does not answer as we need
		space.release()
		return nil
	}
	return space
}

// readEnviron also returns how many bytes there were.
func (rd *reader) readEnviron(f facts) (environ, int, error) {
	if f.flags&flagKernel != 0 {
		return environ{state: envAbsent}, 0, nil
	}
	fd, err := rd.dir.open("environ")
	var name string
	var seen int
	if err == nil {
		defer unix.Close(fd)
		name, seen, err = findVariable(fdReader(fd), SessionVariable, rd.buf[:])
	}
	switch {
	case errors.Is(err, fs.ErrPermission):
		return environ{state: envDenied}, 0, nil
	case gone(err):
		return environ{}, 0, nil
	case err != nil:
		return environ{}, 0, err
	case name == "":
		return environ{state: envAbsent}, seen, nil
	}
	return environ{state: envSet, name: name}, seen, nil
}

// unchanged reports whether the facts are of one image.
func (rd *reader) unchanged(f facts, space *file) bool {
	if space != nil {
		return space.sameSpace()
	}
	return unchanged(rd.comm, nil, nil, true, f.comm)
}

// gone reports whether an error says that the task does not exist any more.
func gone(err error) bool {
	return errors.Is(err, syscall.ESRCH) || errors.Is(err, fs.ErrNotExist)
}
