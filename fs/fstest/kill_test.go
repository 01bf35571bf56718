package fstest_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// state is what a name of the tree holds: "" nothing, else kind and content in one string.
type state string

func fileState(data []byte) state { return state(fmt.Sprintf("file %x", sha256.Sum256(data))) }

const (
	nothing  state = ""
	dirState state = "dir"
)

// writer works in a directory of its own and knows, for each name, what it must hold: one state after a call that
// returned, or one of several after a call that the kill cut off.
type writer struct {
	dir  string
	rnd  *rand.Rand
	may  map[string][]state
	n    int
	acks int
}

func (w *writer) set(name string, s state) { w.may[name] = []state{s}; w.acks++ }

// cut says that a call was cut off: the name may hold what it held, or what it would have held.
func (w *writer) cut(name string, s ...state) {
	old := w.may[name]
	if len(old) == 0 {
		old = []state{nothing}
	}
	w.may[name] = append(slices.Clone(old), s...)
}

// certain returns a name that holds exactly one known file, or "".
func (w *writer) certain() string {
	var names []string
	for n, s := range w.may {
		if len(s) == 1 && strings.HasPrefix(string(s[0]), "file") {
			names = append(names, n)
		}
	}
	if len(names) == 0 {
		return ""
	}
	sort.Strings(names)
	return names[w.rnd.IntN(len(names))]
}

func (w *writer) data() []byte {
	n := []int{0, 10, 300, 4096, 20_000, 70_000, 300_000}[w.rnd.IntN(7)]
	b := make([]byte, n+w.rnd.IntN(50))
	for i := range b {
		b[i] = byte(w.rnd.Uint32())
	}
	return b
}

