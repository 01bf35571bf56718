package daemon

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"wsfs/fs"
	"wsfs/fs/fuse"
	"wsfs/internal/keep"
	"wsfs/store"
)

// What the keeper holds for the daemon after this one: of each mount the descriptor of /dev/fuse and the receipts of its
// requests, of each live workspace its ledger. The rest is in the store.

const (
	keptMountPrefix  = "mount:"
	keptLedgerPrefix = "ledger:"
)

// keptMount is what the keeper is told of a mount.
type keptMount struct {
	Request   MountRequest      `json:"request"`
	ID        uint64            `json:"id"`        // in ledgers
	Workspace store.WorkspaceID `json:"workspace"` // it shows
	Timeline  store.TimelineID  `json:"timeline,omitempty"`
	Seq       store.Seq         `json:"seq,omitempty"` // of a state of the past
	Since     time.Time         `json:"since"`
	Init      []byte            `json:"init"` // message of the kernel
	Run       bool              `json:"run,omitempty"`
}

// keeps reports whether a mount can be one that outlives this daemon.
func (d *Daemon) keeps(req *MountRequest) bool {
	return d.o.Keeper != nil && (req.Transport == "" || req.Transport == string(fuse.TransportOwn))
}

// newKept makes what outlives this daemon of a new mount; nil if nothing does.
func (d *Daemon) newKept(req *MountRequest) *fuse.Kept {
	if !d.keeps(req) {
		return nil
	}
	k, err := fuse.NewKept()
	if err != nil {
		d.log.Warn("the mount ends with this daemon", "mountpoint", string(req.Mountpoint), "error", err)
		return nil
	}
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	k.Mount = binary.LittleEndian.Uint64(b[:])>>8 | 1
	d.release(k, string(req.Mountpoint))
	return k
}

// release makes the keeper let go of a mount that ends.
func (d *Daemon) release(k *fuse.Kept, point string) {
	k.Release = func() { d.tellKeeper(d.o.Keeper.Drop(keptMountPrefix + point)) }
}

func (d *Daemon) tellKeeper(err error) {
	if err != nil {
		d.log.Warn("mounts end with this daemon: there is no keeper any more", "error", err)
	}
}

// keepMount gives a mount to the keeper. Without it the mount ends with this daemon, as it does on old kernels.
func (d *Daemon) keepMount(entry *mounted) {
	if entry.kept == nil {
		return
	}
	fd, init, ok := entry.m.Kept()
	if !ok {
		return
	}
	s := entry.show
	km := keptMount{Request: entry.req, ID: entry.kept.Mount, Workspace: s.id, Timeline: s.timeline, Seq: s.seq, Since: entry.since, Init: init}
	files := []int{fd, entry.kept.Memory()}
	if held := entry.req.held; held != nil {
		km.Run = true
		files = append(files, int(held.Fd()))
	}
	b, err := json.Marshal(&km)
	if err == nil {
		err = d.o.Keeper.Put(keptMountPrefix+string(entry.req.Mountpoint), b, files...)
	}
	d.tellKeeper(err)
}

func ledgerName(id store.WorkspaceID) string {
	return keptLedgerPrefix + strconv.FormatInt(int64(id), 10)
}

// ledger is what outlives this daemon of a live workspace: what the one before left, or a new one; nil if nothing does.
// starts is how many daemons had the workspace live before, for the same kernels.
func (d *Daemon) ledger(id store.WorkspaceID) (l *fs.Ledger, starts int) {
	if d.o.Keeper == nil {
		return nil, 0
	}
	d.mu.Lock()
	l = d.ledgers[id]
	delete(d.ledgers, id)
	d.mu.Unlock()
	if l != nil {
		return l, d.o.Keeper.Start
	}
	l, err := fs.NewLedger()
	if err != nil {
		d.log.Warn("what is open ends with this daemon", "error", err)
		return nil, 0
	}
	d.tellKeeper(d.o.Keeper.Put(ledgerName(id), nil, l.FD()))
	return l, 0
}

// dropLedger ends a ledger with its workspace.
func (d *Daemon) dropLedger(id store.WorkspaceID, l *fs.Ledger) {
	if l == nil {
		return
	}
	d.tellKeeper(d.o.Keeper.Drop(ledgerName(id)))
	if err := l.Close(); err != nil {
		d.log.Warn("close a ledger", "error", err)
	}
}

// left is a mount of the daemon before, on the way to being served again.
type left struct {
	km    keptMount
	again []*shown // workspaces that go on in a mount of all, by back
	back  []uint64 // their views
	fd    int
	kept  *fuse.Kept
	held  *os.File // of the mount of a run
	show  *shown
}

// takeOver goes on with the mounts that the daemon before left. What cannot go on ends, as if nobody had kept it.
func (d *Daemon) takeOver(ctx context.Context) {
	if d.o.Keeper == nil || len(d.o.Keeper.Left) == 0 {
		return
	}
	began := time.Now()
	var mounts []*left
	var runs leftRuns
	for i := range d.o.Keeper.Left {
		e := &d.o.Keeper.Left[i]
		if err := d.takeEntry(e, &mounts, &runs); err != nil {
			d.log.Error("take over from the daemon before", "what", e.Name, "error", err)
			d.tellKeeper(d.o.Keeper.Drop(e.Name))
		}
		e.Close() // what was taken is not there any more
	}
	d.o.Keeper.Left = nil
	// Everything is opened, and it is found out what was done, before the first request can change something.
	ready := mounts[:0]
	for _, l := range mounts {
		if err := d.reopen(ctx, l); err != nil {
			d.giveUp(l, err)
			continue
		}
		l.kept.Settle(l.settled)
		ready = append(ready, l)
	}
	d.resumeCommands(ctx, runs.commands)
	for _, l := range ready {
		if err := d.serveAgain(ctx, l); err != nil {
			d.giveUp(l, err)
		}
	}
	d.resumeRunMounts(ready, &runs)
	for _, s := range d.allSlots() {
		if s.use() {
			s.live.Dismiss()
			s.release()
		}
	}
	d.mu.Lock()
	rest := d.ledgers
	d.ledgers = nil
	d.mu.Unlock()
	for id, l := range rest { // of workspaces that nobody has mounted
		d.dropLedger(id, l)
	}
	d.mu.Lock()
	d.tried = true
	d.mu.Unlock()
	d.leaveIfIdle()
	d.log.Info("took over from the daemon before", "mounts", len(ready), "starts", d.o.Keeper.Start,
		"took", time.Since(began).String())
}

