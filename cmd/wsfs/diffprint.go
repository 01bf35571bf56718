package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"wsfs/internal/ui"
	"wsfs/store"
	"wsfs/versions"
)

// diffPrinter prints what Diff found: as a patch, or in one of the shorter forms.
type diffPrinter struct {
	ctx               context.Context
	out               *ui.Out
	st                *store.Store
	context           int
	stat, names, json bool
}

func (p *diffPrinter) print(list []versions.DiffEntry) error {
	if !p.json {
		list = withoutParents(list)
	}
	if p.stat && !p.json {
		return p.stats(list)
	}
	for i := range list {
		e := &list[i]
		var err error
		switch {
		case p.json:
			err = p.line(e)
		case p.names:
			_, err = p.out.Writer().WriteString(p.name(e.Path) + "\n")
		default:
			err = p.patch(e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// withoutParents leaves out directories that came, went or moved with something in them: that says it.
func withoutParents(list []versions.DiffEntry) []versions.DiffEntry {
	above := map[string]bool{}
	for _, e := range list {
		for _, path := range []string{e.Path, e.From} {
			for i := len(path) - 1; i > 0; i-- {
				if path[i] == '/' {
					above[path[:i]] = true
				}
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(list), func(e versions.DiffEntry) bool {
		if e.A != nil && !e.A.IsDir() || e.B != nil && !e.B.IsDir() || len(e.Changed()) > 0 {
			return false
		}
		return above[e.Path]
	})
}

func (p *diffPrinter) name(path string) string {
	if path == "" {
		return "/"
	}
	return ui.Name(path)
}

// patch prints what git understands, and before it as remarks, which git skips, what it does not.
func (p *diffPrinter) patch(e *versions.DiffEntry) error {
	w := p.out.Writer()
	for _, r := range e.Remarks() {
		w.WriteString(p.out.Styled("# "+p.name(e.Path)+": "+r, ui.Cyan) + "\n")
	}
	text, err := e.Patch(p.ctx, p.st, p.context)
	if err != nil {
		return err
	}
	return p.lines(text)
}

// lines prints a patch: as it is, or on a terminal in colours and with what a terminal would act on made visible.
func (p *diffPrinter) lines(text []byte) error {
	w := p.out.Writer()
	if !p.out.Terminal {
		_, err := w.Write(text)
		return err
	}
	head := true
	for line := range strings.SplitAfterSeq(string(text), "\n") {
		if line == "" {
			break
		}
		body := ui.Visible(strings.TrimSuffix(line, "\n"))
		style := ui.Style("")
		switch {
		case strings.HasPrefix(line, "diff --git "):
			head, style = true, ui.Bold
		case strings.HasPrefix(line, "@@ "):
			head, style = false, ui.Cyan
		case head:
			style = ui.Bold
		case line[0] == '+':
			style = ui.Green
		case line[0] == '-':
			style = ui.Red
		}
		if _, err := w.WriteString(p.out.Styled(body, style) + "\n"); err != nil {
			return err
		}
	}
	return nil
}

// stats prints a line for each file and the sum.
func (p *diffPrinter) stats(list []versions.DiffEntry) error {
	if len(list) == 0 {
		return nil
	}
	type row struct {
		name, what  string
		plus, minus int
		text        bool
	}
	var rows []row
	nameWidth, largest, sumPlus, sumMinus := 0, 0, 0, 0
	for i := range list {
		e := &list[i]
		r := row{name: p.name(e.Path), what: strings.Join(e.Remarks(), ", ")}
		if e.What == versions.Renamed {
			r.name = p.name(e.From) + " => " + r.name
		}
		var err error
		if r.plus, r.minus, r.text, err = e.Lines(p.ctx, p.st); err != nil {
			return err
		}
		sumPlus, sumMinus = sumPlus+r.plus, sumMinus+r.minus
		nameWidth, largest = max(nameWidth, ui.Width(r.name)), max(largest, r.plus+r.minus)
		rows = append(rows, r)
	}
	width := p.out.Width
	if width <= 0 {
		width = 80
	}
	digits := len(itoa(int64(largest)))
	graph := max(10, width-nameWidth-digits-5)
	for _, r := range rows {
		count := fmt.Sprintf("%*d ", digits, r.plus+r.minus)
		switch plus, minus := r.plus, r.minus; {
		case !r.text:
			count = "binary"
		case r.plus+r.minus == 0 && r.what != "":
			count = r.what
		default:
			if largest > graph {
				plus, minus = scaled(plus, graph, largest), scaled(minus, graph, largest)
			}
			count += p.out.Styled(strings.Repeat("+", plus), ui.Green) + p.out.Styled(strings.Repeat("-", minus), ui.Red)
		}
		pad := strings.Repeat(" ", nameWidth-ui.Width(r.name))
		p.out.Writer().WriteString(strings.TrimRight(" "+r.name+pad+" | "+count, " ") + "\n")
	}
	_, err := fmt.Fprintf(p.out.Writer(), " %s changed, %s added, %s removed\n", ui.Plural(int64(len(list)), "path"),
		ui.Plural(int64(sumPlus), "line"), ui.Plural(int64(sumMinus), "line"))
	return err
}

// scaled is n of most as a part of width, at least 1 if n is.
func scaled(n, width, most int) int {
	if n == 0 {
		return 0
	}
	return max(1, n*width/most)
}

// diffLine is one line of `wsfs diff --json`.
type diffLine struct {
	What       string    `json:"what"`
	Path       string    `json:"path"`
	PathBase64 string    `json:"path_base64,omitempty"` // only if the path is not UTF-8
	From       string    `json:"from,omitempty"`
	FromBase64 string    `json:"from_base64,omitempty"`
	Changed    []string  `json:"changed,omitempty"`
	Old        *diffSide `json:"old,omitempty"`
	New        *diffSide `json:"new,omitempty"`
	Plus       *int      `json:"lines_added,omitempty"` // with --stat, of text
	Minus      *int      `json:"lines_removed,omitempty"`
}

// diffSide is what one of the two states has.
type diffSide struct {
	Type    string `json:"type"`
	Mode    string `json:"mode"`
	UID     uint32 `json:"uid"`
	GID     uint32 `json:"gid"`
	Size    int64  `json:"size"`
	Ino     uint64 `json:"ino"`
	Seq     int64  `json:"seq"`
	Target  string `json:"target,omitempty"`
	Content string `json:"content,omitempty"`
}

func (p *diffPrinter) line(e *versions.DiffEntry) error {
	l := diffLine{What: e.What, Changed: e.Changed(), Old: diffSideOf(e.A), New: diffSideOf(e.B)}
	l.Path, l.PathBase64 = ui.Text(e.Path)
	l.From, l.FromBase64 = ui.Text(e.From)
	if p.stat {
		plus, minus, text, err := e.Lines(p.ctx, p.st)
		if err != nil {
			return err
		}
		if text {
			l.Plus, l.Minus = &plus, &minus
		}
	}
	return p.out.JSON(l)
}

func diffSideOf(v *store.Version) *diffSide {
	if v == nil {
		return nil
	}
	l := lsLineOf(versions.DirEntry{Version: v})
	return &diffSide{
		Type: l.Type, Mode: l.Mode, UID: l.UID, GID: l.GID, Size: l.Size, Ino: l.Ino, Seq: l.Seq, Target: l.Target, Content: l.Content,
	}
}
