package fs

import "hash/maphash"

// nameSeed is one for all directories: only who knows it could make names that collide.
var nameSeed = maphash.MakeSeed()

const (
	smallDir = 8       // up to so many entries are searched one by one
	noEntry  = 0       // of an index: never used
	deadSlot = 1 << 31 // of an index: an entry was here, so a search goes on
)

// find is the place of a name in d.order, -1 if it is not in the directory.
func (d *dir) find(name string) int {
	if d.index == nil {
		for i := range d.order {
			if e := &d.order[i]; !e.dead() && e.name == name {
				return i
			}
		}
		return -1
	}
	mask := uint64(len(d.index) - 1)
	for i := maphash.String(nameSeed, name) & mask; ; i = (i + 1) & mask {
		at := d.index[i]
		if at == noEntry {
			return -1
		}
		if at != deadSlot && d.order[at-1].name == name {
			return int(at - 1)
		}
	}
}

// indexed makes the last entry of d.order findable.
func (d *dir) indexed() {
	if d.index == nil && len(d.order) <= smallDir {
		return
	}
	if d.used++; d.index == nil || d.used*4 > len(d.index)*3 {
		d.reindex()
		return
	}
	d.insert(len(d.order) - 1)
}

func (d *dir) insert(at int) {
	mask := uint64(len(d.index) - 1)
	i := maphash.String(nameSeed, d.order[at].name) & mask
	for d.index[i] != noEntry && d.index[i] != deadSlot {
		i = (i + 1) & mask
	}
	if d.index[i] == deadSlot {
		d.used--
	}
	d.index[i] = uint32(at + 1)
}

// unindex takes entry at out of the index, before its name goes.
func (d *dir) unindex(at int) {
	if d.index == nil {
		return
	}
	mask := uint64(len(d.index) - 1)
	for i := maphash.String(nameSeed, d.order[at].name) & mask; d.index[i] != noEntry; i = (i + 1) & mask {
		if d.index[i] == uint32(at+1) {
			d.index[i] = deadSlot
			return
		}
	}
}

// reindex makes the index anew, with room for half as many names again.
func (d *dir) reindex() {
	d.index, d.used = nil, d.live
	if len(d.order) <= smallDir {
		return
	}
	size := 16
	for size*3 < d.live*4+d.live {
		size *= 2
	}
	d.index = make([]uint32, size)
	for i := range d.order {
		if !d.order[i].dead() {
			d.insert(i)
		}
	}
}
