// Package keep makes what a daemon holds open outlive it. A keeper is a small process that starts a daemon, holds the
// descriptors that the daemon gives it, and starts another when it dies, which gets them back: a mount goes on, because
// the kernel ends a connection only when the last descriptor of /dev/fuse is closed, and so does memory (memfd) that the
// dead one wrote to.
//
// The keeper knows nothing of what it holds: an entry is a name, a few bytes and descriptors. It opens no file of the
// store but the log, takes no lock, and reads no descriptor. It speaks with its daemon over a pair of sockets that have
// no name, so nobody else can ask it for anything.
package keep

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// FD is the descriptor by which a daemon speaks with its keeper.
const FD = 4

// maxMessage bounds one message; what an entry says of itself has to fit.
const maxMessage = 128 << 10

// maxFiles is how many descriptors one entry may have.
const maxFiles = 4

// message is one datagram in either direction.
type message struct {
	Op    string `json:"op"`              // to the keeper: put, drop, bye, next; to the daemon: start, entry, done
	Name  string `json:"name,omitempty"`  // of an entry; of a program for next
	Data  []byte `json:"data,omitempty"`  // of an entry
	Start int    `json:"start,omitempty"` // how many daemons there were before
	Count int    `json:"count,omitempty"` // entries that follow
	Error string `json:"error,omitempty"`
}

// Entry is what a daemon left to the next one. Its descriptors belong to whoever got it.
type Entry struct {
	Name  string
	Data  []byte
	Files []int
}

// Close closes the descriptors.
func (e *Entry) Close() {
	for _, fd := range e.Files {
		_ = unix.Close(fd)
	}
	e.Files = nil
}

// send writes one message with descriptors.
func send(sock int, m *message, files ...int) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if len(b) > maxMessage || len(files) > maxFiles {
		return fmt.Errorf("tell %q: it has %d bytes and %d descriptors: %w", m.Op, len(b), len(files), syscall.EMSGSIZE)
	}
	var rights []byte
	if len(files) > 0 {
		rights = unix.UnixRights(files...)
	}
	for {
		err = unix.Sendmsg(sock, b, rights, nil, unix.MSG_NOSIGNAL)
		if err != syscall.EINTR {
			return err
		}
	}
}

// errGone says that the other side is no more.
var errGone = errors.New("the other side has gone")

// receive reads one message with its descriptors.
func receive(sock int, buf []byte) (message, []int, error) {
	oob := make([]byte, unix.CmsgSpace(4*maxFiles))
	var n, k int
	var err error
	for {
		n, k, _, _, err = unix.Recvmsg(sock, buf, oob, unix.MSG_CMSG_CLOEXEC)
		if err != syscall.EINTR {
			break
		}
	}
	if err != nil {
		if errors.Is(err, syscall.ECONNRESET) {
			err = errGone
		}
		return message{}, nil, err
	}
	if n == 0 {
		return message{}, nil, errGone
	}
	var files []int
	msgs, err := unix.ParseSocketControlMessage(oob[:k])
	for i := range msgs {
		if fds, e := unix.ParseUnixRights(&msgs[i]); e == nil {
			files = append(files, fds...)
		}
	}
	var m message
	if err == nil {
		err = json.Unmarshal(buf[:n], &m)
	}
	return m, files, err
}

// Client is a daemon's end. Its methods may be called from any goroutine.
type Client struct {
	// Start is how many daemons this keeper had before.
	Start int
	// Left is what the daemon before left, in the order that it was put.
	Left []Entry

	mu   sync.Mutex // one question at a time
	sock int        // guarded by mu; -1: the keeper is gone
	buf  []byte
}

// Attach takes over what the keeper at the other end of sock holds.
func Attach(sock int) (*Client, error) {
	unix.CloseOnExec(sock)
	c := &Client{sock: sock, buf: make([]byte, maxMessage)}
	m, _, err := receive(sock, c.buf)
	if err == nil && m.Op != "start" {
		err = fmt.Errorf("it says %q", m.Op)
	}
	if err != nil {
		return nil, fmt.Errorf("hear from the keeper: %w", err)
	}
	c.Start = m.Start
	for range m.Count {
		e, files, err := receive(sock, c.buf)
		if err != nil {
			return nil, fmt.Errorf("get from the keeper what it holds: %w", err)
		}
		c.Left = append(c.Left, Entry{e.Name, e.Data, files})
	}
	return c, nil
}

// ask sends a message and waits until the keeper has done it.
func (c *Client) ask(m *message, files ...int) error {
	if c == nil {
		return errGone
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sock < 0 {
		return errGone
	}
	err := send(c.sock, m, files...)
	var r message
	if err == nil {
		var none []int
		r, none, err = receive(c.sock, c.buf)
		for _, fd := range none {
			_ = unix.Close(fd)
		}
	}
	if errors.Is(err, errGone) || errors.Is(err, syscall.EPIPE) {
		_ = unix.Close(c.sock)
		c.sock, err = -1, errGone
	}
	if err == nil && r.Error != "" {
		err = errors.New(r.Error)
	}
	if err != nil {
		return fmt.Errorf("tell the keeper to %s %s: %w", m.Op, m.Name, err)
	}
	return nil
}

// Put gives the keeper an entry, in place of one with that name. The descriptors stay the caller's, too.
func (c *Client) Put(name string, data []byte, files ...int) error {
	return c.ask(&message{Op: "put", Name: name, Data: data}, files...)
}

// Drop makes the keeper close an entry.
func (c *Client) Drop(name string) error { return c.ask(&message{Op: "drop", Name: name}) }

// Bye tells the keeper that this daemon ends and that no other is wanted.
func (c *Client) Bye() error { return c.ask(&message{Op: "bye"}) }

// Next makes the keeper start that program when this one ends, whatever it ends with, and at once.
func (c *Client) Next(exe string) error { return c.ask(&message{Op: "next", Name: exe}) }

// File is sock as what a command's ExtraFiles wants.
func file(sock int) *os.File { return os.NewFile(uintptr(sock), "keeper") }
