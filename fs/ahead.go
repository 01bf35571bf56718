package fs

import (
	"context"

	"wsfs/blob"
	"wsfs/store"
)

// aheadFiles is of how many files behind one in its directory the places of contents are looked up with its own.
const aheadFiles = 64

// expect looks up where the contents are of n and of the files that a listing shows behind it, at once: who reads one file
// of a directory that memory has nothing of reads the next ones soon. It may wait for the database.
func (f *FS) expect(n *node) {
	f.mu.Lock()
	view := f.view
	w := wanted{refs: append(make([]blob.Ref, 0, aheadFiles), n.v.Content), inos: append(make([]store.Ino, 0, aheadFiles), n.ino)}
	if p := f.nodes[n.parent]; p != nil && p.dir != nil && p.dir.get(n.name) != nil {
		d := p.dir
		for i := d.after(d.get(n.name).cookie); i < len(d.order) && len(w.refs) < aheadFiles; i++ {
			e := &d.order[i]
			if r := d.coldOf(e); r != nil {
				w.add(e.ino, r.content, r.size)
			} else if o := f.nodes[e.ino]; o != nil && o.isReg() && o.file == nil {
				w.add(e.ino, o.v.Content, o.v.Size)
			}
		}
	}
	f.mu.Unlock()
	f.blobs.ExpectAt(context.Background(), w.refs, func(which []int, found func(blob.Location)) {
		var at wanted
		for _, i := range which {
			at.add(w.inos[i], w.refs[i], 1)
		}
		_ = view.Places(context.Background(), at.inos, at.refs, found) // the index knows them, too
	})
}

// wanted is contents with the files that have them.
type wanted struct {
	refs []blob.Ref
	inos []store.Ino
}

func (w *wanted) add(ino store.Ino, ref blob.Ref, size int64) {
	if size > 0 && size <= blob.MaxBlob {
		w.refs, w.inos = append(w.refs, ref), append(w.inos, ino)
	}
}
