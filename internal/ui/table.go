package ui

import (
	"strings"
)

// Table is text in columns. Columns are as wide as their widest cell, two blanks apart; the last one is not padded.
type Table struct {
	out   *Out
	right map[int]bool
	rows  [][]cell
}

type cell struct {
	text  string
	style Style
}

// NewTable starts a table with a header; no header cells, no header line. A title that begins with '>' makes its
// column right-aligned.
func (o *Out) NewTable(titles ...string) *Table {
	t := &Table{out: o, right: map[int]bool{}}
	row := make([]cell, 0, len(titles))
	named := false
	for i, title := range titles {
		if rest, ok := strings.CutPrefix(title, ">"); ok {
			t.right[i], title = true, rest
		}
		named = named || title != ""
		row = append(row, cell{title, Bold})
	}
	if named {
		t.rows = append(t.rows, row)
	}
	return t
}

// Row adds a line. Cells must be printable: pass names through Name.
func (t *Table) Row(cells ...string) {
	row := make([]cell, len(cells))
	for i, c := range cells {
		row[i].text = c
	}
	t.rows = append(t.rows, row)
}

// Style sets the style of one cell of the newest row.
func (t *Table) Style(col int, s Style) { t.rows[len(t.rows)-1][col].style = s }

// Print writes the table.
func (t *Table) Print() {
	var widths []int
	for _, row := range t.rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], columns(c.text))
		}
	}
	w := t.out.Writer()
	for _, row := range t.rows {
		var line strings.Builder
		for i, c := range row {
			pad := strings.Repeat(" ", widths[i]-columns(c.text))
			text := t.out.Styled(c.text, c.style)
			switch {
			case t.right[i]:
				line.WriteString(pad + text)
			case i < len(row)-1:
				line.WriteString(text + pad)
			default:
				line.WriteString(text)
			}
			if i < len(row)-1 {
				line.WriteString("  ")
			}
		}
		w.WriteString(strings.TrimRight(line.String(), " "))
		w.WriteByte('\n')
	}
}
