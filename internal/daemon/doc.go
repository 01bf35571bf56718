// Package daemon is the one process that writes to a store. It owns the store's lock, keeps one live file system
// (fs.FS) for each workspace that is mounted, serves the mounts, and answers an HTTP API on the unix socket `sock` in
// the store's directory. Without a running daemon a command opens the same Daemon in its own process and calls the same
// http.Handler (see InProcess), so there is one implementation of every change.
//
// What it keeps true:
//   - One daemon per store: the lock is taken before anything else, and whoever fails to get it is told who has it.
//   - It never touches its own mounts. No path below a mountpoint is opened or stat'ed here, because the answer would
//     have to come from this very process; whether something is mounted is asked of /proc/self/mountinfo. Symbolic
//     links in a mountpoint's path are resolved by the command, not here.
//   - A mount that outlived its daemon is found by the file `mounts` and by the source in the mount table, and is
//     cleared before the next one is made.
//   - What a mount needs of the past is pinned in the database while it is there, and what a killed daemon left of that
//     (pins, temporary forks) is removed before the next one serves.
//   - What was acknowledged by close(2) is in the journal, so ending at any moment loses nothing of it.
//
// The API (see api.go for the bodies). Errors are JSON {"error", "exit"}: the message for a person and the exit code
// that the command should end with.
//
//	GET    /v1/status            daemon, store and its mounts
//	GET    /v1/mounts            the mounts
//	POST   /v1/mounts            mount a workspace
//	DELETE /v1/mounts?mountpoint=PATH[&lazy=1] | ?all=1
//	POST   /v1/sync              apply everything up to now; {"durable": true}: and survive a power loss
//	POST   /v1/workspaces        make a workspace
//	POST   /v1/import            read a directory into a workspace; NDJSON progress, the last line is the result
//	POST   /v1/restore           bring a path back to what it was
//	POST   /v1/undo, /v1/redo, /v1/rollback  take changes back; NDJSON: the plan, then the result
//	POST   /v1/forks             make a workspace that starts at a revision of another
//	POST   /v1/drop, /v1/undrop  take a workspace away, bring it back
//	POST   /v1/tags              name a revision, or remove the name
//	POST   /v1/hold              keep packs from being deleted while the answer is read
//	GET    /metrics              Prometheus text
//	GET    /debug/pprof/...      profiles
//
// Locks, outermost first; neither is held while a mount is served or the kernel is waited for:
//
//	names.undrop, names.tags  one such request at a time
//	slot.mu    one workspace: opening and closing its file system
//	└─ names.mu   which names are taken; held while an op that takes or frees one gets its place in the journal
//	   └─ Daemon.mu  the tables of workspaces and mounts
package daemon
