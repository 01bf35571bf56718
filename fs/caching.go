package fs

// A kernel that is to keep pages of what a program writes asks before the first write to each new file whether it has file
// capabilities, a request as dear as the write itself, and keeps pages that are needed again only if somebody reads the
// file. So the bytes of a file that is empty and open for nothing but writing, once, go past the pages. Such a handle can be
// mapped by nobody.
//
// While one is open every other handle of the file has to go past them as well: the kernel drops the pages of a range
// before it sends a write, and who reads in that instant would fill them with what was there before, for good. Handles
// that go past the pages can still be mapped, so after the last writer the next open drops what there is, and mappings are
// told.

// Caching says how a kernel may cache what goes through the handle: past its pages, or else whether the pages that it has
// are good. A transport asks once for each handle, before the kernel knows it. can: the kernel can map files that are
// open past its pages.
func (h *Handle) Caching(can bool) (past, keep bool) {
	f, n := h.f, h.n
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case n.past > 0: // only where the kernel can
		n.mixed = true
	case can && n.v.Size == 0 && n.opens == 1 && h.write && !h.read: // no page can have anything of it
	default:
		keep = !n.mixed
		n.mixed = false
		return false, keep
	}
	if h.write {
		h.past = true
		n.past++
	}
	return true, false
}

// pastReleased is the end of a handle that wrote past the pages. FS.mu is held.
func (f *FS) pastReleased(h *Handle) {
	if !h.past {
		return
	}
	h.past = false
	h.n.past--
	if h.n.past == 0 && h.n.mixed {
		f.announceInode(nil, h.n)
	}
}
