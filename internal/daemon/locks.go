package daemon

import (
	"context"
	"errors"
	"math"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"wsfs/fs"
	"wsfs/store"
)

// LockRequest asks for a lease, to renew or to end one, or whether one is held.
type LockRequest struct {
	Name    string `json:"name"`
	Token   int64  `json:"token,omitempty"`  // of renew, end and check
	TTL     int64  `json:"ttl_ms,omitempty"` // of take and renew
	Wait    int64  `json:"wait_ms,omitempty"`
	Session string `json:"session,omitempty"`
	PID     int    `json:"pid,omitempty"`
}

// LeaseReply is a lease.
type LeaseReply struct {
	Name    string `json:"name"`
	Token   int64  `json:"token"`
	Session string `json:"session,omitempty"`
	PID     int    `json:"pid,omitempty"`
	Host    string `json:"host,omitempty"`
	Since   string `json:"since"`
	Expires string `json:"expires"`
}

// FileLock is a lock of flock(2) or fcntl(2) on a file of a workspace.
type FileLock struct {
	Workspace string `json:"workspace"`
	Path      Path   `json:"path"` // "" if it has no name any more
	Inode     int64  `json:"inode"`
	Kind      string `json:"kind"` // flock; fcntl: of processes and of open files
	Type      string `json:"type"` // read, write
	Start     int64  `json:"start"`
	End       int64  `json:"end,omitempty"` // the last byte; left out: to the end of the file, wherever that is
	PID       int    `json:"pid,omitempty"`
	Session   string `json:"session,omitempty"`
	Waiting   bool   `json:"waiting,omitempty"`
}

// LocksReply is all locks of a store.
type LocksReply struct {
	Files  []FileLock   `json:"files"`
	Leases []LeaseReply `json:"leases"`
}

const (
	// maxLeaseTTL and minLeaseTTL bound how long a lease lives without its holder.
	minLeaseTTL = time.Second
	maxLeaseTTL = 24 * time.Hour
	// maxLeaseWait is how long one request waits; who wants to wait longer asks again.
	maxLeaseWait = 20 * time.Second
)

// leases wakes who waits for one.
type leases struct {
	mu      sync.Mutex
	changed chan struct{} // guarded by mu; closed when one was given back, nil while nobody waits
}

func (l *leases) watch() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return l.changed
}

func (l *leases) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

func (d *Daemon) lockRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/locks", reply(func(r *http.Request, _ *struct{}) (any, error) { return d.locks(r.Context()) }))
	for path, fn := range map[string]func(context.Context, *LockRequest) (LeaseReply, error){
		"/v1/locks/take": d.takeLease, "/v1/locks/renew": d.renewLease, "/v1/locks/end": d.endLease, "/v1/locks/check": d.checkLease,
	} {
		mux.HandleFunc("POST "+path, reply(func(r *http.Request, req *LockRequest) (any, error) { return fn(r.Context(), req) }))
	}
}

// Locks lists who holds what.
func (c *Client) Locks(ctx context.Context) (LocksReply, error) {
	var out LocksReply
	return out, c.do(ctx, http.MethodGet, "/v1/locks", nil, &out)
}

// TakeLock takes a lease. EBUSY: somebody has it.
func (c *Client) TakeLock(ctx context.Context, req LockRequest) (LeaseReply, error) {
	return c.lock(ctx, "take", req)
}

// RenewLock lets a lease go on. ESTALE: it is lost.
func (c *Client) RenewLock(ctx context.Context, req LockRequest) (LeaseReply, error) {
	return c.lock(ctx, "renew", req)
}

// EndLock gives a lease back. ESTALE: it is lost.
func (c *Client) EndLock(ctx context.Context, req LockRequest) (LeaseReply, error) {
	return c.lock(ctx, "end", req)
}

// CheckLock asks whether a token holds its lease. ESTALE: it does not.
func (c *Client) CheckLock(ctx context.Context, req LockRequest) (LeaseReply, error) {
	return c.lock(ctx, "check", req)
}

func (c *Client) lock(ctx context.Context, what string, req LockRequest) (LeaseReply, error) {
	var out LeaseReply
	return out, c.do(ctx, http.MethodPost, "/v1/locks/"+what, req, &out)
}

func leaseReply(l *store.Lease) LeaseReply {
	return LeaseReply{
		Name: l.Name, Token: l.Token, Session: l.Session, PID: l.PID, Host: l.Host,
		Since: time.Unix(0, l.Since).UTC().Format(time.RFC3339Nano), Expires: time.Unix(0, l.Expires).UTC().Format(time.RFC3339Nano),
	}
}

// CheckLockName refuses names that could not be told apart on a line.
func CheckLockName(name string) error {
	if name == "" || len(name) > 255 || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return Fail(ExitUsage, "lock %q: a name of 1 to 255 bytes without control characters is needed: %w", name, syscall.EINVAL)
	}
	return nil
}

func (req *LockRequest) ttl() (time.Duration, error) {
	if err := CheckLockName(req.Name); err != nil {
		return 0, err
	}
	ttl := time.Duration(req.TTL) * time.Millisecond
	if ttl < minLeaseTTL || ttl > maxLeaseTTL {
		return 0, Fail(ExitUsage, "lock %q for %s: give a time from %s to %s: %w", req.Name, ttl, minLeaseTTL, maxLeaseTTL, syscall.EINVAL)
	}
	return ttl, nil
}

