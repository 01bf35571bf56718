package blob

import (
	"encoding/binary"
	"fmt"
)

// A node of a content tree, as stored (it is a blob like any other; little-endian):
//
//	offset  size
//	 0      4     "wsn1"
//	 4      1     level: 1 if the children are chunks of content, else one more than theirs
//	 5      1     zero
//	 6      2     number of children
//	 8      8     bytes of content below this node
//	16      40*n  children: Ref (32), end of the child's bytes counted from the node's start (8)
//
// A child with the zero Ref is a hole. A node of level l covers windowAt(l) bytes at a multiple of that, the last one
// what is left. Children of level 2 and up begin at multiples of the window below; a hole spans one or more of those.
// Two holes never follow each other, and a node without data exists only as the root.
const (
	nodeMagic     = "wsn1"
	nodeHeader    = 16
	nodeEntry     = RefSize + 8
	maxChildren   = 256 // 64 blocks of a window in chunks of at least minChunk but for the last of a run
	maxNodeSize   = nodeHeader + maxChildren*nodeEntry
	minNodeLength = nodeHeader + nodeEntry
)

// child is one entry of a node. off and end are absolute or relative to the node's start, as the context says.
type child struct {
	ref Ref // zero: a hole
	end int64
}

// node is the encoded form, checked by parseNode.
type node []byte

func (n node) level() int  { return int(n[4]) }
func (n node) count() int  { return int(binary.LittleEndian.Uint16(n[6:])) }
func (n node) size() int64 { return int64(binary.LittleEndian.Uint64(n[8:])) }

func (n node) ref(i int) Ref {
	return Ref(n[nodeHeader+i*nodeEntry:][:RefSize])
}

// end returns where child i ends, relative to the node's start.
func (n node) end(i int) int64 {
	return int64(binary.LittleEndian.Uint64(n[nodeHeader+i*nodeEntry+RefSize:]))
}

// start returns where child i begins, relative to the node's start.
func (n node) start(i int) int64 {
	if i == 0 {
		return 0
	}
	return n.end(i - 1)
}

// find returns the child that holds the byte at off, counted from the node's start.
func (n node) find(off int64) int {
	lo, hi := 0, n.count()
	for lo < hi {
		mid := (lo + hi) / 2
		if n.end(mid) <= off {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// appendNode appends the encoded node to b. The ends of the children are relative to the node's start.
func appendNode(b []byte, level int, children []child) node {
	b = append(b, nodeMagic...)
	b = append(b, byte(level), 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(children)))
	b = binary.LittleEndian.AppendUint64(b, uint64(children[len(children)-1].end))
	for i := range children {
		b = append(b, children[i].ref[:]...)
		b = binary.LittleEndian.AppendUint64(b, uint64(children[i].end))
	}
	return b
}

// parseNode checks that b is a node of this level over exactly size bytes, so that walking it needs no more checks.
func parseNode(b []byte, level int, size int64) (node, error) {
	if len(b) < minNodeLength || string(b[:4]) != nodeMagic || b[5] != 0 {
		return nil, fmt.Errorf("not a tree node (%d bytes)", len(b))
	}
	n := node(b)
	if n.level() != level {
		return nil, fmt.Errorf("tree node of level %d where level %d belongs", n.level(), level)
	}
	if n.count() < 1 || n.count() > maxChildren || len(b) != nodeHeader+n.count()*nodeEntry {
		return nil, fmt.Errorf("tree node with %d children in %d bytes", n.count(), len(b))
	}
	if n.size() != size || size > windowAt(level) {
		return nil, fmt.Errorf("tree node over %d bytes where %d belong", n.size(), size)
	}
	grid := int64(blockSize)
	if level > 1 {
		grid = windowAt(level - 1)
	}
	var prev int64
	hole := false
	for i := range n.count() {
		end, isHole := n.end(i), n.ref(i).IsZero()
		switch {
		case end <= prev || end > size:
			return nil, fmt.Errorf("child %d of a tree node ends at %d of %d, after %d", i, end, size, prev)
		case isHole && hole:
			return nil, fmt.Errorf("child %d of a tree node is a hole after a hole", i)
		case (isHole || level > 1) && (prev%grid != 0 || end%grid != 0 && end != size):
			return nil, fmt.Errorf("child %d of a tree node has bytes %d to %d, which is off its grid", i, prev, end)
		case !isHole && level == 1 && end-prev > maxChunk:
			return nil, fmt.Errorf("child %d of a tree node is a chunk of %d bytes, the most is %d", i, end-prev, maxChunk)
		case !isHole && level > 1 && end-prev > grid:
			return nil, fmt.Errorf("child %d of a tree node has %d bytes, the most is %d", i, end-prev, grid)
		}
		prev, hole = end, isHole
	}
	if prev != size {
		return nil, fmt.Errorf("children of a tree node end at %d of %d bytes", prev, size)
	}
	return n, nil
}
