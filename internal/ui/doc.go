// Package ui prints: text for people, NDJSON for programs, progress for those who wait. It knows nothing of stores and
// workspaces, never reads the environment, and decides nothing: what goes to a terminal is decided by who makes an Out.
//
// What it keeps true: bytes that a terminal would act on never reach one (Name, Quote), and every line of JSON output
// is one complete object.
package ui

import (
	"bufio"
	"io"
	"time"
)

// Out is where a command prints. The zero value of all but W works. It is not safe for concurrent use.
type Out struct {
	W        io.Writer
	Terminal bool // colours, relative times, lines cut to Width
	Color    bool
	Width    int // columns; 0: unlimited
	Now      time.Time
	buf      *bufio.Writer
}

// Writer is buffered; Flush must be called at the end.
func (o *Out) Writer() *bufio.Writer {
	if o.buf == nil {
		o.buf = bufio.NewWriterSize(o.W, 32<<10)
	}
	return o.buf
}

// Flush writes what is buffered.
func (o *Out) Flush() error {
	if o.buf == nil {
		return nil
	}
	return o.buf.Flush()
}

// Style is an SGR sequence, used only when colours are wanted.
type Style string

// The styles in use.
const (
	Bold   Style = "1"
	Dim    Style = "2"
	Red    Style = "31"
	Green  Style = "32"
	Yellow Style = "33"
	Blue   Style = "34"
	Cyan   Style = "36"
)

// Styled is s in the style, if o has colours.
func (o *Out) Styled(s string, style Style) string {
	if !o.Color || s == "" || style == "" {
		return s
	}
	return "\x1b[" + string(style) + "m" + s + "\x1b[0m"
}
