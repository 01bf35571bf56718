package fuse

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// mountEntry is one line of /proc/PID/mountinfo, see proc_pid_mountinfo(5).
type mountEntry struct {
	ID, Parent   int
	Major, Minor uint32 // of st_dev of the files in it; Minor names a FUSE connection in /sys/fs/fuse/connections
	Point        string
	Options      string
	Type         string // "fuse.wsfs"
	Source       string // "wsfs:WS"
	Super        string // options of the file system: "rw,user_id=0,..."
}

// parseMountinfo calls fn for each line until it returns false.
func parseMountinfo(r io.Reader, fn func(mountEntry) bool) error {
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 1<<20)
	for n := 1; sc.Scan(); n++ {
		e, err := parseMountLine(sc.Text())
		if err != nil {
			return fmt.Errorf("mountinfo line %d: %w", n, err)
		}
		if !fn(e) {
			return nil
		}
	}
	return sc.Err()
}

func parseMountLine(line string) (mountEntry, error) {
	// 36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
	left, right, ok := strings.Cut(line, " - ")
	l, r := strings.Split(left, " "), strings.Split(right, " ")
	if !ok || len(l) < 6 || len(r) < 3 {
		return mountEntry{}, fmt.Errorf("%q has too few fields", line)
	}
	e := mountEntry{Point: unescapeMount(l[4]), Options: l[5], Type: r[0], Source: unescapeMount(r[1]), Super: r[2]}
	maj, minor, _ := strings.Cut(l[2], ":")
	a, err1 := strconv.ParseUint(maj, 10, 32)
	b, err2 := strconv.ParseUint(minor, 10, 32)
	var err3, err4 error
	e.ID, err3 = strconv.Atoi(l[0])
	e.Parent, err4 = strconv.Atoi(l[1])
	e.Major, e.Minor = uint32(a), uint32(b)
	return e, errors.Join(err1, err2, err3, err4)
}

// unescapeMount undoes the kernel's \040 for blanks, tabs, newlines and backslashes.
func unescapeMount(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if v, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(v))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// mountAt returns the topmost mount on exactly this path, without touching the path.
func mountAt(point string) (mountEntry, bool, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return mountEntry{}, false, fmt.Errorf("list mounts: %w", err)
	}
	defer f.Close()
	var found mountEntry
	var ok bool
	err = parseMountinfo(f, func(e mountEntry) bool {
		if e.Point == point { // a later line lies above an earlier one
			found, ok = e, true
		}
		return true
	})
	if err != nil {
		return mountEntry{}, false, fmt.Errorf("list mounts: %w", err)
	}
	return found, ok, nil
}

// MountInfo is a wsfs mount as the kernel lists it.
type MountInfo struct {
	Point  string // absolute path of the mountpoint
	Source string // "wsfs:" and the name it was mounted under
}

// Mounts lists the wsfs mounts of this mount namespace, dead ones too, in the order they were made. It touches none.
func Mounts() ([]MountInfo, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	defer f.Close()
	var out []MountInfo
	err = parseMountinfo(f, func(e mountEntry) bool {
		if e.Type == "fuse."+subtype {
			out = append(out, MountInfo{Point: e.Point, Source: e.Source})
		}
		return true
	})
	return out, err
}
