package daemon

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// lockedBuffer is written by the daemon while the test reads it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// A store whose directory and socket somebody has opened up: the daemon answers its own user, and no other.
func TestOtherUserAtTheSocket(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be another user")
	}
	dir := newStore(t)
	var log lockedBuffer
	serve(t, dir, Options{Log: slog.New(slog.NewJSONHandler(&log, nil))})
	for up := dir; up != "/"; up = filepath.Dir(up) {
		st, err := os.Stat(up)
		if err == nil {
			err = os.Chmod(up, st.Mode().Perm()|0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(SocketPath(dir), 0o666); err != nil {
		t.Fatal(err)
	}
	ask := func() (string, error) {
		c, err := net.Dial("unix", SocketPath(dir))
		if err != nil {
			return "", err
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
			return "", err
		}
		if _, err := io.WriteString(c, "GET /v1/status HTTP/1.0\r\n\r\n"); err != nil {
			return "", err
		}
		b, err := io.ReadAll(c)
		return string(b), err
	}
	if text, err := ask(); err != nil || !strings.Contains(text, "200 OK") {
		t.Fatalf("the own user: %q, %v", text, err)
	}
	const other = 10001
	var text string
	var err error
	done := make(chan struct{})
	go func() { // this thread alone is somebody else
		defer close(done)
		runtime.LockOSThread()
		if _, _, e := syscall.RawSyscall(syscall.SYS_SETRESUID, ^uintptr(0), other, ^uintptr(0)); e != 0 {
			err = e
			return
		}
		text, err = rawAsk(SocketPath(dir))
		if _, _, e := syscall.RawSyscall(syscall.SYS_SETRESUID, ^uintptr(0), 0, ^uintptr(0)); e == 0 {
			runtime.UnlockOSThread()
		}
	}()
	<-done
	if text != "" {
		t.Errorf("user %d was answered %q", other, text)
	}
	if err != nil && err != syscall.EPIPE && err != syscall.ECONNRESET {
		t.Errorf("user %d could not even connect, so this shows nothing: %v", other, err)
	}
	for end := time.Now().Add(30 * time.Second); !strings.Contains(log.String(), "another user was refused"); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the log does not tell: %s", log.String())
		}
	}
	if c, err := Dial(dir); err != nil || c == nil {
		t.Errorf("the own user after that: %v, %v", c, err)
	} else if _, err := c.Status(context.Background()); err != nil {
		t.Error(err)
	}
	if mayAsk(10001, 10002) || !mayAsk(0, 10002) || !mayAsk(10001, 10001) {
		t.Error("who may ask whom")
	}
}

// rawAsk is a request by blocking calls of the calling thread.
func rawAsk(path string) (string, error) {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return "", err
	}
	defer syscall.Close(fd)
	if err := syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &syscall.Timeval{Sec: 30}); err != nil {
		return "", err
	}
	if err := syscall.Connect(fd, &syscall.SockaddrUnix{Name: path}); err != nil {
		return "", err
	}
	if _, err := syscall.Write(fd, []byte("GET /v1/status HTTP/1.0\r\n\r\n")); err != nil {
		return "", err
	}
	b := make([]byte, 4096)
	n, err := syscall.Read(fd, b)
	return string(b[:max(n, 0)]), err
}
