package main

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"wsfs/versions"
)

// tarFile writes the archive beside its place and moves it there when it is complete.
func (e *export) tarFile(target string, force bool) (err error) {
	if _, err := os.Lstat(target); err == nil && !force {
		return fmt.Errorf("%w; --force replaces it", syscall.EEXIST)
	}
	f, err := os.CreateTemp(filepath.Dir(target), "."+filepath.Base(target)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	if err := e.tar(f); err != nil {
		return err
	}
	if err := errors.Join(f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return err
	}
	if force {
		return os.Rename(f.Name(), target)
	}
	err = unix.Renameat2(unix.AT_FDCWD, f.Name(), unix.AT_FDCWD, target, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) { // not every file system knows the flag
		err = os.Rename(f.Name(), target)
	}
	return err
}

// tar writes the tree as an archive in PAX format, which keeps nanoseconds and extended attributes.
func (e *export) tar(to io.Writer) error {
	buf := bufio.NewWriterSize(to, 256<<10)
	tw := tar.NewWriter(buf)
	err := versions.Walk(e.ctx, e.view, e.root, func(n versions.Node) error {
		if err := e.tarEntry(tw, n); err != nil {
			return fmt.Errorf("archive %q: %w", n.Path, err)
		}
		return e.ctx.Err()
	}, func(versions.Node) error { return nil })
	if err != nil {
		return err
	}
	return errors.Join(tw.Close(), buf.Flush())
}

func (e *export) tarEntry(tw *tar.Writer, n versions.Node) error {
	v := n.Version
	h := &tar.Header{
		Format: tar.FormatPAX, Name: n.Path, Mode: int64(v.Mode & 0o7777), Uid: int(v.UID), Gid: int(v.GID),
		ModTime: time.Unix(0, v.Mtime), PAXRecords: map[string]string{},
	}
	switch v.Type() {
	case syscall.S_IFDIR:
		h.Typeflag, h.Name = tar.TypeDir, "./"+n.Path+"/"
		if n.Path == "" {
			h.Name = "./"
		}
	case syscall.S_IFREG:
		h.Typeflag, h.Size = tar.TypeReg, v.Size
	case syscall.S_IFLNK:
		h.Typeflag, h.Linkname = tar.TypeSymlink, v.Target
	case syscall.S_IFIFO:
		h.Typeflag = tar.TypeFifo
	case syscall.S_IFCHR, syscall.S_IFBLK:
		h.Typeflag = tar.TypeChar
		if v.Type() == syscall.S_IFBLK {
			h.Typeflag = tar.TypeBlock
		}
		major, minor := v.Device()
		h.Devmajor, h.Devminor = int64(major), int64(minor)
	default:
		e.note("not exported: %q: an archive cannot hold a socket", n.Path)
		return nil
	}
	if !v.IsDir() {
		h.Name = "./" + n.Path
	}
	if n.Linked {
		h.Typeflag, h.Linkname, h.Size = tar.TypeLink, "./"+n.Link, 0
	}
	for name, value := range v.Xattrs {
		h.PAXRecords["SCHILY.xattr."+name] = string(value)
	}
	if err := tw.WriteHeader(h); err != nil {
		return err
	}
	e.count++
	if h.Typeflag != tar.TypeReg {
		return nil
	}
	k, err := copyAll(e.ctx, tw, e.content(v))
	e.bytes += k
	return err
}
