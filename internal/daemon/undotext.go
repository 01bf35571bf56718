package daemon

import (
	"fmt"
	"strconv"
	"strings"

	"wsfs/internal/ui"
)

// Plan is what will be done, behind the name of the command: ` of c12: 3 created, 1 removed`.
func (p *UndoReply) Plan() string {
	var parts []string
	for _, n := range []struct {
		n    int
		what string
	}{{p.Created, "created"}, {p.Changed, "changed"}, {p.Removed, "removed"}, {p.Renamed, "renamed"}} {
		if n.n > 0 {
			parts = append(parts, ui.Count(int64(n.n))+" "+n.what)
		}
	}
	if len(parts) == 0 {
		parts = []string{"nothing that is seen in the tree"}
	}
	return commandsText(p.Commands) + ": " + strings.Join(parts, ", ")
}

// commandsText is ` of c12`, "" if nobody is known.
func commandsText(commands []int64) string {
	const most = 5
	var list []string
	for i := len(commands) - 1; i >= 0 && len(list) < most; i-- { // they come newest first
		list = append(list, "c"+strconv.FormatInt(commands[i], 10))
	}
	switch n := len(commands); {
	case n == 0:
		return ""
	case n > most:
		return fmt.Sprintf(" of %d commands (%s, ...)", n, strings.Join(list, ", "))
	}
	return " of " + strings.Join(list, ", ")
}

// Done is what was done.
func (p *UndoReply) Done() string {
	switch {
	case p.DryRun:
		return "nothing was changed (--dry-run)"
	case p.Moved:
		return "done; the pointer of " + ui.Quote(p.Workspace) + " was moved; `wsfs undo` takes that back"
	}
	return fmt.Sprintf("done in change %d", p.Seq)
}
