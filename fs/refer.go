package fs

import "wsfs/store"

// Refer counts one more reference of a kernel to a node that it had before, whether a name leads to it or not.
func (f *FS) Refer(id store.Ino) (Attr, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.node(nil, id)
	if err != nil {
		return Attr{}, err
	}
	n.lookups++
	return n.attr(), nil
}