// takeEntry makes sense of one entry. What it uses of the descriptors it takes out of it.
func (d *Daemon) takeEntry(e *keep.Entry, mounts *[]*left, runs *leftRuns) error {
	if ours, err := runs.take(e); ours {
		return err
	}
	if name, ok := strings.CutPrefix(e.Name, keptLedgerPrefix); ok && len(e.Files) == 1 {
		id, err := strconv.ParseInt(name, 10, 64)
		if err != nil {
			return err
		}
		fd := e.Files[0]
		e.Files = nil
		l, err := fs.OpenLedger(fd)
		if err != nil {
			return err
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.ledgers == nil {
			d.ledgers = map[store.WorkspaceID]*fs.Ledger{}
		}
		d.ledgers[store.WorkspaceID(id)] = l
		return nil
	}
	if !strings.HasPrefix(e.Name, keptMountPrefix) || len(e.Files) < 2 {
		return fmt.Errorf("it is not known what it is: %w", syscall.EPROTO)
	}
	l := &left{}
	if err := json.Unmarshal(e.Data, &l.km); err != nil {
		return err
	}
	memory, more := e.Files[1], e.Files[2:]
	e.Files = e.Files[:1]
	for _, fd := range more {
		if l.km.Run && l.held == nil {
			l.held = heldFile(fd, string(l.km.Request.Mountpoint))
		} else {
			_ = syscall.Close(fd)
		}
	}
	l.km.Request.run, l.km.Request.held = l.km.Run, l.held
	var err error
	if l.kept, err = fuse.OpenKept(memory); err != nil {
		return err
	}
	l.fd, e.Files = e.Files[0], nil
	l.kept.Mount, l.kept.FD, l.kept.Init, l.kept.Starts = l.km.ID, l.fd, l.km.Init, d.o.Keeper.Start
	d.release(l.kept, string(l.km.Request.Mountpoint))
	*mounts = append(*mounts, l)
	return nil
}

// giveUp ends a mount that cannot go on: its users get ENOTCONN.
func (d *Daemon) giveUp(l *left, err error) {
	point := string(l.km.Request.Mountpoint)
	d.log.Error("a mount of the daemon before cannot go on; `wsfs mount` makes it anew", "mountpoint", point, "error", err)
	d.mu.Lock()
	delete(d.mounts, point)
	d.mu.Unlock()
	l.kept.Release()
	l.kept.Close()
	if l.fd >= 0 {
		_ = syscall.Close(l.fd)
	}
	if l.show != nil {
		l.show.release()
	}
	for _, s := range l.again {
		s.release()
	}
	if l.held != nil {
		_ = l.held.Close()
		l.held = nil
	}
}

// reopen opens what a mount showed.
func (d *Daemon) reopen(ctx context.Context, l *left) error {
	if l.km.Request.All {
		l.show = &shown{workspace: allLabel, release: func() {}}
		return d.reopenAll(ctx, l)
	}
	ws, err := d.st.WorkspaceByID(ctx, l.km.Workspace)
	if err != nil {
		return err
	}
	if ws.DroppedAt != 0 {
		return fmt.Errorf("workspace %q was dropped: %w", ws.Name, syscall.ENOENT)
	}
	req := &l.km.Request
	switch {
	case l.km.Seq != 0:
		l.show, err = d.showPastAgain(ctx, ws, l.km)
	case req.Temporary:
		l.show, err = d.showForkAgain(ctx, ws, req.Session)
	default:
		l.show, err = d.showLive(ctx, ws.Name, req.Session)
	}
	if err != nil {
		return err
	}
	return d.reopenAll(ctx, l) // transactions
}

// serveAgain serves a mount that the kernel has already.
func (d *Daemon) serveAgain(ctx context.Context, l *left) error {
	req := l.km.Request
	point := string(req.Mountpoint)
	entry := &mounted{req: req, since: l.km.Since, gone: make(chan struct{}), kept: l.kept, show: l.show}
	d.mu.Lock()
	d.tried = true
	d.mounts[point] = entry
	d.mu.Unlock()
	fd := l.fd
	l.fd = -1 // whatever comes, the mount closes it
	var m *fuse.Mount
	var err error
	if req.All {
		m, err = d.mountAll(ctx, &req, l.kept, l.back)
	} else {
		m, err = d.serveShown(ctx, &req, l.show, l.kept, l.back)
	}
	for _, s := range l.again { // the mount has them now
		s.release()
	}
	l.again = nil
	if err != nil {
		_ = syscall.Close(fd)
		return err
	}
	d.mu.Lock()
	entry.m, entry.req = m, req
	d.mu.Unlock()
	d.keepMount(entry) // under this daemon's name for the workspace
	d.attend(entry)
	return nil
}
