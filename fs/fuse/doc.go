// Package fuse shows one live workspace (package fs) to the Linux kernel as a mounted file system. It is pure
// translation: it knows the FUSE protocol and nothing of timelines, versions or blobs.
//
// What it keeps true:
//   - Every request that wants a reply gets exactly one, also when a handler panics or the message makes no sense.
//   - The reader's role is never held by somebody who waits: a handler that is about to block calls Call.Yield first,
//     and another goroutine reads on; one that is kept waiting without knowing loses the role (watch.go). A request that
//     waits therefore never keeps another one from being answered.
//   - Over io_uring (uring.go) the same holds of the thread for which the kernel keeps an entry.
//   - Notifications to the kernel are written by one goroutine of their own, never by the reader and never under a lock:
//     the kernel takes the directory's lock for them, which a request that we have not answered may hold.
//   - What an undo or a rollback changed is told to the kernel, and to inotify's watchers by a helper process (echo.go).
//   - An idle mount costs no processor time.
//
// What it never does: read the mounted tree itself (a daemon that stats its own mount waits for itself), keep bytes of
// a request after its handler returned, or print.
//
// Locks, outermost first; none is held while a handler, a notification or a system call on /dev/fuse runs:
//
//	conn.mu       roles: parked followers, free workers
//	rings.mu      the workers over io_uring, and what was interrupted; conn.mu may be held
//	feeder.mu     replies that a queue is to hand in
//	handles.mu    the table from the kernel's handle numbers to open files
//	notifier.mu   the queue of notifications
//	echoPlan.mu   what one echo helper has done; held by a request of that helper while it looks at the tree
//	dirHandle.mu  one directory stream: held during READDIR, which may block; nothing else waits for it
package fuse
