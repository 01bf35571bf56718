package main

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"wsfs/blob"
	"wsfs/internal/daemon"
	"wsfs/internal/ui"
	"wsfs/store"
	"wsfs/versions"
)

// checkLine is one line of `wsfs check --json`: a problem, a file that cannot be read because of one, or at last the
// summary.
type checkLine struct {
	Damaged    string `json:"damaged,omitempty"` // as WS@SEQ:PATH
	Path       string `json:"path,omitempty"`
	PathBase64 string `json:"path_base64,omitempty"` // only if the path is not UTF-8
	Workspace  string `json:"workspace,omitempty"`
	Seq        int64  `json:"seq,omitempty"`
	Now        bool   `json:"now,omitempty"` // the workspace shows this version today

	Repaired string           `json:"repaired,omitempty"` // what --repair did
	Problem  string           `json:"problem,omitempty"`
	Rule     int              `json:"rule,omitempty"` // of docs/format.md
	Done     bool             `json:"done,omitempty"`
	Problems int              `json:"problems"`
	Rows     map[string]int64 `json:"rows,omitempty"`
}

func (a *app) checkCmd() *cobra.Command {
	var rowsOnly, repair bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Test every invariant of the store and read all of its content",
		Long: "Reports what is broken, with the paths of damaged files, and ends with exit code 1 if anything is. Nothing is changed,\n" +
			"unless --repair is given: what is derived from other rows is made anew, what nothing names is removed.",
		Args: noArgs,
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		w, err := a.here()
		if err != nil {
			return err
		}
		if repair {
			if err := a.repair(ctx, w.store); err != nil {
				return err
			}
		}
		st, err := a.openRead(ctx, w.store)
		if err != nil {
			return err
		}
		defer st.Close()
		if rowsOnly {
			return a.check(ctx, w.store, st.Store, st.CheckRows)
		}
		return a.check(ctx, w.store, st.Store, st.Check)
	}
	cmd.Flags().BoolVar(&rowsOnly, "rows", false, "only the database: do not read the content")
	cmd.Flags().BoolVar(&repair, "repair", false, "first mend what can be mended without losing anything; nothing may be mounted")
	a.jsonFlag(cmd)
	return cmd
}

// repair mends a store that nobody uses and says what it did.
func (a *app) repair(ctx context.Context, dir string) error {
	c, err := a.connect(ctx, dir)
	if err != nil {
		return err
	}
	if c.Local() == nil {
		return errors.Join(daemon.Fail(daemon.ExitFailed, "check --repair: the store %s is in use; `wsfs umount --all` first: %w", dir, syscall.EBUSY), c.Close())
	}
	did, err := c.Local().Repair(ctx)
	for _, d := range did {
		if a.json {
			err = errors.Join(err, a.out.JSON(checkLine{Repaired: d}))
			continue
		}
		fmt.Fprintf(a.out.Writer(), "%s %s\n", a.out.Styled("repaired:", ui.Green), d)
	}
	return errors.Join(err, c.Close())
}

// check prints what is wrong with the store in dir.
func (a *app) check(ctx context.Context, dir string, st *store.Store, check func(context.Context, func(store.Problem)) error) error {
	n := 0
	var perr error
	refs := map[blob.Ref]bool{}
	report := func(p store.Problem) {
		n++
		if !p.Blob.IsZero() {
			refs[p.Blob] = true
		}
		if a.json {
			perr = a.out.JSON(checkLine{Problem: p.Text, Rule: p.Rule, Problems: n})
			return
		}
		fmt.Fprintf(a.out.Writer(), "%s %s\n", a.out.Styled(fmt.Sprintf("rule %d:", p.Rule), ui.Red), p.Text)
	}
	if err := check(ctx, report); err != nil {
		return fmt.Errorf("check store %s: %w", dir, err)
	}
	if perr != nil {
		return perr
	}
	if err := a.printDamage(ctx, st, refs, n); err != nil {
		return err
	}
	stats, err := st.Stats(ctx)
	if err != nil {
		return err
	}
	if a.json {
		err = a.out.JSON(checkLine{Done: true, Problems: n, Rows: stats.Rows})
	} else {
		fmt.Fprintf(a.out.Writer(), "%s: %s; %s; %s of content in %s of packs and %s of database\n", ui.Name(dir),
			ui.Plural(int64(n), "problem"), rowText(stats.Rows), ui.Bytes(stats.BlobBytes), ui.Bytes(stats.PackBytes), ui.Bytes(stats.DatabaseBytes))
	}
	if err == nil && n > 0 {
		err = &quietError{daemon.Fail(daemon.ExitFailed, "check store %s: %s", dir, ui.Plural(int64(n), "problem"))}
	}
	return err
}

// printDamage names the files that are made of damaged blobs.
func (a *app) printDamage(ctx context.Context, st *store.Store, refs map[blob.Ref]bool, problems int) error {
	if len(refs) == 0 {
		return nil
	}
	list, err := versions.Damages(ctx, st, refs)
	if err != nil {
		return fmt.Errorf("find the damaged files: %w", err)
	}
	for _, d := range list {
		name := d.Workspace + "@" + itoa(int64(d.Seq)) + ":" + d.Path
		if a.json {
			l := checkLine{Workspace: d.Workspace, Seq: int64(d.Seq), Now: d.Now, Problems: problems}
			l.Path, l.PathBase64 = ui.Text(d.Path)
			l.Damaged, _ = ui.Text(name)
			if err := a.out.JSON(l); err != nil {
				return err
			}
			continue
		}
		when := "a past version"
		if d.Now {
			when = "the current version"
		}
		fmt.Fprintf(a.out.Writer(), "%s %s (%s)\n", a.out.Styled("damaged:", ui.Red), ui.Name(name), when)
	}
	return nil
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
