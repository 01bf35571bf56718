package fs

import (
	"context"

	"wsfs/blob"
)

// aheadFiles is of how many files behind one in its directory the places of contents are looked up with its own.
const aheadFiles = 64

// expect looks up where the contents are of n and of the files that a listing shows behind it, at once: who reads one file
// of a directory that memory has nothing of reads the next ones soon. It may wait for the database.
func (f *FS) expect(n *node) {
	f.mu.Lock()
	refs := append(make([]blob.Ref, 0, aheadFiles), n.v.Content)
	if p := f.nodes[n.parent]; p != nil && p.dir != nil && p.dir.get(n.name) != nil {
		d := p.dir
		for i := d.after(d.get(n.name).cookie); i < len(d.order) && len(refs) < aheadFiles; i++ {
			e := &d.order[i]
			if r := d.coldOf(e); r != nil {
				refs = addSmall(refs, r.content, r.size)
			} else if o := f.nodes[e.ino]; o != nil && o.isReg() && o.file == nil {
				refs = addSmall(refs, o.v.Content, o.v.Size)
			}
		}
	}
	f.mu.Unlock()
	f.blobs.Expect(context.Background(), refs)
}

func addSmall(refs []blob.Ref, ref blob.Ref, size int64) []blob.Ref {
	if size > 0 && size <= blob.MaxBlob {
		refs = append(refs, ref)
	}
	return refs
}
