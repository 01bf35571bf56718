package diff

// slide moves each run of changed lines of s up or down over lines equal to its own, which is the same answer put
// differently: runs that can meet are joined; a run that can stand beside one of the other side does, and replaces it
// then; else it goes as far down as it can or, if readable, to where it starts or ends a block. The idea is that of
// git's xdiff: the other side is walked along, one run between each two lines that have a partner.
func slide(s, other *side, readable bool) {
	g, o := firstRun(s), firstRun(other)
	for {
		if g.start != g.end {
			settle(&g, &o, readable)
		}
		if !g.next() {
			return
		}
		o.next()
	}
}

func settle(g, o *run, readable bool) {
	var lowest, beside int // ends: the highest place it can take, and the last beside a run of the other side
	for size := -1; size != g.end-g.start; {
		size = g.end - g.start
		beside = -1
		for g.up() {
			o.prev()
		}
		lowest = g.end
		if o.start != o.end {
			beside = g.end
		}
		for g.down() {
			o.next()
			if o.start != o.end {
				beside = g.end
			}
		}
	}
	want := g.end
	switch {
	case g.end == lowest:
	case beside >= 0:
		want = beside
	case readable:
		want = bestPlace(g, lowest)
	}
	for g.end > want {
		g.up()
		o.prev()
	}
}

// run is a maximal stretch of changed lines, perhaps empty, between two unchanged ones.
type run struct {
	s          *side
	start, end int
}

func firstRun(s *side) run {
	r := run{s: s}
	r.extend()
	return r
}

func (r *run) extend() {
	for r.s.changed[r.end] {
		r.end++
	}
	for r.start > 0 && r.s.changed[r.start-1] {
		r.start--
	}
}

func (r *run) next() bool {
	if r.end == len(r.s.ids) {
		return false
	}
	r.start = r.end + 1
	r.end = r.start
	r.extend()
	return true
}

func (r *run) prev() bool {
	if r.start == 0 {
		return false
	}
	r.end = r.start - 1
	r.start = r.end
	r.extend()
	return true
}

// up moves the run by one line, if the line above is equal to its last one, and takes in what it meets.
func (r *run) up() bool {
	if r.start == 0 || r.s.ids[r.start-1] != r.s.ids[r.end-1] {
		return false
	}
	r.start--
	r.end--
	r.s.changed[r.start], r.s.changed[r.end] = true, false
	r.extend()
	return true
}

func (r *run) down() bool {
	if r.end == len(r.s.ids) || r.s.ids[r.start] != r.s.ids[r.end] {
		return false
	}
	r.s.changed[r.start], r.s.changed[r.end] = false, true
	r.start++
	r.end++
	r.extend()
	return true
}

// bestPlace returns the end at which both borders of the run lie best between blocks; the lowest of equals.
func bestPlace(g *run, lowest int) int {
	const maxTried = 100 // places, from the bottom: long runs of equal lines give no better ones further up
	best, bestCost := g.end, 0
	for end := g.end; end >= max(lowest, g.end-maxTried); end-- {
		cost := borderCost(g.s.lines, end) + borderCost(g.s.lines, g.start-(g.end-end))
		if end == g.end || cost < bestCost {
			best, bestCost = end, cost
		}
	}
	return best
}

// borderCost says how badly a border before lines[at] cuts through a block: less after an empty line, less before a line
// that is indented little, most before an empty line.
func borderCost(lines [][]byte, at int) int {
	if at == 0 || at == len(lines) {
		return -2
	}
	indent, empty := indentation(lines[at])
	_, afterEmpty := indentation(lines[at-1])
	cost := 2 * indent
	switch {
	case empty:
		// Its block goes on at the next line that says something.
		for at < len(lines)-1 && empty {
			at++
			indent, empty = indentation(lines[at])
		}
		cost = 2*indent + 1
	case afterEmpty:
		cost--
	}
	return cost
}

// indentation is the column of the first visible byte, tabs counting up to 8.
func indentation(line []byte) (column int, empty bool) {
	for _, c := range line {
		switch c {
		case ' ':
			column++
		case '\t':
			column += 8 - column%8
		case '\n', '\r', '\v', '\f':
		default:
			return min(column, 200), false
		}
	}
	return 0, true
}
