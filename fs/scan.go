package fs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"wsfs/blob"
	"wsfs/store"
)

// hostFile is one entry of a directory that is being imported.
type hostFile struct {
	name     string
	parent   *hostFile
	children []*hostFile // of a directory, by name
	st       syscall.Stat_t
	target   string
	xattrs   map[string][]byte
	staged   blob.Staged // content of a regular file that was read
	read     bool

	merge  *ImportMerge
	theirs blob.Staged // of a merged file: what the directory has
}

func (h *hostFile) isDir() bool { return h.st.Mode&syscall.S_IFMT == syscall.S_IFDIR }

// path is relative to the imported directory.
func (h *hostFile) path() string {
	if h.parent == nil {
		return ""
	}
	return filepath.Join(h.parent.path(), h.name)
}

// scan reads the metadata of a directory tree in parallel.
type scan struct {
	root  string
	skip  map[string]bool // absolute paths that are not entered: mounts and the store itself
	count atomic.Int64
	note  func(int64)

	mu      sync.Mutex
	skipped []string
	err     error
	wg      sync.WaitGroup
	slots   chan struct{}
}

func scanTree(root string, skip map[string]bool, note func(int64)) (*hostFile, *scan, error) {
	s := &scan{root: root, skip: skip, note: note, slots: make(chan struct{}, 2*runtime.GOMAXPROCS(0))}
	top := &hostFile{}
	if err := syscall.Lstat(root, &top.st); err != nil {
		return nil, nil, fmt.Errorf("import %s: %w", root, err)
	}
	if !top.isDir() {
		return nil, nil, fmt.Errorf("import %s: only a directory can become a workspace: %w", root, syscall.ENOTDIR)
	}
	top.xattrs, _ = hostXattrs(root)
	s.wg.Add(1)
	s.dir(top, root)
	s.wg.Wait()
	slices.Sort(s.skipped)
	return top, s, s.err
}

func (s *scan) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
}

func (s *scan) skipPath(path, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.skipped = append(s.skipped, path+": "+why)
}

func (s *scan) dir(h *hostFile, path string) {
	defer s.wg.Done()
	d, err := os.Open(path)
	if err != nil {
		s.fail(fmt.Errorf("import: %w", err))
		return
	}
	names, err := d.Readdirnames(-1)
	d.Close()
	if err != nil {
		s.fail(fmt.Errorf("import: read directory %s: %w", path, err))
		return
	}
	slices.Sort(names)
	for _, name := range names {
		full := filepath.Join(path, name)
		if h.parent == nil && name == ".wsfs" {
			s.fail(fmt.Errorf("import %s: it has an entry named .wsfs, which every mount uses for itself; rename it first: %w", path, syscall.EEXIST))
			return
		}
		if s.skip[full] {
			s.skipPath(full, "a mount or the store itself")
			continue
		}
		child := &hostFile{name: name, parent: h}
		if !s.entry(child, full) {
			continue
		}
		h.children = append(h.children, child)
		if !child.isDir() {
			continue
		}
		s.wg.Add(1)
		select {
		case s.slots <- struct{}{}:
			go func() {
				defer func() { <-s.slots }()
				s.dir(child, full)
			}()
		default:
			s.dir(child, full)
		}
	}
}

// entry reads the metadata of one entry; false leaves it out.
func (s *scan) entry(h *hostFile, full string) bool {
	if err := syscall.Lstat(full, &h.st); err != nil {
		if !errors.Is(err, syscall.ENOENT) { // removed while we look: as if it had never been there
			s.fail(fmt.Errorf("import %s: %w", full, err))
		}
		return false
	}
	var err error
	switch h.st.Mode & syscall.S_IFMT {
	case syscall.S_IFLNK:
		if h.target, err = os.Readlink(full); err != nil {
			s.fail(fmt.Errorf("import: %w", err))
			return false
		}
	}
	if h.xattrs, err = hostXattrs(full); err != nil {
		s.fail(fmt.Errorf("import %s: read extended attributes: %w", full, err))
		return false
	}
	if n := s.count.Add(1); n%256 == 0 {
		s.note(n)
	}
	return true
}

