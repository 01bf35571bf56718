package ui

import (
	"io"
	"sync/atomic"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// Progress is a bar on a terminal, and nothing elsewhere.
type Progress struct {
	p    *mpb.Progress
	bar  *mpb.Bar
	note atomic.Pointer[string] // read by the bar's own goroutine
}

// NewProgress starts a bar on w, which must be a terminal's stderr if terminal is set.
func NewProgress(w io.Writer, terminal bool, what string) *Progress {
	pr := &Progress{}
	if !terminal {
		return pr
	}
	pr.p = mpb.New(mpb.WithOutput(w), mpb.WithWidth(40), mpb.WithAutoRefresh())
	pr.bar = pr.p.AddBar(0,
		mpb.PrependDecorators(decor.Name(what+" ")),
		mpb.AppendDecorators(
			decor.Percentage(decor.WCSyncSpace),
			decor.Any(func(decor.Statistics) string { return pr.text() }),
		),
		mpb.BarRemoveOnComplete(),
	)
	return pr
}

// Set says how far it is. total may grow; note is shown behind the bar.
func (pr *Progress) Set(done, total int64, note string) {
	if pr.bar == nil {
		return
	}
	pr.note.Store(&note)
	pr.bar.SetTotal(max(total, done+1), false)
	pr.bar.SetCurrent(done)
}

func (pr *Progress) text() string {
	if n := pr.note.Load(); n != nil {
		return " " + *n
	}
	return ""
}

// Close removes the bar.
func (pr *Progress) Close() {
	if pr.bar == nil {
		return
	}
	pr.bar.Abort(true)
	pr.p.Wait()
	pr.bar = nil
}
