package main

import (
	"fmt"
	"sort"
	"strings"

	"github.com/spf13/cobra"

	"wsfs/internal/daemon"
	"wsfs/internal/ui"
	"wsfs/store"
)

// checkLine is one line of `wsfs check --json`: a problem, or at last the summary.
type checkLine struct {
	Problem  string           `json:"problem,omitempty"`
	Rule     int              `json:"rule,omitempty"` // of docs/format.md
	Done     bool             `json:"done,omitempty"`
	Problems int              `json:"problems"`
	Rows     map[string]int64 `json:"rows,omitempty"`
}

func (a *app) checkCmd() *cobra.Command {
	var rowsOnly bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Test every invariant of the store and read all of its content",
		Long:  "Reports what is broken, with the paths of damaged files, and ends with exit code 1 if anything is. Nothing is changed.",
		Args:  noArgs,
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		w, err := a.here()
		if err != nil {
			return err
		}
		st, err := a.openRead(ctx, w.store)
		if err != nil {
			return err
		}
		defer st.Close()
		n := 0
		var perr error
		report := func(p store.Problem) {
			n++
			if a.json {
				perr = a.out.JSON(checkLine{Problem: p.Text, Rule: p.Rule, Problems: n})
				return
			}
			fmt.Fprintf(a.out.Writer(), "%s %s\n", a.out.Styled(fmt.Sprintf("rule %d:", p.Rule), ui.Red), p.Text)
		}
		check := st.Check
		if rowsOnly {
			check = st.CheckRows
		}
		if err := check(ctx, report); err != nil {
			return fmt.Errorf("check store %s: %w", w.store, err)
		}
		if perr != nil {
			return perr
		}
		stats, err := st.Stats(ctx)
		if err != nil {
			return err
		}
		if a.json {
			err = a.out.JSON(checkLine{Done: true, Problems: n, Rows: stats.Rows})
		} else {
			fmt.Fprintf(a.out.Writer(), "%s: %s; %s; %s of content in %s of packs and %s of database\n", ui.Name(w.store),
				ui.Plural(int64(n), "problem"), rowText(stats.Rows), ui.Bytes(stats.BlobBytes), ui.Bytes(stats.PackBytes), ui.Bytes(stats.DatabaseBytes))
		}
		if err == nil && n > 0 {
			err = &quietError{daemon.Fail(daemon.ExitFailed, "check store %s: %s", w.store, ui.Plural(int64(n), "problem"))}
		}
		return err
	}
	cmd.Flags().BoolVar(&rowsOnly, "rows", false, "only the database: do not read the content")
	a.jsonFlag(cmd)
	return cmd
}

// rowText says how much was checked: the tables that people know.
func rowText(rows map[string]int64) string {
	words := map[string]string{"workspace": "workspace", "change": "change", "file_version": "version", "blob": "blob"}
	var parts []string
	for table, word := range words {
		if n, ok := rows[table]; ok {
			parts = append(parts, ui.Plural(n, word))
		}
	}
	sort.Strings(parts)
	return strings.Join(parts, ", ") + " checked"
}