// hostXattrs reads all extended attributes but access control lists, which a mount does not have.
func hostXattrs(path string) (map[string][]byte, error) {
	n, err := unix.Llistxattr(path, nil)
	if err != nil || n == 0 {
		if errors.Is(err, syscall.EOPNOTSUPP) {
			err = nil
		}
		return nil, err
	}
	buf := make([]byte, n+256)
	if n, err = unix.Llistxattr(path, buf); err != nil {
		return nil, err
	}
	m := map[string][]byte{}
	for _, name := range strings.Split(strings.TrimRight(string(buf[:n]), "\x00"), "\x00") {
		if name == "" || posixACL(name) {
			continue
		}
		value := make([]byte, xattrSizeMax)
		k, err := unix.Lgetxattr(path, name, value)
		if errors.Is(err, syscall.ENODATA) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		m[name] = slices.Clone(value[:k])
	}
	if len(m) == 0 {
		return nil, nil
	}
	return m, nil
}

// readAll stores the content of every file for which want is true, in parallel. Each content is read once however
// many hard links it has.
func (f *FS) readAll(ctx context.Context, root string, files []*hostFile, note func(files, bytes int64)) error {
	var next, done, bytes atomic.Int64
	var wg sync.WaitGroup
	errs := make(chan error, runtime.GOMAXPROCS(0))
	for range cap(errs) {
		wg.Go(func() {
			for {
				i := next.Add(1) - 1
				if i >= int64(len(files)) || ctx.Err() != nil {
					return
				}
				if err := f.readFile(ctx, root, files[i]); err != nil {
					errs <- err
					next.Store(int64(len(files)))
					return
				}
				bytes.Add(files[i].st.Size)
				if n := done.Add(1); n%64 == 0 {
					note(n, bytes.Load())
				}
			}
		})
	}
	wg.Wait()
	note(done.Load(), bytes.Load())
	close(errs)
	for err := range errs {
		return err
	}
	return ctx.Err()
}

func (f *FS) readFile(ctx context.Context, root string, h *hostFile) error {
	path := filepath.Join(root, h.path())
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("import %s: %w", path, err)
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close()
	if h.merge != nil && h.merge.Text != nil {
		return f.readMerged(ctx, path, file, h)
	}
	if h.st.Size <= blob.MaxBlob {
		buf := make([]byte, blob.MaxBlob+1)
		n, err := readUpTo(file, buf)
		if err != nil {
			return fmt.Errorf("import %s: %w", path, err)
		}
		if n <= blob.MaxBlob {
			if n > 0 {
				h.staged, err = f.blobs.PutPacked(buf[:n])
			}
			h.read = true
			return err
		}
		if _, err := file.Seek(0, 0); err != nil { // it has grown while we looked
			return fmt.Errorf("import %s: %w", path, err)
		}
	}
	h.staged, err = f.blobs.PutReader(ctx, file)
	h.read = true
	if err != nil {
		return fmt.Errorf("import %s: %w", path, err)
	}
	return nil
}

func readUpTo(file *os.File, buf []byte) (int, error) {
	n := 0
	for n < len(buf) {
		k, err := file.Read(buf[n:])
		n += k
		if k == 0 || err != nil {
			if err != nil && err.Error() != "EOF" {
				return n, err
			}
			return n, nil
		}
	}
	return n, nil
}

func hostVersion(h *hostFile, v *store.Version) {
	v.Mode, v.UID, v.GID = h.st.Mode, h.st.Uid, h.st.Gid
	v.Mtime = h.st.Mtim.Nano()
	v.Atime = v.Mtime
	v.Xattrs = h.xattrs
}
