package fuse

import (
	"sync"
	"time"
)

// A helper that was started ahead waits for its echo: a process takes longer to start than most echoes to be told, and
// there is time for it while an undo, a rollback or a merge is planned and written.

// spare is the helper of a mount that was started ahead, if there is one.
type spare struct {
	mu      sync.Mutex
	waiting *spareEcho // guarded by mu
}

type spareEcho struct {
	ready chan struct{} // closed when the rest is set
	p     *echoProcess
	err   error
}

// Foresee implements fs.Observer: it starts the helper of the echo that is likely to come, in the background.
func (m *Mount) Foresee() (over func()) {
	if !m.canEcho() {
		return func() {}
	}
	m.spare.mu.Lock()
	defer m.spare.mu.Unlock()
	if m.spare.waiting != nil { // of another workspace of this mount
		return func() {}
	}
	s := &spareEcho{ready: make(chan struct{})}
	m.spare.waiting = s
	go func() {
		defer close(s.ready)
		s.p, s.err = m.startEcho()
	}()
	return func() {
		m.spare.mu.Lock()
		unused := m.spare.waiting == s
		if unused {
			m.spare.waiting = nil
		}
		m.spare.mu.Unlock()
		if unused {
			go s.dismiss()
		}
	}
}

// takeEcho returns the helper that waits, or starts one. It has to be done in echoTime and echoGrace from now on.
func (m *Mount) takeEcho() (*echoProcess, error) {
	m.spare.mu.Lock()
	s := m.spare.waiting
	m.spare.waiting = nil
	m.spare.mu.Unlock()
	var p *echoProcess
	var err error
	if s != nil {
		<-s.ready
		p, err = s.p, s.err
	} else {
		p, err = m.startEcho()
	}
	if err == nil {
		p.arm(echoTime + echoGrace)
	}
	return p, err
}

// dismiss ends a helper that has nothing to tell: it reads the end of its input.
func (s *spareEcho) dismiss() {
	<-s.ready
	if s.err != nil {
		return
	}
	s.p.arm(time.Second)
	_ = s.p.in.Close()
	_ = s.p.cmd.Wait() // it has said nothing that anybody wants to know
	s.p.kill.Stop()
}
