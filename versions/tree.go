package versions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	"wsfs/blob"
	"wsfs/store"
)

// DirEntry is one name of a past directory.
type DirEntry struct {
	Name    string
	Version *store.Version
}

// maxLinks is how many symbolic links one path may lead through, as in Linux.
const maxLinks = 40

// Find walks path from the root of v. Symbolic links inside the workspace are followed as the kernel would; the last
// one only if follow. A link to an absolute path, or one that climbs above the root, leaves the workspace: EXDEV.
func Find(ctx context.Context, v *store.View, path string, follow bool) (*store.Version, error) {
	fail := func(part string, err error) (*store.Version, error) {
		if part == "" || part == path {
			return nil, fmt.Errorf("open %q: %w", "/"+path, err)
		}
		return nil, fmt.Errorf("open %q: %q: %w", "/"+path, part, err)
	}
	root, err := v.Version(ctx, store.RootIno)
	if err != nil {
		return fail("", err)
	}
	stack := []*store.Version{root} // the directories walked so far, and at last the result
	todo := split(path)
	for links := 0; len(todo) > 0; {
		part := todo[0]
		todo = todo[1:]
		here := stack[len(stack)-1]
		if !here.IsDir() {
			return fail(part, syscall.ENOTDIR)
		}
		if part == ".." {
			if len(stack) == 1 {
				return fail(part, syscall.EXDEV)
			}
			stack = stack[:len(stack)-1]
			continue
		}
		name, err := v.Lookup(ctx, here.Ino, part)
		if err != nil {
			return fail(part, bare(err))
		}
		next, err := v.Version(ctx, name.Ino)
		if err != nil {
			return fail(part, err)
		}
		if next.Type() == syscall.S_IFLNK && (follow || len(todo) > 0) {
			if links++; links > maxLinks {
				return fail(part, syscall.ELOOP)
			}
			if strings.HasPrefix(next.Target, "/") {
				return fail(part+" -> "+next.Target, syscall.EXDEV)
			}
			todo = append(split(next.Target), todo...)
			continue
		}
		stack = append(stack, next)
	}
	return stack[len(stack)-1], nil
}

// bare drops the store's own words from a plain ENOENT: the path is in the message already.
func bare(err error) error {
	if errors.Is(err, syscall.ENOENT) {
		return syscall.ENOENT
	}
	return err
}

func split(path string) []string {
	parts := strings.Split(path, "/")
	out := parts[:0]
	for _, p := range parts {
		if p != "" && p != "." {
			out = append(out, p)
		}
	}
	return out
}

// Open returns a regular file's bytes as they were. They are verified while they are read: damage is an error that
// wraps EIO. A symbolic link is followed.
func Open(ctx context.Context, st *store.Store, v *store.View, path string) (io.Reader, *store.Version, error) {
	ver, err := Find(ctx, v, path, true)
	if err != nil {
		return nil, nil, err
	}
	switch ver.Type() {
	case syscall.S_IFREG:
		return st.Blobs().Reader(ctx, blob.Content{Ref: ver.Content, Size: ver.Size}), ver, nil
	case syscall.S_IFDIR:
		return nil, nil, fmt.Errorf("read %q: %w", "/"+path, syscall.EISDIR)
	}
	return nil, nil, fmt.Errorf("read %q: it is not a regular file: %w", "/"+path, syscall.EINVAL)
}

// List calls fn with the entries of the directory at path, in byte order, or with the one file that path names.
func List(ctx context.Context, v *store.View, path string, fn func(DirEntry) error) error {
	ver, err := Find(ctx, v, path, true)
	if err != nil {
		return err
	}
	if !ver.IsDir() {
		// What was asked for by name is shown as it is, as ls does with a link to a file.
		if ver, err = Find(ctx, v, path, false); err != nil {
			return err
		}
		return fn(DirEntry{path[strings.LastIndexByte(path, '/')+1:], ver})
	}
	return v.ReadDir(ctx, ver.Ino, func(n store.Name, ver *store.Version) error {
		return fn(DirEntry{n.Name, ver})
	})
}

// PathOf is a path from the root to ino at v, without a leading slash. An inode with several names has several paths;
// this is one of them. It wraps ENOENT if ino has no name there. The root is "".
func PathOf(ctx context.Context, v *store.View, ino store.Ino) (string, error) {
	var parts []string
	for depth := 0; ino != store.RootIno; depth++ {
		names, err := v.NamesOf(ctx, ino)
		if err != nil {
			return "", fmt.Errorf("find the name of inode %d: %w", ino, err)
		}
		if len(names) == 0 {
			return "", fmt.Errorf("inode %d has no name: %w", ino, syscall.ENOENT)
		}
		if depth > MaxPath {
			return "", fmt.Errorf("the directories above inode %d form a ring: %w", ino, syscall.EIO)
		}
		best := names[0]
		for _, n := range names[1:] {
			if n.Parent < best.Parent || n.Parent == best.Parent && n.Name < best.Name {
				best = n
			}
		}
		parts = append(parts, best.Name)
		ino = best.Parent
	}
	for i, j := 0, len(parts)-1; i < j; i, j = i+1, j-1 {
		parts[i], parts[j] = parts[j], parts[i]
	}
	return strings.Join(parts, "/"), nil
}
