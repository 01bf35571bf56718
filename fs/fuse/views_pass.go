package fuse

import gofuse "github.com/hanwen/go-fuse/v2/fuse"

// The requests of views that have nothing to decide but where they go.

func (v *views) SetAttr(cancel <-chan struct{}, in *gofuse.SetAttrIn, out *gofuse.AttrOut) gofuse.Status {
	if in.NodeId < viewSize {
		return v.home.SetAttr(cancel, in, out)
	}
	return v.with(cancel, &in.InHeader, func(raw gofuse.RawFileSystem) gofuse.Status { return raw.SetAttr(cancel, in, out) })
}

func (v *views) Access(cancel <-chan struct{}, in *gofuse.AccessIn) gofuse.Status {
	if in.NodeId < viewSize {
		return v.home.Access(cancel, in)
	}
	return v.with(cancel, &in.InHeader, func(raw gofuse.RawFileSystem) gofuse.Status { return raw.Access(cancel, in) })
}

func (v *views) Mknod(cancel <-chan struct{}, in *gofuse.MknodIn, name string, out *gofuse.EntryOut) gofuse.Status {
	if in.NodeId < viewSize {
		return v.home.Mknod(cancel, in, name, out)
	}
	return v.with(cancel, &in.InHeader, func(raw gofuse.RawFileSystem) gofuse.Status { return raw.Mknod(cancel, in, name, out) })
}

func (v *views) Mkdir(cancel <-chan struct{}, in *gofuse.MkdirIn, name string, out *gofuse.EntryOut) gofuse.Status {
	if in.NodeId < viewSize {
		return v.home.Mkdir(cancel, in, name, out)
	}
	return v.with(cancel, &in.InHeader, func(raw gofuse.RawFileSystem) gofuse.Status { return raw.Mkdir(cancel, in, name, out) })
}

func (v *views) Unlink(cancel <-chan struct{}, h *gofuse.InHeader, name string) gofuse.Status {
	if h.NodeId < viewSize {
		return v.home.Unlink(cancel, h, name)
	}
	return v.with(cancel, h, func(raw gofuse.RawFileSystem) gofuse.Status { return raw.Unlink(cancel, h, name) })
}

func (v *views) Rmdir(cancel <-chan struct{}, h *gofuse.InHeader, name string) gofuse.Status {
	if h.NodeId < viewSize {
		return v.home.Rmdir(cancel, h, name)
	}
	return v.with(cancel, h, func(raw gofuse.RawFileSystem) gofuse.Status { return raw.Rmdir(cancel, h, name) })
}

func (v *views) Symlink(cancel <-chan struct{}, h *gofuse.InHeader, target, name string, out *gofuse.EntryOut) gofuse.Status {
	if h.NodeId < viewSize {
		return v.home.Symlink(cancel, h, target, name, out)
	}
	return v.with(cancel, h, func(raw gofuse.RawFileSystem) gofuse.Status { return raw.Symlink(cancel, h, target, name, out) })
}

func (v *views) Lookup(cancel <-chan struct{}, h *gofuse.InHeader, name string, out *gofuse.EntryOut) gofuse.Status {
	if h.NodeId < viewSize {
		return v.home.Lookup(cancel, h, name, out)
	}
	return v.with(cancel, h, func(raw gofuse.RawFileSystem) gofuse.Status { return raw.Lookup(cancel, h, name, out) })
}

func (v *views) SetXAttr(cancel <-chan struct{}, in *gofuse.SetXAttrIn, name string, data []byte) gofuse.Status {
	if in.NodeId < viewSize {
		return v.home.SetXAttr(cancel, in, name, data)
	}
	return v.with(cancel, &in.InHeader, func(raw gofuse.RawFileSystem) gofuse.Status { return raw.SetXAttr(cancel, in, name, data) })
}

func (v *views) RemoveXAttr(cancel <-chan struct{}, h *gofuse.InHeader, name string) gofuse.Status {
	if h.NodeId < viewSize {
		return v.home.RemoveXAttr(cancel, h, name)
	}
	return v.with(cancel, h, func(raw gofuse.RawFileSystem) gofuse.Status { return raw.RemoveXAttr(cancel, h, name) })
}

func (v *views) Create(cancel <-chan struct{}, in *gofuse.CreateIn, name string, out *gofuse.CreateOut) gofuse.Status {
	if in.NodeId < viewSize {
		return v.home.Create(cancel, in, name, out)
	}
	return v.with(cancel, &in.InHeader, func(raw gofuse.RawFileSystem) gofuse.Status { return raw.Create(cancel, in, name, out) })
}

func (v *views) Tmpfile(cancel <-chan struct{}, in *gofuse.CreateIn, out *gofuse.CreateOut) gofuse.Status {
	if in.NodeId < viewSize {
		return v.home.Tmpfile(cancel, in, out)
	}
	return v.with(cancel, &in.InHeader, func(raw gofuse.RawFileSystem) gofuse.Status { return raw.Tmpfile(cancel, in, out) })
}

