package store

import (
	"fmt"
	"sync/atomic"
	"syscall"
)

// breaker stops a store at the first failure after which it can no longer keep what it promises. It never closes
// again: what a failed write or flush left on the disk is unknown, so going on could only lie.
type breaker struct {
	cause atomic.Pointer[error]
	// tripped is closed with it.
	tripped chan struct{}
	// onTrip is told once, before anybody else sees the failure.
	onTrip func(error)
}

func newBreaker(onTrip func(error)) *breaker {
	return &breaker{tripped: make(chan struct{}), onTrip: onTrip}
}

// trip records the first failure and returns the error that every later call gets.
func (b *breaker) trip(err error) error {
	err = fmt.Errorf("the store has stopped; what was acknowledged is in its journal, open it again when the cause is mended: %w",
		&stoppedError{cause: err})
	if b.cause.CompareAndSwap(nil, &err) {
		if b.onTrip != nil {
			b.onTrip(err)
		}
		close(b.tripped)
	}
	return *b.cause.Load()
}

// err is the failure, or nil.
func (b *breaker) err() error {
	if p := b.cause.Load(); p != nil {
		return *p
	}
	return nil
}

// stoppedError is EIO to a program, whatever the cause was: ENOSPC, say, would promise that it passes.
type stoppedError struct{ cause error }

func (e *stoppedError) Error() string   { return e.cause.Error() }
func (e *stoppedError) Unwrap() []error { return []error{syscall.EIO, e.cause} }
