package report

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"wsfs/internal/ui"
	"wsfs/versions"
)

// BlameLine is one line of `wsfs blame --json`.
type BlameLine struct {
	Line       int      `json:"line"`
	Text       string   `json:"text"`
	TextBase64 string   `json:"text_base64,omitempty"` // only if the text is not UTF-8
	Seq        int64    `json:"seq"`
	Version    int64    `json:"version"`
	Time       string   `json:"time,omitempty"`
	Session    string   `json:"session,omitempty"`
	SessionID  int64    `json:"session_id,omitempty"`
	Command    string   `json:"command,omitempty"` // as in WS@cN
	Argv       []string `json:"argv,omitempty"`
	Cwd        string   `json:"cwd,omitempty"`
	Process    *Process `json:"process,omitempty"`
	Unknown    string   `json:"unknown,omitempty"` // why the line may be older than that
}

// Blame prints who in columns before each line, or a line of JSON for each. The notes say what an unknown owner means.
func Blame(out *ui.Out, b *versions.Blamed, json bool) (notes []string, err error) {
	if json {
		made := map[*versions.LineOwner]BlameLine{}
		for i, o := range b.Owners {
			l, ok := made[o]
			if !ok {
				e := LogLineOf(&versions.Entry{Session: o.Session, Command: o.Command, Process: o.Process})
				l = BlameLine{
					Seq: int64(o.Version.Seq), Version: int64(o.Version.ID), Time: ui.Stamp(o.At), Session: e.Session, SessionID: e.SessionID,
					Command: e.Command, Argv: e.Argv, Cwd: e.Cwd, Process: e.Process, Unknown: o.Unknown,
				}
				made[o] = l
			}
			l.Line = b.First + i + 1
			l.Text, l.TextBase64 = ui.Text(string(b.Lines[b.First+i]))
			if err := out.JSON(l); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}
	return blameText(out, b)
}

func blameText(o *ui.Out, b *versions.Blamed) (notes []string, err error) {
	const argvWidth = 40
	heads := map[*versions.LineOwner][]string{}
	var widths [5]int
	for _, owner := range b.Owners {
		if heads[owner] != nil {
			continue
		}
		h := []string{"@" + Itoa(int64(owner.Version.Seq)), "-", "-", "-", "(unknown)"}
		if owner.Unknown != "" {
			h[0] = "<=" + h[0]
		}
		if owner.Command != nil {
			h[1] = "c" + Itoa(int64(owner.Command.ID))
		}
		if owner.Session != nil && owner.Session.Name != "" {
			h[2] = ui.Cut(ui.Name(owner.Session.Name), 20)
		}
		if owner.At != 0 {
			h[3] = o.Time(time.Unix(0, owner.At))
		}
		switch {
		case owner.Command != nil && owner.Command.Argv != "":
			h[4] = ui.Cut("$ "+ui.Command(owner.Command.Argv), argvWidth)
		case owner.Process != nil:
			h[4] = ui.Cut("$ "+ProcessText(owner.Process), argvWidth)
		}
		for i, s := range h {
			widths[i] = max(widths[i], ui.Width(s))
		}
		heads[owner] = h
	}
	styles := [5]ui.Style{ui.Dim, ui.Yellow, ui.Blue, "", ui.Bold}
	// The columns of an owner are put together once: a file has many lines.
	columns := make(map[*versions.LineOwner]string, len(heads))
	for owner, h := range heads {
		var c strings.Builder
		for k, s := range h {
			c.WriteString(o.Styled(s, styles[k]) + strings.Repeat(" ", widths[k]-ui.Width(s)+2))
		}
		columns[owner] = c.String()
	}
	digits := len(Itoa(int64(b.First + len(b.Owners))))
	w := o.Writer()
	unknown := map[string]bool{}
	var number []byte
	for i, owner := range b.Owners {
		w.WriteString(columns[owner])
		number = strconv.AppendInt(number[:0], int64(b.First+i+1), 10)
		for range digits - len(number) {
			w.WriteByte(' ')
		}
		w.Write(number)
		w.WriteString(") ")
		if text := bytes.TrimSuffix(b.Lines[b.First+i], []byte("\n")); o.Terminal {
			w.WriteString(ui.Visible(string(text)))
		} else {
			w.Write(text)
		}
		if err := w.WriteByte('\n'); err != nil {
			return notes, err
		}
		if owner.Unknown != "" && !unknown[owner.Unknown] {
			unknown[owner.Unknown] = true
			notes = append(notes, "lines marked <=@N may be older than change N: "+owner.Unknown)
		}
	}
	return notes, nil
}
