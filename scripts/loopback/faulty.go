package main

import (
	"os"
	"strings"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"
)

// faulty is a disk that fails on command: a request answers EIO while the file at says the kind of it, which is read,
// write, fsync or names (what makes, moves and removes them, and truncates). Nothing has been done then. No lock is needed: each request
// looks for itself.
type faulty struct {
	gofuse.RawFileSystem
	at string
}

func (f *faulty) fails(kind string) bool {
	b, err := os.ReadFile(f.at)
	return err == nil && strings.Contains(string(b), kind)
}

func (f *faulty) Read(cancel <-chan struct{}, in *gofuse.ReadIn, buf []byte) (gofuse.ReadResult, gofuse.Status) {
	if f.fails("read") {
		return nil, gofuse.EIO
	}
	return f.RawFileSystem.Read(cancel, in, buf)
}

func (f *faulty) Write(cancel <-chan struct{}, in *gofuse.WriteIn, data []byte) (uint32, gofuse.Status) {
	if f.fails("write") {
		return 0, gofuse.EIO
	}
	return f.RawFileSystem.Write(cancel, in, data)
}

func (f *faulty) Writev(cancel <-chan struct{}, in *gofuse.WriteIn, data [][]byte) (uint32, gofuse.Status) {
	if f.fails("write") {
		return 0, gofuse.EIO
	}
	return f.RawFileSystem.Writev(cancel, in, data)
}

func (f *faulty) CopyFileRange(cancel <-chan struct{}, in *gofuse.CopyFileRangeIn) (uint32, gofuse.Status) {
	if f.fails("write") {
		return 0, gofuse.EIO
	}
	return f.RawFileSystem.CopyFileRange(cancel, in)
}

func (f *faulty) Fallocate(cancel <-chan struct{}, in *gofuse.FallocateIn) gofuse.Status {
	if f.fails("write") {
		return gofuse.EIO
	}
	return f.RawFileSystem.Fallocate(cancel, in)
}

func (f *faulty) Fsync(cancel <-chan struct{}, in *gofuse.FsyncIn) gofuse.Status {
	if f.fails("fsync") {
		return gofuse.EIO
	}
	return f.RawFileSystem.Fsync(cancel, in)
}

func (f *faulty) FsyncDir(cancel <-chan struct{}, in *gofuse.FsyncIn) gofuse.Status {
	if f.fails("fsync") {
		return gofuse.EIO
	}
	return f.RawFileSystem.FsyncDir(cancel, in)
}

func (f *faulty) SetAttr(cancel <-chan struct{}, in *gofuse.SetAttrIn, out *gofuse.AttrOut) gofuse.Status {
	if f.fails("names") {
		return gofuse.EIO
	}
	return f.RawFileSystem.SetAttr(cancel, in, out)
}

func (f *faulty) Create(cancel <-chan struct{}, in *gofuse.CreateIn, name string, out *gofuse.CreateOut) gofuse.Status {
	if f.fails("names") {
		return gofuse.EIO
	}
	return f.RawFileSystem.Create(cancel, in, name, out)
}

func (f *faulty) Unlink(cancel <-chan struct{}, in *gofuse.InHeader, name string) gofuse.Status {
	if f.fails("names") {
		return gofuse.EIO
	}
	return f.RawFileSystem.Unlink(cancel, in, name)
}

func (f *faulty) Rename(cancel <-chan struct{}, in *gofuse.RenameIn, from, to string) gofuse.Status {
	if f.fails("names") {
		return gofuse.EIO
	}
	return f.RawFileSystem.Rename(cancel, in, from, to)
}
