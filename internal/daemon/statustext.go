package daemon

import (
	"fmt"
	"time"

	"wsfs/internal/ui"
)

// Print adds to t what `wsfs status` says of a daemon that runs.
func (d *Status) Print(o *ui.Out, t *ui.Table) {
	started, _ := time.Parse(time.RFC3339, d.Started)
	t.Row("daemon", fmt.Sprintf("pid %d, started %s, version %s", d.PID, o.Time(started.Local()), d.Version))
	t.Row("changes", fmt.Sprintf("%s since the start, %s in the database, %s waiting for it", ui.Count(d.Ops), ui.Count(d.Applied), ui.Bytes(d.PendingBytes)))
	if d.Stalled != "" {
		t.Row("stalled", d.Stalled)
		t.Style(1, ui.Red)
	}
	if d.Stopped != "" {
		t.Row("stopped", d.Stopped+"; `wsfs daemon --replace` opens it again, mounts go on")
		t.Style(1, ui.Red)
	}
	if d.Conflicts > 0 {
		t.Row("conflicts", fmt.Sprintf("%s open; `wsfs conflicts` lists them", ui.Count(d.Conflicts)))
		t.Style(1, ui.Yellow)
	}
	if d.LastError != "" {
		t.Row("last error", ui.Cut(d.LastError, 300))
		t.Style(1, ui.Yellow)
	}
	if b := d.Budget; b != nil {
		text := fmt.Sprintf("the store has %s of at most %s (%d %%)", ui.Bytes(b.Bytes), ui.Bytes(b.Cap), b.Percent())
		if b.Tight {
			text += "; at the limit it loses its oldest history: `wsfs du --history`, `wsfs retain`"
		}
		t.Row("budget", text)
		if b.Tight {
			t.Style(1, ui.Yellow)
		}
	}
	if d.Bytes != nil {
		t.Row("bytes", d.Bytes.Text())
	}
	for _, m := range d.Mounts {
		text := m.Label() + " on " + ui.Name(string(m.Mountpoint))
		if m.ReadOnly {
			text += ", read-only"
		}
		if m.Run {
			text += ", for `wsfs run`"
		}
		if m.Temporary {
			text += ", dropped when it is unmounted"
		}
		if m.Session != "" {
			text += ", session " + ui.Name(m.Session)
		}
		t.Row("mount", text)
	}
	if len(d.Mounts) == 0 {
		t.Row("mount", "none")
	}
}