func (d *Daemon) takeLease(ctx context.Context, req *LockRequest) (LeaseReply, error) {
	ttl, err := req.ttl()
	if err != nil {
		return LeaseReply{}, err
	}
	host, _ := os.Hostname() // only tells people where the holder is
	wait := min(time.Duration(req.Wait)*time.Millisecond, maxLeaseWait)
	if !d.o.Serve { // whoever waits in a process of its own keeps the store from others
		wait = 0
	}
	for end := time.Now().Add(wait); ; {
		changed := d.leases.watch() // before it is looked at
		now := d.o.Now()
		got, err := d.st.TakeLease(ctx, store.Lease{
			Name: req.Name, Session: req.Session, PID: req.PID, Host: host, Expires: now.Add(ttl).UnixNano(),
		}, now.UnixNano())
		if err == nil {
			return leaseReply(&got), nil
		}
		var held *store.HeldError
		if !errors.As(err, &held) {
			return LeaseReply{}, err
		}
		left := time.Until(end)
		if left <= 0 {
			return LeaseReply{}, heldError(&held.Lease)
		}
		select {
		case <-changed:
		case <-time.After(min(left, max(time.Unix(0, held.Lease.Expires).Sub(now), time.Millisecond))):
		case <-ctx.Done():
			return LeaseReply{}, ctx.Err()
		}
	}
}

func heldError(l *store.Lease) error {
	who := "somebody"
	if l.Session != "" {
		who = "session " + l.Session
	}
	return Fail(ExitFailed, "lock %q: %s (process %d) has it with token %d, at the latest until %s unless it is renewed; --wait waits for it: %w",
		l.Name, who, l.PID, l.Token, time.Unix(0, l.Expires).Format(time.RFC3339), syscall.EBUSY)
}

func (d *Daemon) renewLease(ctx context.Context, req *LockRequest) (LeaseReply, error) {
	ttl, err := req.ttl()
	if err != nil {
		return LeaseReply{}, err
	}
	got, err := d.st.RenewLease(ctx, req.Name, req.Token, d.o.Now().Add(ttl).UnixNano())
	return leaseReply(&got), err
}

func (d *Daemon) endLease(ctx context.Context, req *LockRequest) (LeaseReply, error) {
	if err := CheckLockName(req.Name); err != nil {
		return LeaseReply{}, err
	}
	err := d.st.EndLease(ctx, req.Name, req.Token)
	d.leases.wake()
	return LeaseReply{Name: req.Name, Token: req.Token}, err
}

func (d *Daemon) checkLease(ctx context.Context, req *LockRequest) (LeaseReply, error) {
	if err := CheckLockName(req.Name); err != nil {
		return LeaseReply{}, err
	}
	l, err := d.st.LeaseOf(ctx, req.Name)
	switch {
	case err != nil:
		return LeaseReply{}, err
	case l.Token != req.Token || l.Expires == 0:
		return LeaseReply{}, Fail(ExitFailed, "lock %q: token %d does not hold it; the last that did is %d: %w", req.Name, req.Token, l.Token, syscall.ESTALE)
	case l.Expires <= d.o.Now().UnixNano():
		return LeaseReply{}, Fail(ExitFailed, "lock %q: token %d has run out: %w", req.Name, req.Token, syscall.ESTALE)
	}
	return leaseReply(&l), nil
}

// locks are those of all workspaces that are live here, and the leases of the store.
func (d *Daemon) locks(ctx context.Context) (LocksReply, error) {
	out := LocksReply{Files: []FileLock{}, Leases: []LeaseReply{}}
	for _, s := range d.allSlots() {
		f, release := s.hold()
		if f == nil {
			continue
		}
		list := f.Locks()
		d.whoLocks(ctx, s, list)
		release()
		for i := range list {
			l := &list[i]
			o := FileLock{
				Workspace: s.name, Path: Path(l.Path), Inode: int64(l.Ino), Kind: "fcntl", Type: "read",
				Start: int64(l.Start), PID: int(l.PID), Session: l.Session, Waiting: l.Waiting,
			}
			if l.Flock {
				o.Kind = "flock"
			}
			if l.Type == syscall.F_WRLCK {
				o.Type = "write"
			}
			if l.End < math.MaxInt64 {
				o.End = int64(l.End)
			}
			out.Files = append(out.Files, o)
		}
	}
	all, err := d.st.Leases(ctx, d.o.Now().UnixNano())
	for i := range all {
		out.Leases = append(out.Leases, leaseReply(&all[i]))
	}
	return out, err
}

// whoLocks asks for the sessions that no change has needed yet: those of readers.
func (d *Daemon) whoLocks(ctx context.Context, s *slot, list []fs.LockInfo) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for i := range list {
		if l := &list[i]; l.Session == "" && l.PID != 0 {
			if who := s.resolver("").Resolve(l.PID, nil, ctx.Done()); who.Session != nil {
				l.Session = who.Session.Name
			}
		}
	}
}
