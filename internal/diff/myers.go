package diff

import "math"

// maxCost bounds how many changes are looked through for the middle of an optimal answer: time is at most about maxCost
// times the number of lines.
const maxCost = 1024

const unreached = math.MinInt32 / 4

// solve fills in changed.
func (s *script) solve() {
	// Ends that agree need no search.
	x, y := s.a.ids, s.b.ids
	start := 0
	for start < len(x) && start < len(y) && x[start] == y[start] {
		start++
	}
	endX, endY := len(x), len(y)
	for endX > start && endY > start && x[endX-1] == y[endY-1] {
		endX--
		endY--
	}
	p := &search{}
	p.x, p.posX = shared(&s.a, start, endX, y[start:endY])
	p.y, p.posY = shared(&s.b, start, endY, x[start:endX])
	p.changedX, p.changedY = s.a.changed, s.b.changed
	size := 2*min(len(p.x)+len(p.y), maxCost) + 8
	p.forward, p.backward = make([]int32, size), make([]int32, size)
	p.run(0, len(p.x), 0, len(p.y))
}

// shared returns the lines of one side that the other has too, with their positions, and marks the rest as changed.
func shared(s *side, start, end int, other []int32) (ids []int32, pos []int) {
	has := make(map[int32]struct{}, len(other))
	for _, id := range other {
		has[id] = struct{}{}
	}
	for i := start; i < end; i++ {
		if _, ok := has[s.ids[i]]; !ok {
			s.changed[i] = true
			continue
		}
		ids = append(ids, s.ids[i])
		pos = append(pos, i)
	}
	return ids, pos
}

// search is Myers's divide and conquer. A point (i, j) stands before x[i] and y[j]; diagonal k holds the points with
// i-j = k. forward and backward hold, per diagonal, how many lines of x the furthest path with the current number of
// changes has gone through from the start, or from the end.
type search struct {
	x, y               []int32
	posX, posY         []int // of x and y in the whole texts
	changedX, changedY []bool
	forward, backward  []int32
}

func (p *search) run(x0, x1, y0, y1 int) {
	for {
		for x0 < x1 && y0 < y1 && p.x[x0] == p.y[y0] {
			x0++
			y0++
		}
		for x0 < x1 && y0 < y1 && p.x[x1-1] == p.y[y1-1] {
			x1--
			y1--
		}
		if x0 == x1 || y0 == y1 {
			for _, i := range p.posX[x0:x1] {
				p.changedX[i] = true
			}
			for _, j := range p.posY[y0:y1] {
				p.changedY[j] = true
			}
			return
		}
		i, j := p.middle(p.x[x0:x1], p.y[y0:y1])
		// The smaller half by recursion, so that the stack stays shallow.
		if i+j < (x1-x0+y1-y0)/2 {
			p.run(x0, x0+i, y0, y0+j)
			x0, y0 = x0+i, y0+j
		} else {
			p.run(x0+i, x1, y0+j, y1)
			x1, y1 = x0+i, y0+j
		}
	}
}

// middle returns a point that an optimal path goes through, or, when that takes more than maxCost changes from either
// end, the point that lies furthest from the end it was reached from. Never a corner: neither the first lines nor the
// last lines are equal.
func (p *search) middle(x, y []int32) (i, j int) {
	n, m := int32(len(x)), int32(len(y))
	zero := int32(len(p.forward) / 2) // index of diagonal 0
	delta := n - m
	odd := delta&1 != 0
	f, b := p.forward, p.backward
	f[zero+1], b[zero+1] = 0, 0 // as if we came from above the start
	f[zero-1], b[zero-1] = unreached, unreached
	for d := int32(0); ; d++ {
		if d > 0 {
			f[zero-d-1], f[zero+d+1] = unreached, unreached
			b[zero-d-1], b[zero+d+1] = unreached, unreached
		}
		for k := -d; k <= d; k += 2 {
			at := step(f, zero+k, k, n, m)
			if at == unreached {
				continue
			}
			for at < n && at-k < m && x[at] == y[at-k] {
				at++
			}
			f[zero+k] = at
			if r := delta - k; odd && r > -d && r < d && at+b[zero+r] >= n {
				return int(at), int(at - k)
			}
		}
		for k := -d; k <= d; k += 2 {
			at := step(b, zero+k, k, n, m)
			if at == unreached {
				continue
			}
			for at < n && at-k < m && x[n-1-at] == y[m-1-(at-k)] {
				at++
			}
			b[zero+k] = at
			if r := delta - k; !odd && r >= -d && r <= d && at+f[zero+r] >= n {
				return int(n - at), int(m - (at - k))
			}
		}
		if d >= maxCost-2 {
			return p.furthest(d, zero, n, m)
		}
	}
}

// step returns where a path with one change more enters a diagonal.
func step(v []int32, at, k, n, m int32) int32 {
	best := int32(unreached)
	if down := v[at+1]; down >= 0 && down-k <= m { // one more line of y
		best = down
	}
	if right := v[at-1] + 1; right > best && right >= 1 && right <= n { // one more line of x
		best = right
	}
	if best < 0 {
		best = unreached
	}
	v[at] = best
	return best
}

func (p *search) furthest(d, zero, n, m int32) (i, j int) {
	var best int32
	for k := -d; k <= d; k += 2 {
		if at := p.forward[zero+k]; 2*at-k > best {
			best = 2*at - k
			i, j = int(at), int(at-k)
		}
		if at := p.backward[zero+k]; 2*at-k > best {
			best = 2*at - k
			i, j = int(n-at), int(m-(at-k))
		}
	}
	return i, j
}
