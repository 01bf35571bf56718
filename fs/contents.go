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
		// While a file is dirty its node has the size that it will have with the content that it had: file tells them apart.
		if n.isReg() && n.dirtySince == 0 && n.v.Size > 0 && !n.v.Content.IsZero() {
			list = append(list, blob.Content{Ref: n.v.Content, Size: n.v.Size})
		}
		if n.file != nil {
			files = append(files, n.file)
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
