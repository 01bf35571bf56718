package daemon

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// lastCalls takes the socket away, while the lock is ours and it can be no other daemon's: who comes from now on finds none,
// and waits for the lock. Who has come before is still answered: connections leave the socket's queue in order, so once
// one that was made after it had another name is answered, all others are with the server.
func (d *Daemon) lastCalls() error {
	aside := SocketPath(d.o.Store) + ".end"
	if err := os.Rename(SocketPath(d.o.Store), aside); err != nil {
		return err
	}
	defer os.Remove(aside)
	path, done, err := shortPath(d.o.Store, filepath.Base(aside))
	if err != nil {
		return err
	}
	defer done()
	c, err := net.Dial("unix", path)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(2 * time.Second)); err != nil {
		return err
	}
	if _, err := io.WriteString(c, "GET /v1/status HTTP/1.0\r\n\r\n"); err != nil {
		return err
	}
	if _, err = c.Read(make([]byte, 1)); err != nil {
		return err
	}
	d.callers.wait(2 * time.Second)
	time.Sleep(10 * time.Millisecond) // from the end of a request's head to its handler
	return nil
}

// callers counts the connections that have not said yet what they want: a server that shuts down closes them unheard.
type callers struct {
	mu  sync.Mutex
	new map[net.Conn]bool // guarded by mu
}

func (n *callers) state(c net.Conn, s http.ConnState) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s != http.StateNew {
		delete(n.new, c)
		return
	}
	if n.new == nil {
		n.new = map[net.Conn]bool{}
	}
	n.new[c] = true
}

// wait returns when there are none, or after patience.
func (n *callers) wait(patience time.Duration) {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		n.mu.Lock()
		left := len(n.new)
		n.mu.Unlock()
		if left == 0 {
			return
		}
	}
}
