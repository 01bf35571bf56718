package diff

import (
	"bytes"
	"fmt"
	"strconv"
)

// Options say how Unified writes. The zero value works.
type Options struct {
	// OldName and NewName are written after --- and +++ as they are; quoting odd ones is the caller's. Both empty: no
	// such lines.
	OldName, NewName string
	// Context is how many equal lines surround a change: 0 means 3, a negative number none.
	Context int
}

const noNewline = "\\ No newline at end of file\n"

// Unified returns what turns a into b in the format of diff -u, for people, patch and git apply; nil if they are equal.
// If either is binary, it is one line that says so.
func Unified(a, b []byte, o Options) []byte {
	if bytes.Equal(a, b) {
		return nil
	}
	if Binary(a) || Binary(b) {
		return fmt.Appendf(nil, "Binary files %s and %s differ\n", o.OldName, o.NewName)
	}
	context := o.Context
	switch {
	case context == 0:
		context = 3
	case context < 0:
		context = 0
	}
	x, y := Lines(a), Lines(b)
	changes := compare(x, y, true)
	var out []byte
	if o.OldName != "" || o.NewName != "" {
		out = fmt.Appendf(out, "--- %s\n+++ %s\n", o.OldName, o.NewName)
	}
	for len(changes) > 0 {
		n := 1
		for n < len(changes) && changes[n].A-(changes[n-1].A+changes[n-1].ALen) <= 2*context {
			n++
		}
		out = appendHunk(out, x, y, changes[:n], context)
		changes = changes[n:]
	}
	return out
}

func appendHunk(out []byte, x, y [][]byte, changes []Change, context int) []byte {
	first, last := changes[0], changes[len(changes)-1]
	lead := min(context, first.A)
	tail := min(context, len(x)-last.A-last.ALen)
	startX, endX := first.A-lead, last.A+last.ALen+tail
	startY, endY := first.B-lead, last.B+last.BLen+tail
	out = append(out, "@@ -"...)
	out = appendRange(out, startX, endX-startX)
	out = append(out, " +"...)
	out = appendRange(out, startY, endY-startY)
	out = append(out, " @@\n"...)
	at := startX
	for _, c := range changes {
		out = appendLines(out, ' ', x[at:c.A])
		out = appendLines(out, '-', x[c.A:c.A+c.ALen])
		out = appendLines(out, '+', y[c.B:c.B+c.BLen])
		at = c.A + c.ALen
	}
	return appendLines(out, ' ', x[at:endX])
}

// appendRange writes lines as patch counts them: from 1, and the line before an empty range.
func appendRange(out []byte, start, n int) []byte {
	if n > 0 {
		start++
	}
	out = strconv.AppendInt(out, int64(start), 10)
	if n != 1 {
		out = append(out, ',')
		out = strconv.AppendInt(out, int64(n), 10)
	}
	return out
}

func appendLines(out []byte, mark byte, lines [][]byte) []byte {
	for _, l := range lines {
		out = append(out, mark)
		out = append(out, l...)
		if l[len(l)-1] != '\n' {
			out = append(out, '\n')
			out = append(out, noNewline...)
		}
	}
	return out
}
