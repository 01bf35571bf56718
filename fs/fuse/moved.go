package fuse

import (
	"path/filepath"
	"syscall"
	"time"

	"wsfs/fs"
	"wsfs/store"
)

// epochFrom is how many names make it cheaper to let the kernel look up all it knows afresh (AllNamesChanged) than to
// tell them one by one. A notification costs 2 to 5 us, each lookup later at least as much; and the epoch takes mounts
// that lie on directories of this one away.
const epochFrom = 200_000

// Moved tells the kernel and inotify's watchers what an undo, a restore or a rollback changed.
//
// First attributes and contents, since whoever hears of a change reads the file at once. Then the echo, while the kernel
// still knows the old names, so that removals have somebody to be told to. Names last: those that the echo did not
// settle. Nothing here waits for a change of somebody else, and nothing changes.
func (m *Mount) Moved(ev *fs.Moved) { m.moved(movedView{fs: m.fs}, ev) }

// movedView is where in the mount a workspace is.
type movedView struct {
	base uint64 // of its node ids
	root string // its directory, relative to the mountpoint; "" for the mountpoint
	fs   *fs.FS
}

func (m *Mount) moved(v movedView, ev *fs.Moved) {
	start := time.Now()
	if m.echoes != nil {
		defer m.echoes.suspects.add(v, ev)()
	}
	lost, later := losesName(ev), []store.Ino(nil)
	for _, id := range ev.Inodes {
		if lost[id] {
			later = append(later, id)
		} else {
			m.notified("inode", m.notifier.inode(v.id(id)))
		}
	}
	plan := m.plan(v, ev)
	late := map[store.Ino]bool{}
	for _, id := range plan.unlinked {
		late[id] = true
	}
	for _, id := range later {
		if !late[id] {
			m.notified("inode", m.notifier.inode(v.id(id)))
		}
	}
	inodes := time.Now()
	m.tell(v, plan)
	echo := time.Now()
	defer func() {
		m.log.Debug("the kernel was told", "entries", len(ev.Entries), "inodes", len(ev.Inodes), "inodes_time", inodes.Sub(start),
			"echo_time", echo.Sub(inodes), "entries_time", time.Since(echo))
	}()
	for id := range late {
		m.notified("attributes", m.notifier.attributes(v.id(id)))
	}
	if len(ev.Entries) >= epochFrom && m.AllNamesChanged() {
		return
	}
	settled := plan.settled()
	for i := range ev.Entries {
		e := &ev.Entries[i]
		if !settled[echoKey{e.Parent, e.Name}] {
			m.notified("entry", m.notifier.entry(v.id(e.Parent), e.Name))
		}
	}
}

// losesName returns the files that lose a name here. If they have others, the kernel counts their links down itself in the
// echo; told before, it would count down twice, and say to watchers that the file is deleted.
func losesName(ev *fs.Moved) map[store.Ino]bool {
	lost := map[store.Ino]bool{}
	for i := range ev.Entries {
		if e := &ev.Entries[i]; e.Old.ID != 0 && e.Old.ID != e.New.ID && e.Old.Type != syscall.S_IFDIR {
			lost[e.Old.ID] = true
		}
	}
	return lost
}

func (v movedView) id(id store.Ino) store.Ino { return store.Ino(v.base | nodeID(id)) }

func (m *Mount) canEcho() bool {
	return !m.opts.NoEcho && len(m.opts.EchoHelper) > 0 && m.minor != 0 && m.echoes != nil && !m.ended()
}

// plan is empty where nobody is to be told.
func (m *Mount) plan(v movedView, ev *fs.Moved) *echoPlan {
	if !m.canEcho() {
		return &echoPlan{}
	}
	return planEcho(ev, liveTree{v.fs}, echoLimit)
}

type liveTree struct{ *fs.FS }

func (t liveTree) gone(id store.Ino) bool {
	a, err := t.GetAttr(nil, id, nil)
	return err != nil || a.Nlink == 0
}

// tell performs the echo.
func (m *Mount) tell(v movedView, plan *echoPlan) {
	if len(plan.ops) == 0 {
		return
	}
	start := time.Now()
	failed, err := m.echo(&echoRun{echoPlan: plan, base: v.base, fs: v.fs}, filepath.Join(m.point, v.root))
	if err != nil {
		m.log.Warn("watchers of this mount may not have heard of all that changed", "operations", len(plan.ops), "err", err)
		return
	}
	m.log.Debug("watchers were told", "operations", len(plan.ops), "failed", failed, "time", time.Since(start))
}
