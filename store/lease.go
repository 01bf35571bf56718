package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
)

// A lease is a named lock that ends by itself unless it is renewed. Each time that it is taken it has a token that is one
// more than the last of that name, so that whoever is asked to act for a holder can tell one that has lost it
// (fencing). Leases are rows of table setting, which stay for their tokens; they change in transactions of their own and
// not by ops, since they are about no tree.

// Lease is a row. It is held until Expires.
type Lease struct {
	Name    string `json:"-"`
	Token   int64  `json:"token"`
	Session string `json:"session,omitempty"` // of the holder, "" unknown
	PID     int    `json:"pid,omitempty"`
	Host    string `json:"host,omitempty"`
	Since   int64  `json:"since,omitempty"` // ns since the epoch, as Expires
	Expires int64  `json:"expires,omitempty"`
}

// HeldError is a lease that somebody else has.
type HeldError struct{ Lease Lease }

func (e *HeldError) Error() string {
	return fmt.Sprintf("lock %q is held with token %d", e.Lease.Name, e.Lease.Token)
}

// Unwrap makes it EBUSY.
func (e *HeldError) Unwrap() error { return syscall.EBUSY }

const (
	leasePrefix = "lock/"
	leaseEnd    = "lock0" // behind all that have the prefix
)

// TakeLease takes the lease want.Name until want.Expires, if nobody holds it at now. The token is durable before it is
// returned: no other holder will ever have it.
func (s *Store) TakeLease(ctx context.Context, want Lease, now int64) (Lease, error) {
	got, err := s.changeLease(ctx, want.Name, func(have Lease) (Lease, error) {
		if have.Expires > now {
			return have, &HeldError{have}
		}
		want.Token, want.Since = have.Token+1, now
		return want, nil
	})
	if err == nil {
		err = s.commitDurably(ctx)
	}
	return got, err
}

// RenewLease lets the lease that has the token go on until expires. ESTALE: it is somebody else's, or was given back. One
// that has run out, and that nobody took since, goes on.
func (s *Store) RenewLease(ctx context.Context, name string, token, expires int64) (Lease, error) {
	return s.changeLease(ctx, name, func(have Lease) (Lease, error) {
		if have.Token != token || have.Expires == 0 {
			return have, fmt.Errorf("lock %q: token %d does not hold it any more: %w", name, token, syscall.ESTALE)
		}
		have.Expires = expires
		return have, nil
	})
}

// EndLease gives it back; ESTALE as for RenewLease.
func (s *Store) EndLease(ctx context.Context, name string, token int64) error {
	_, err := s.RenewLease(ctx, name, token, 0)
	return err
}

func (s *Store) changeLease(ctx context.Context, name string, fn func(have Lease) (Lease, error)) (Lease, error) {
	if s.w == nil {
		return Lease{}, errReadOnly("take a lock")
	}
	var out Lease
	var refused error // no reason to take the transaction for failed
	err := s.w.tx(ctx, func(ctx context.Context) error {
		text, err := setting(ctx, s.w, leasePrefix+name)
		if err != nil {
			return err
		}
		have, err := parseLease(name, text)
		if err != nil {
			return err
		}
		if out, refused = fn(have); refused != nil {
			return nil
		}
		b, err := json.Marshal(&out)
		if err != nil {
			return err
		}
		return setSetting(ctx, s.w, leasePrefix+name, string(b))
	})
	if err != nil {
		return Lease{}, s.dbError(fmt.Sprintf("change lock %q", name), err)
	}
	out.Name = name
	return out, refused
}

func parseLease(name, text string) (Lease, error) {
	l := Lease{Name: name}
	if text == "" {
		return l, nil
	}
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		return l, fmt.Errorf("lock %q: %w: %w", name, ErrCorrupt, err)
	}
	return l, nil
}

// LeaseOf is the lease of that name, as it was last; the zero one if there never was any.
func (s *Store) LeaseOf(ctx context.Context, name string) (Lease, error) {
	text, err := setting(ctx, s.r, leasePrefix+name)
	if err != nil {
		return Lease{}, s.dbError(fmt.Sprintf("read lock %q", name), err)
	}
	return parseLease(name, text)
}

// Leases lists those that are held at now, by name.
func (s *Store) Leases(ctx context.Context, now int64) ([]Lease, error) {
	var list []Lease
	_, err := scanAll(ctx, s.r, 2, `SELECT name, value FROM setting WHERE name >= ? AND name < ? ORDER BY name`,
		[]any{leasePrefix, leaseEnd}, func(c *cells) error {
			l, err := parseLease(strings.TrimPrefix(c.string(0), leasePrefix), c.string(1))
			if err == nil && l.Expires > now {
				list = append(list, l)
			}
			return err
		})
	return list, s.dbError("list locks", err)
}