func (v *views) Open(cancel <-chan struct{}, in *gofuse.OpenIn, out *gofuse.OpenOut) gofuse.Status {
	if in.NodeId < viewSize {
		return v.home.Open(cancel, in, out)
	}
	return v.with(cancel, &in.InHeader, func(raw gofuse.RawFileSystem) gofuse.Status { return raw.Open(cancel, in, out) })
}

func (v *views) Lseek(cancel <-chan struct{}, in *gofuse.LseekIn, out *gofuse.LseekOut) gofuse.Status {
	if in.NodeId < viewSize {
		return v.home.Lseek(cancel, in, out)
	}
	return v.with(cancel, &in.InHeader, func(raw gofuse.RawFileSystem) gofuse.Status { return raw.Lseek(cancel, in, out) })
}

func (v *views) GetLk(cancel <-chan struct{}, in *gofuse.LkIn, out *gofuse.LkOut) gofuse.Status {
	if in.NodeId < viewSize {
		return v.home.GetLk(cancel, in, out)
	}
	return v.with(cancel, &in.InHeader, func(raw gofuse.RawFileSystem) gofuse.Status { return raw.GetLk(cancel, in, out) })
}

func (v *views) SetLk(cancel <-chan struct{}, in *gofuse.LkIn) gofuse.Status {
	if in.NodeId < viewSize {
		return v.home.SetLk(cancel, in)
	}
	return v.with(cancel, &in.InHeader, func(raw gofuse.RawFileSystem) gofuse.Status { return raw.SetLk(cancel, in) })
}

func (v *views) SetLkw(cancel <-chan struct{}, in *gofuse.LkIn) gofuse.Status {
	if in.NodeId < viewSize {
		return v.home.SetLkw(cancel, in)
	}
	return v.with(cancel, &in.InHeader, func(raw gofuse.RawFileSystem) gofuse.Status { return raw.SetLkw(cancel, in) })
}

func (v *views) Flush(cancel <-chan struct{}, in *gofuse.FlushIn) gofuse.Status {
	if in.NodeId < viewSize {
		return v.home.Flush(cancel, in)
	}
	return v.with(cancel, &in.InHeader, func(raw gofuse.RawFileSystem) gofuse.Status { return raw.Flush(cancel, in) })
}

func (v *views) Fsync(cancel <-chan struct{}, in *gofuse.FsyncIn) gofuse.Status {
	if in.NodeId < viewSize {
		return v.home.Fsync(cancel, in)
	}
	return v.with(cancel, &in.InHeader, func(raw gofuse.RawFileSystem) gofuse.Status { return raw.Fsync(cancel, in) })
}

func (v *views) Fallocate(cancel <-chan struct{}, in *gofuse.FallocateIn) gofuse.Status {
	if in.NodeId < viewSize {
		return v.home.Fallocate(cancel, in)
	}
	return v.with(cancel, &in.InHeader, func(raw gofuse.RawFileSystem) gofuse.Status { return raw.Fallocate(cancel, in) })
}

func (v *views) OpenDir(cancel <-chan struct{}, in *gofuse.OpenIn, out *gofuse.OpenOut) gofuse.Status {
	if in.NodeId < viewSize {
		return v.home.OpenDir(cancel, in, out)
	}
	return v.with(cancel, &in.InHeader, func(raw gofuse.RawFileSystem) gofuse.Status { return raw.OpenDir(cancel, in, out) })
}

func (v *views) ReadDir(cancel <-chan struct{}, in *gofuse.ReadIn, out *gofuse.DirEntryList) gofuse.Status {
	if in.NodeId < viewSize {
		return v.home.ReadDir(cancel, in, out)
	}
	return v.with(cancel, &in.InHeader, func(raw gofuse.RawFileSystem) gofuse.Status { return raw.ReadDir(cancel, in, out) })
}

func (v *views) ReadDirPlus(cancel <-chan struct{}, in *gofuse.ReadIn, out *gofuse.DirEntryList) gofuse.Status {
	if in.NodeId < viewSize {
		return v.home.ReadDirPlus(cancel, in, out)
	}
	return v.with(cancel, &in.InHeader, func(raw gofuse.RawFileSystem) gofuse.Status { return raw.ReadDirPlus(cancel, in, out) })
}

func (v *views) FsyncDir(cancel <-chan struct{}, in *gofuse.FsyncIn) gofuse.Status {
	if in.NodeId < viewSize {
		return v.home.FsyncDir(cancel, in)
	}
	return v.with(cancel, &in.InHeader, func(raw gofuse.RawFileSystem) gofuse.Status { return raw.FsyncDir(cancel, in) })
}