// write is open, write, close: nothing counts before close has returned.
func write(path string, flags int, data []byte) error {
	fd, err := unix.Open(path, flags|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	for len(data) > 0 {
		n, err := unix.Write(fd, data[:min(len(data), 50_000)])
		if err != nil {
			_ = unix.Close(fd)
			return err
		}
		data = data[n:]
	}
	return unix.Close(fd)
}

// step does one random thing and notes what it means; an error ends the round.
func (w *writer) step() error {
	w.n++
	fresh := fmt.Sprintf("f%d", w.n)
	have := w.certain()
	kind := w.rnd.IntN(10)
	if have == "" {
		kind = 0
	}
	at := func(n string) string { return filepath.Join(w.dir, n) }
	var err error
	switch kind {
	default: // a new file
		data := w.data()
		if err = write(at(fresh), unix.O_CREAT|unix.O_EXCL, data); err == nil {
			w.set(fresh, fileState(data))
		} else {
			w.cut(fresh, fileState(nil), fileState(data))
		}
	case 4, 5: // written anew
		data := w.data()
		if err = write(at(have), unix.O_TRUNC, data); err == nil {
			w.set(have, fileState(data))
		} else {
			w.cut(have, fileState(data))
		}
	case 6: // temporary and rename over: old or new, never less
		data := w.data()
		if err = write(at("tmp"), unix.O_CREAT|unix.O_TRUNC, data); err != nil {
			w.cut("tmp", fileState(nil), fileState(data))
			break
		}
		w.set("tmp", fileState(data))
		if err = unix.Rename(at("tmp"), at(have)); err == nil {
			w.set(have, fileState(data))
			w.set("tmp", nothing)
		} else {
			w.cut(have, fileState(data))
			w.cut("tmp", nothing)
		}
	case 7: // moved
		s := w.may[have][0]
		if err = unix.Rename(at(have), at(fresh)); err == nil {
			w.set(fresh, s)
			w.set(have, nothing)
		} else {
			w.cut(fresh, s)
			w.cut(have, nothing)
		}
	case 8: // removed
		if err = unix.Unlink(at(have)); err == nil {
			w.set(have, nothing)
		} else {
			w.cut(have, nothing)
		}
	case 9: // a directory
		if err = unix.Mkdir(at(fresh), 0o755); err == nil {
			w.set(fresh, dirState)
		} else {
			w.cut(fresh, dirState)
		}
	}
	return err
}

// verify compares the tree with what may be there, and settles what was open.
func (w *writer) verify() []string {
	var bad []string
	seen := map[string]bool{}
	list, err := os.ReadDir(w.dir)
	if err != nil {
		return []string{err.Error()}
	}
	for _, d := range list {
		seen[d.Name()] = true
		if _, known := w.may[d.Name()]; !known {
			bad = append(bad, fmt.Sprintf("%s: nobody made it", filepath.Join(w.dir, d.Name())))
		}
	}
	for name, may := range w.may {
		got := nothing
		size := int64(-1)
		switch st, err := os.Lstat(filepath.Join(w.dir, name)); {
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			bad = append(bad, err.Error())
			continue
		case st.IsDir():
			got = dirState
		default:
			data, err := os.ReadFile(filepath.Join(w.dir, name))
			if err != nil {
				bad = append(bad, err.Error())
				continue
			}
			got, size = fileState(data), int64(len(data))
			if len(data) > 100 && bytes.Count(data, []byte{0}) == len(data) {
				bad = append(bad, fmt.Sprintf("%s: %d bytes, all zero", name, len(data)))
			}
		}
		if (got != nothing) != seen[name] {
			bad = append(bad, fmt.Sprintf("%s: lookup and listing disagree", name))
		}
		if !slices.Contains(may, got) {
			bad = append(bad, fmt.Sprintf("%s: is %.20q (%d bytes), may be %.20q", filepath.Join(w.dir, name), got, size, may))
		}
		if got == nothing {
			delete(w.may, name)
		} else {
			w.may[name] = []state{got}
		}
	}
	return bad
}

// TestKill kills the daemon at random moments under load: what close, rename, unlink and mkdir have answered is there
// afterwards, byte for byte; what was cut off has happened or has not; the next mount clears the stale one.
func TestKill(t *testing.T) {
	w, dir := newMount(t)
	const seed = 20261129
	rnd := rand.New(rand.NewPCG(seed, 1))
	var writers []*writer
	for k := range 4 {
		sub := filepath.Join(dir, fmt.Sprintf("w%d", k))
		if err := os.Mkdir(sub, 0o755); err != nil {
			t.Fatal(err)
		}
		writers = append(writers, &writer{dir: sub, rnd: rand.New(rand.NewPCG(seed, uint64(k+2))), may: map[string][]state{}})
	}
	for round := range *opt.kills {
		var wg sync.WaitGroup
		for _, wr := range writers {
			wg.Go(func() {
				for {
					if err := wr.step(); err != nil {
						if !dead(err) {
							t.Errorf("round %d: %v", round, err)
						}
						return
					}
				}
			})
		}
		time.Sleep(time.Duration(rnd.IntN(400)) * time.Millisecond)
		w.kill()
		wg.Wait()
		w.remount("main", dir, "--transport="+transports()[round%2]) // clears the stale mount
		acks := 0
		for _, wr := range writers {
			for _, b := range wr.verify() {
				t.Errorf("round %d: %s", round, b)
			}
			acks += wr.acks
		}
		if t.Failed() {
			t.Fatalf("after %d kills and %d acknowledged calls", round+1, acks)
		}
	}
	acks := 0
	for _, wr := range writers {
		acks += wr.acks
	}
	t.Logf("%d kills, %d acknowledged calls", *opt.kills, acks)
	// Once more through the database alone: another mount after a clean end, and an export.
	w.stop()
	w.remount("main", dir)
	for _, wr := range writers {
		for _, b := range wr.verify() {
			t.Errorf("after a clean restart: %s", b)
		}
	}
}

// dead reports whether an error is what a mount answers whose server has died, or over io_uring is just dying.
func dead(err error) bool {
	for _, e := range []unix.Errno{unix.ENOTCONN, unix.ECONNABORTED, unix.EIO, unix.ENODEV, unix.ECANCELED, unix.EINTR} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
