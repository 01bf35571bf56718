// Package proc answers who is calling: it resolves the thread id in a FUSE request header to a session, a command and
// a process chain ([store.Attribution]).
//
// # What is a process here
//
// One [store.Process] is one image: what one exec left of one process. The same image always gives the same pointer, so
// its row is written once. A cached image costs two preads to confirm (BenchmarkResolveCached, about 1 us):
//
//   - /proc/TID/comm, kept open: the descriptor is bound to that very task, so ESRCH means that the task is gone and its
//     number may belong to somebody else;
//   - one byte of /proc/PID/pagemap, kept open: the descriptor is bound to the address space it was opened on, and the
//     kernel checks that the address space lives before it checks the arguments. EINVAL: same image; 0: the process
//     called exec (or is exiting). Neither takes the target's mmap lock. Without the right to open pagemap (a daemon that
//     is not root, a caller of another user) a changed comm is taken for an exec, and an exec that keeps comm is missed.
//
// # Sessions
//
// The session of an image is, in this order: WSFS_SESSION in the environment of the nearest process of the chain that
// has it; the mount's session; an automatic one per login session. The login session is the nearest session of the chain
// (as in setsid(2)) that has a controlling terminal, so that tools which put every child into a session of its own do
// not look like many writers; without any terminal, it is the caller's own.
//
// The session's root is, with WSFS_SESSION: the topmost process of the chain that has the same value with no other value
// in between. Otherwise: the leader of the login session. The command is the topmost process below the root, the root's
// own image for what the root does itself, and the topmost one left when the root has died. Ancestry is taken when an
// image is first seen and kept: a process whose parent exits is not re-parented in history.
//
// Below a process that was registered ([Registry]: what `wsfs run` does before it starts a program) none of that is asked:
// everything is one command of one session, the topmost registered one's, unless one further down is of another session.
// Ancestry leads there for as long as anything of it lives, because the registered process adopts orphans.
//
// What a session's root does itself is a command for each burst: see burst.
//
// Environments are never stored, and their bytes are cleared once the one variable was looked for. What is not known
// stays unknown: an environment that could not be read in time gives the mount's session or none, never the session of
// a neighbour. An environment that may not be read at all (another user's process) counts as one without the variable,
// and hides what its ancestors have.
//
// # Deadlocks
//
// A caller waits for our reply while it is being resolved. Reading /proc/PID/cmdline and environ takes the target's mmap
// lock, opening environ or pagemap takes its exec lock, and even stat and status may drop the last reference to an
// address space and write its dirty pages back to us. So everything but the two preads above is read by another
// goroutine, after yield was called, with a deadline and a bound on the number of such goroutines. One that is stuck ends
// when the kernel lets it; what it found is used from then on, as a new row. Nothing is read with the lock held.
package proc
