package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"wsfs/internal/daemon"
	"wsfs/internal/ui"
	"wsfs/store"
)

func (a *app) gcCmd() *cobra.Command {
	var req daemon.GCRequest
	var history bool
	cmd := &cobra.Command{
		Use:   "gc",
		Short: "Collect what the store need not keep, and give its room back",
		Long: "Removes history that `wsfs retain` does not keep (nothing, if that was never said), workspaces that were dropped more than 30 days\n" +
			"ago, and content that nothing names any more. What is there now, what a tag, a fork or a mount shows, and what is open\n" +
			"stays. Mounts go on working. It may be interrupted at any time, and goes on at the next run.",
		Args: noArgs,
	}
	f := cmd.Flags()
	f.BoolVarP(&req.DryRun, "dry-run", "n", false, "only say what would be removed")
	f.StringVar(&req.Keep, "keep", "", "keep so much this time, written as for `wsfs retain`")
	f.StringVar(&req.Class, "class", "", "what classes keep this time: \"scratch for 1min; secret for 1min\"; see `wsfs class`")
	f.StringVar(&req.Dropped, "dropped", "", "for how long dropped workspaces stay this time: an age such as 7d, or 0")
	f.BoolVar(&req.Thorough, "thorough", false, "give every byte back, whatever it costs")
	f.BoolVar(&history, "log", false, "list what was removed so far, the last first")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		w, err := a.here()
		if err != nil {
			return err
		}
		if history {
			return a.gcLog(cmd, w)
		}
		var res daemon.GCReply
		if err := a.ask(ctx, w.store, func(c *daemon.Client) (err error) {
			res, err = c.GC(ctx, req)
			return err
		}); err != nil {
			return err
		}
		if a.json {
			return a.out.JSON(res)
		}
		a.printGC(&res)
		return nil
	}
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) printGC(r *daemon.GCReply) {
	w := a.out.Writer()
	var parts []string
	add := func(n int64, one string) {
		if n > 0 {
			parts = append(parts, ui.Plural(n, one))
		}
	}
	add(r.Workspaces, "dropped workspace")
	add(r.States, "state")
	add(r.Versions, "version")
	add(r.Blobs, "content")
	if r.LetGo > 0 {
		parts = append(parts, fmt.Sprintf("of these %d because of their class", r.LetGo))
	}
	what := "nothing"
	if len(parts) > 0 {
		what = strings.Join(parts, ", ")
	}
	if r.DryRun {
		fmt.Fprintf(w, "would remove %s, %s of content (keep: %s)\n", what, ui.Bytes(r.BlobBytes), r.Keep)
		return
	}
	fmt.Fprintf(w, "removed %s; the store had %s and has %s (keep: %s)\n", what, ui.Bytes(r.Before), ui.Bytes(r.After), r.Keep)
}

// removalLine is one line of `wsfs gc --log --json`.
type removalLine struct {
	At     string `json:"at"`
	Kind   string `json:"kind"`
	Rule   string `json:"rule"`
	Who    string `json:"who,omitempty"`
	Detail string `json:"detail"`
}

func (a *app) gcLog(cmd *cobra.Command, w where) error {
	ctx := cmd.Context()
	st, err := a.openRead(ctx, w.store)
	if err != nil {
		return err
	}
	defer st.Close()
	list, err := st.Removals(ctx, 0)
	if err != nil {
		return err
	}
	if len(list) == 0 && !a.json {
		return daemon.Fail(daemon.ExitNothing, "gc: nothing was ever removed")
	}
	for _, r := range list {
		if err := a.printRemoval(r); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) printRemoval(r store.Removal) error {
	at := time.Unix(0, r.At)
	if a.json {
		return a.out.JSON(removalLine{at.UTC().Format(time.RFC3339), r.Kind, r.Rule, r.Who, r.Detail})
	}
	who := ""
	if r.Who != "" {
		who = " by " + ui.Name(r.Who)
	}
	_, err := fmt.Fprintf(a.out.Writer(), "%s %s%s: %s: %s\n", at.Format(time.DateTime), r.Kind, who, ui.Name(r.Rule), ui.Name(r.Detail))
	return err
}

func (a *app) retainCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "retain [POLICY]",
		Short: "Say what is kept of the history",
		Long: "Without POLICY it shows what the store keeps; that is everything, until something else is said. A policy is for example\n\n" +
			"  all for 7d, then one per hour for 30d, then one per day; dropped for 14d; at most 20GiB\n\n" +
			"An age counts from the change. What is older than the last part goes; a last part without an age has no end. What is there\n" +
			"now, and what a tag, a fork or a mount shows, is kept besides, and who made it. `removals for 1y` keeps who removed\n" +
			"what, for `log PATH`, longer than the states of then. Dropped\n" +
			"workspaces can be brought back for 30d if nothing else is said. With a limit for its size the store loses its oldest\n" +
			"history first. `wsfs gc` collects; a running daemon does it by itself, every 10 minutes, while nobody works.",
		Args: cobra.ArbitraryArgs,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		w, err := a.here()
		if err != nil {
			return err
		}
		var res daemon.RetentionReply
		if err := a.ask(ctx, w.store, func(c *daemon.Client) (err error) {
			res, err = c.Retention(ctx, daemon.RetentionRequest{Keep: strings.Join(args, " ")})
			return err
		}); err != nil {
			return err
		}
		if a.json {
			return a.out.JSON(res)
		}
		fmt.Fprintln(a.out.Writer(), res.Keep)
		return nil
	}
	a.jsonFlag(cmd)
	return cmd
}
