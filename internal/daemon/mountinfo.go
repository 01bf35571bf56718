package daemon

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// fsType is what /proc/self/mountinfo calls our mounts, and sourcePrefix begins their source: wsfs:WS:STORE,
// wsfs:WS@SEQ:STORE for a state of the past, or wsfs:@all:STORE for all workspaces. The store stands in it so that whoever finds a mount finds the store's socket, whether or not its daemon lives.
const (
	fsType       = "fuse.wsfs"
	sourcePrefix = "wsfs:"
)

// MountInfo is one line of /proc/self/mountinfo.
type MountInfo struct {
	ID     int
	Root   string // of the mounted tree: "/" unless it is a bind mount of a part
	Point  string
	Type   string
	Source string
	Minor  int // of the device: names the connection in /sys/fs/fuse/connections
}

// Ours reports whether m is a mount of wsfs, of whichever store.
func (m *MountInfo) Ours() bool {
	return m.Type == fsType && strings.HasPrefix(m.Source, sourcePrefix)
}

// Workspace and Store are what the source of one of our mounts tells; "" if it tells nothing.
func (m *MountInfo) Workspace() string {
	ws, _ := splitSource(m.Source)
	ws, _, _ = strings.Cut(ws, "@")
	return ws
}

// Label is what is shown, for people: WS, or WS@SEQ for a state of the past, or all workspaces.
func (m *MountInfo) Label() string {
	if m.All() {
		return allShown
	}
	ws, _ := splitSource(m.Source)
	return ws
}

// Shown is Label as a part of a sentence.
func (m *MountInfo) Shown() string {
	if m.All() {
		return allShown
	}
	return "workspace " + strconv.Quote(m.Workspace())
}

// All reports whether one of our mounts shows every workspace of its store, as directories.
func (m *MountInfo) All() bool { ws, _ := splitSource(m.Source); return ws == allLabel }

// Seq is the state of the past that one of our mounts shows, "" if it shows the present.
func (m *MountInfo) Seq() string {
	if m.All() {
		return ""
	}
	_, seq, _ := strings.Cut(m.Label(), "@")
	return seq
}

// Store is the store's directory as it was when the mount was made.
func (m *MountInfo) Store() string { _, store := splitSource(m.Source); return store }

// sourceName is the part of a mount's source behind "wsfs:".
func sourceName(workspace, store string) string { return workspace + ":" + store }

func splitSource(source string) (workspace, store string) {
	workspace, store, _ = strings.Cut(strings.TrimPrefix(source, sourcePrefix), ":")
	return workspace, store
}

// Mounts reads the mount table of this process. Unlike stat it never waits for a mounted file system.
func Mounts() ([]MountInfo, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("read the mount table: %w", err)
	}
	defer f.Close()
	return parseMounts(f)
}

func parseMounts(r io.Reader) ([]MountInfo, error) {
	var out []MountInfo
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		// 36 35 98:0 /root /point options [optional...] - type source superoptions
		pre, post, ok := strings.Cut(sc.Text(), " - ")
		a, b := strings.Fields(pre), strings.Split(post, " ")
		if !ok || len(a) < 6 || len(b) < 2 {
			return nil, fmt.Errorf("read the mount table: a line has an unknown form: %q", sc.Text())
		}
		m := MountInfo{Root: unescape(a[3]), Point: unescape(a[4]), Type: b[0], Source: unescape(b[1])}
		m.ID, _ = strconv.Atoi(a[0])
		_, minor, _ := strings.Cut(a[2], ":")
		m.Minor, _ = strconv.Atoi(minor)
		out = append(out, m)
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("read the mount table: %w", err)
	}
	return out, nil
}

// unescape turns the kernel's \040 into the byte it stands for.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// MountAt finds the topmost mount on exactly this path, nil if it is no mountpoint.
func MountAt(mounts []MountInfo, path string) *MountInfo {
	for i := len(mounts) - 1; i >= 0; i-- {
		if mounts[i].Point == path {
			return &mounts[i]
		}
	}
	return nil
}

// MountOf finds the mount that path is on, by names alone. path must be absolute and without symbolic links.
func MountOf(mounts []MountInfo, path string) *MountInfo {
	var best *MountInfo
	for i := range mounts {
		if within(path, mounts[i].Point) && (best == nil || len(mounts[i].Point) >= len(best.Point)) {
			best = &mounts[i]
		}
	}
	return best
}

// within reports whether path is dir or below it. Both are clean and absolute.
func within(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// PathIn is path, which is on m, as a path from the workspace's root: "" for the root itself.
func (m *MountInfo) PathIn(path string) string {
	rel := strings.TrimPrefix(strings.TrimPrefix(path, m.Point), "/")
	return strings.TrimPrefix(filepath.Join(m.Root, rel), "/")
}
