package main

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// picture describes everything below dir, a line for each name: type, mode, owner, links, size, target, attributes, bytes,
// which names are one file, and, of what is not a directory, the time of its last change.
func picture(t *testing.T, dir string) []string {
	t.Helper()
	var lines []string
	first := map[uint64]string{}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		line := fmt.Sprintf("%q %o %d:%d", name, st.Mode, st.Uid, st.Gid)
		switch st.Mode & syscall.S_IFMT {
		case syscall.S_IFDIR:
		case syscall.S_IFLNK:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" -> %q at %d ", target, st.Mtim.Nano())
		case syscall.S_IFREG:
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %d at %d %x", st.Size, st.Mtim.Nano(), sha256.Sum256(b))
			fallthrough
		default:
			if first[st.Ino] == "" {
				first[st.Ino] = name
			}
			line += fmt.Sprintf(" %d links, the first is %q", st.Nlink, first[st.Ino])
		}
		note := make([]byte, 100)
		if n, err := unix.Lgetxattr(path, "user.note", note); err == nil {
			line += fmt.Sprintf(" user.note=%q", note[:n])
		}
		lines = append(lines, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// undated leaves the times out of a picture: what changes back has a fresh one.
func undated(lines []string) []string {
	out := slices.Clone(lines)
	for i, line := range out {
		if before, after, ok := strings.Cut(line, " at "); ok {
			_, after, _ = strings.Cut(after, " ")
			out[i] = before + " " + after
		}
	}
	return out
}

// differences lists the lines in which two pictures differ.
func differences(want, got []string) string {
	var b strings.Builder
	for _, line := range want {
		if !slices.Contains(got, line) {
			fmt.Fprintf(&b, "gone: %s\n", line)
		}
	}
	for _, line := range got {
		if !slices.Contains(want, line) {
			fmt.Fprintf(&b, "new:  %s\n", line)
		}
	}
	return b.String()
}

// TestComeback destroys one of every kind of file in several ways, and brings all of it back in every way there is.
func TestComeback(t *testing.T) {
	if _, err := exec.LookPath("setfattr"); err != nil {
		t.Skip("no setfattr (scripts/test installs it)")
	}
	s := newMountedStore(t, func(s *mountedStore) {
		if out, err := exec.Command("cp", "-a", oddTree(t), s.src+"/t").CombinedOutput(); err != nil {
			t.Fatalf("cp: %v %s", err, out)
		}
	})
	seq := "2"
	want := picture(t, s.mnt+"/t")
	for _, damage := range []struct{ name, script string }{
		{"removed", `rm -rf t`},
		{"attributes", `chmod 0 t/big; chmod 777 t/sub t/f; setfattr -n user.note -v other t/f; touch -d 2020-01-01 t/odd* t/fifo; touch -h -d 2020-01-01 t/abs`},
		{"names", `mv t/f t/g; rm t/sub/hard; mv t/sub/empty t/; ln -sf nowhere t/abs; ln t/big t/more; mv t/fifo t/sub/; rm t/sub/soft`},
		{"moved away and made again", `mv t u; mkdir t`},
	} {
		for _, back := range []struct{ name, script string }{
			{"undo", `wsfs undo --yes`},
			{"rollback", `wsfs rollback main ` + seq + ` --yes`},
			{"rollback of a path", `wsfs rollback main ` + seq + ` t --yes`},
			{"restore", `wsfs restore t --from ` + seq},
		} {
			if back.name == "restore" && damage.name != "removed" {
				continue // it removes nothing
			}
			t.Run(damage.name+", "+back.name, func(t *testing.T) {
				s := *s
				s.t = t
				session := strings.NewReplacer(" ", "-", ",", "").Replace(t.Name())
				s.in("", session, damage.script)
				if _, err := os.Lstat(s.mnt + "/t"); err == nil && slices.Equal(picture(t, s.mnt+"/t"), want) {
					t.Fatal("nothing was damaged")
				}
				s.in("", session, back.script)
				if d := differences(want, picture(t, s.mnt+"/t")); d != "" {
					t.Error(d)
				}
				if back.name != "rollback" { // for the next one
					s.wsfs(0, "rollback", "main", seq, "--yes")
				}
			})
		}
	}
}
