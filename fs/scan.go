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
	dirs  *beneath
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
	dirs, err := openBeneath(root)
	if errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP) {
		return nil, nil, fmt.Errorf("import %s: only a directory can become a workspace: %w", root, syscall.ENOTDIR)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("import %s: %w", root, err)
	}
	s := &scan{root: root, dirs: dirs, skip: skip, note: note, slots: make(chan struct{}, 2*runtime.GOMAXPROCS(0))}
	top := &hostFile{}
	if err := lstatat(dirs.root, ".", &top.st); err != nil {
		dirs.close()
		return nil, nil, fmt.Errorf("import %s: %w", root, err)
	}
	top.xattrs, _ = hostXattrs(at(dirs.root, "."))
	s.wg.Add(1)
	s.dir(top, root)
	s.wg.Wait()
	slices.Sort(s.skipped)
	if s.err != nil {
		dirs.close()
	}
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
	fd, err := s.dirs.open(h.path(), unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		s.fail(fmt.Errorf("import: open %s: %w", path, err))
		return
	}
	d := os.NewFile(uintptr(fd), path)
	ok := s.entries(h, d, path)
	_ = d.Close() // before those below are opened: a tree may be deeper than a process has descriptors
	if !ok {
		return
	}
	for _, child := range h.children {
		if !child.isDir() {
			continue
		}
		full := filepath.Join(path, child.name)
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

// entries reads what is in the open directory d; false is the end of the import.
func (s *scan) entries(h *hostFile, d *os.File, path string) bool {
	names, err := d.Readdirnames(-1)
	if err != nil {
		s.fail(fmt.Errorf("import: read directory %s: %w", path, err))
		return false
	}
	slices.Sort(names)
	for _, name := range names {
		full := filepath.Join(path, name)
		if h.parent == nil && name == ".wsfs" {
			s.fail(fmt.Errorf("import %s: it has an entry named .wsfs, which every mount uses for itself; rename it first: %w", path, syscall.EEXIST))
			return false
		}
		if s.skip[full] {
			s.skipPath(full, "a mount or the store itself")
			continue
		}
		child := &hostFile{name: name, parent: h}
		if s.entry(child, int(d.Fd()), full) {
			h.children = append(h.children, child)
		}
	}
	return true
}

// entry reads the metadata of one entry of the open directory dir; false leaves it out.
func (s *scan) entry(h *hostFile, dir int, full string) bool {
	if err := lstatat(dir, h.name, &h.st); err != nil {
		if !errors.Is(err, syscall.ENOENT) { // removed while we look: as if it had never been there
			s.fail(fmt.Errorf("import %s: %w", full, err))
		}
		return false
	}
	var err error
	switch h.st.Mode & syscall.S_IFMT {
	case syscall.S_IFLNK:
		if h.target, err = readlinkat(dir, h.name); err != nil {
			s.fail(fmt.Errorf("import: read link %s: %w", full, err))
			return false
		}
	}
	if h.xattrs, err = hostXattrs(at(dir, h.name)); err != nil {
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

// Files are read in runs of at most runFiles files and, but for a single one, runBytes bytes.
const (
	runFiles = 256
	runBytes = 1 << 20
)

// readAll stores the content of every file, in parallel. Each content is read once however many hard links it has. Small files
// are stored many at a time.
func (f *FS) readAll(ctx context.Context, s *scan, files []*hostFile, note func(files, bytes int64)) error {
	var mu sync.Mutex // guards left, done, bytes and first
	var done, bytes int64
	var first error
	left := files
	take := func() (run []*hostFile) {
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() != nil || first != nil || len(left) == 0 {
			return nil
		}
		n, size := 0, int64(0)
		for n < len(left) && n < runFiles && (n == 0 || size+left[n].st.Size <= runBytes) {
			size += left[n].st.Size
			n++
		}
		run, left = left[:n], left[n:]
		return run
	}
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			r := &runReader{f: f, ctx: ctx, root: s.root, dirs: s.dirs}
			for run := take(); run != nil; run = take() {
				err := r.read(run)
				mu.Lock()
				if first == nil {
					first = err
				}
				for _, h := range run {
					bytes += h.st.Size
				}
				done += int64(len(run))
				n, b := done, bytes
				mu.Unlock()
				if err == nil {
					note(n, b)
				}
			}
		})
	}
	wg.Wait()
	note(done, bytes)
	if first != nil {
		return first
	}
	return ctx.Err()
}

// runReader reads runs of files. It is used by one goroutine.
type runReader struct {
	f     *FS
	ctx   context.Context
	root  string
	dirs  *beneath
	buf   []byte
	small []*hostFile // those whose bytes are in data, which are parts of buf
	data  [][]byte
}

func (r *runReader) read(run []*hostFile) error {
	if r.buf == nil {
		r.buf = make([]byte, runBytes+blob.MaxBlob+runFiles)
	}
	r.small, r.data = r.small[:0], r.data[:0]
	free := r.buf
	for _, h := range run {
		n, err := r.file(h, free)
		if err != nil {
			return fmt.Errorf("import %s: %w", filepath.Join(r.root, h.path()), err)
		}
		free = free[n:]
	}
	staged, err := r.f.blobs.PutMany(r.ctx, r.data)
	for i, st := range staged {
		r.small[i].staged = st
	}
	return err
}

// file reads one file: what is small, into free, of which it uses n bytes.
func (r *runReader) file(h *hostFile, free []byte) (n int, err error) {
	path := h.path()
	fd, err := r.dirs.open(path, unix.O_RDONLY|unix.O_NONBLOCK) // it may have become a FIFO, which would wait
	if err != nil {
		return 0, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		_ = unix.Close(fd)
		return 0, fmt.Errorf("it is no regular file any more: %w", syscall.EBUSY)
	}
	merge := h.merge != nil && h.merge.Text != nil
	if room := int(h.st.Size) + 1; h.st.Size <= blob.MaxBlob && room <= len(free) && !merge {
		n, err = readUpTo(fd, free[:room])
		if err != nil || n < room {
			_ = unix.Close(fd)
			if h.read = err == nil; n > 0 && err == nil {
				r.small, r.data = append(r.small, h), append(r.data, free[:n:n])
			}
			return n, err
		}
		if _, err = unix.Seek(fd, 0, unix.SEEK_SET); err != nil { // it has grown while we looked
			_ = unix.Close(fd)
			return 0, err
		}
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close()
	if merge {
		return 0, r.f.readMerged(r.ctx, file, h)
	}
	h.read = true
	if gap := st.Size - st.Blocks*512; st.Size > blob.MaxBlob && gap >= blob.WindowSize { // only what is not zero is read
		h.staged, _, err = r.f.blobs.Edit(r.ctx, blob.Content{}, st.Size, []blob.Extent{{Len: st.Size}}, sparseFile{file})
		return 0, err
	}
	h.staged, err = r.f.blobs.PutReader(r.ctx, file)
	return 0, err
}

// readUpTo fills p, which is one byte longer than the file is thought to be. A read that ends just there was the last.
func readUpTo(fd int, p []byte) (int, error) {
	n := 0
	for {
		k, err := unix.Read(fd, p[n:])
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if n += max(k, 0); err != nil || k == 0 || n >= len(p)-1 {
			return n, err
		}
	}
}

func hostVersion(h *hostFile, v *store.Version) {
	v.Mode, v.UID, v.GID = h.st.Mode, h.st.Uid, h.st.Gid
	v.Mtime = h.st.Mtim.Nano()
	v.Atime = v.Mtime
	v.Xattrs = h.xattrs
}
