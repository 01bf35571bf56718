package fs

import "wsfs/blob"

// Contents lists the contents that handles of this workspace need, or may come to need, although no state that the store
// keeps has them: those of open files, and of nodes that kernels still know after their last name went or their inode became
// something else. Collecting asks for them.
func (f *FS) Contents() []blob.Content {
	var list []blob.Content
	var files []*file
	add := func(n *node) {
		if n.opens == 0 && n.file == nil && !n.gone && !n.stale {
			return
		}
		// A node that is being written has the size that it will have with the content that it had (also one that is gone and was
		// taken over from another daemon, which is not called dirty): its file tells them apart.
		if n.file != nil {
			files = append(files, n.file)
		} else if n.isReg() && n.v.Size > 0 && !n.v.Content.IsZero() {
			list = append(list, blob.Content{Ref: n.v.Content, Size: n.v.Size})
		}
	}
	f.mu.Lock()
	for _, n := range f.nodes {
		add(n)
	}
	for _, n := range f.byID {
		add(n)
	}
	for n := range f.dirty {
		add(n)
	}
	f.mu.Unlock()
	for _, fl := range files { // what they lie over
		fl.mu.Lock()
		for _, c := range []blob.Content{fl.base, fl.committed} {
			if c.Size > 0 && !c.Ref.IsZero() {
				list = append(list, c)
			}
		}
		fl.mu.Unlock()
	}
	return list
}
