package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"wsfs/internal/daemon"
	"wsfs/internal/ui"
	"wsfs/store"
)

func (a *app) classCmd() *cobra.Command {
	var req daemon.ClassRequest
	var keep, of string
	var versions int
	cmd := &cobra.Command{
		Use:   "class [CLASS [PATTERN...]]",
		Short: "Say for how long the past of some paths is kept",
		Long: "Without arguments it shows the classes and their patterns. The bytes of past versions are kept\n\n" +
			"  versioned  as `wsfs retain` says: everything that no pattern gives another class\n" +
			"  short      for a while, or so many versions of a path: logs, caches\n" +
			"  scratch    for an hour: what can be made again, as node_modules and target\n" +
			"  secret     for a while and never longer: .env, keys\n\n" +
			"A class says nothing about what is there now, what forks and tags show, and what may be renamed. `wsfs gc` lets the bytes go, or the\n" +
			"daemon by itself once `wsfs class` or `wsfs retain` said anything; that the version was there, who made it and how large it was stays.\n" +
			"Patterns are written as in a .gitignore, from the root of the workspace; the last one that matches a path, or a directory that it is\n" +
			"in, decides. `wsfs class versioned PATTERN` makes an exception.",
		Args: cobra.ArbitraryArgs,
	}
	f := cmd.Flags()
	f.StringVar(&keep, "for", "", "keep what is past of CLASS for so long: an age of at least 1h, or ever")
	f.IntVar(&versions, "versions", 0, "keep at most so many past versions of each path of CLASS")
	f.StringArrayVar(&req.Remove, "remove", nil, "take the rule for a pattern away")
	f.BoolVar(&req.Reset, "reset", false, "as in a new store")
	f.StringVar(&of, "of", "", "only say which class a path has")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		w, err := a.here()
		if err != nil {
			return err
		}
		if len(args) > 0 {
			req.Class, req.Patterns = args[0], args[1:]
		}
		if req.Limit, err = classLimit(keep, versions); err != nil {
			return err
		}
		if err := oneThing(&req, of, len(args)); err != nil {
			return err
		}
		var res daemon.ClassReply
		if err := a.ask(ctx, w.store, func(c *daemon.Client) (err error) {
			res, err = c.Classes(ctx, req)
			return err
		}); err != nil {
			return err
		}
		if of != "" {
			return a.classOf(cmd, w, of)
		}
		if a.json {
			return a.out.JSON(res)
		}
		a.printClasses(&res, req.Class)
		return nil
	}
	a.jsonFlag(cmd)
	return cmd
}

func classLimit(keep string, versions int) (string, error) {
	var parts []string
	if keep != "" && keep != "ever" {
		if _, err := store.ParseAge(keep); err != nil {
			return "", &daemon.Error{Exit: daemon.ExitUsage, Err: err}
		}
		parts = append(parts, "for "+keep)
	}
	if versions != 0 {
		parts = append(parts, fmt.Sprintf("at most %d versions", versions))
	}
	if keep == "ever" && versions == 0 {
		return "for ever", nil
	}
	return strings.Join(parts, ", "), nil
}

// oneThing refuses requests that ask for several things at once, or for none that makes sense.
func oneThing(req *daemon.ClassRequest, of string, args int) error {
	n := 0
	for _, is := range []bool{req.Limit != "", len(req.Patterns) > 0, len(req.Remove) > 0, req.Reset, of != ""} {
		if is {
			n++
		}
	}
	switch {
	case n > 1:
		return daemon.Fail(daemon.ExitUsage, "class: one thing at a time: PATTERNs, --for and --versions, --remove, --reset, or --of")
	case args > 0 && (len(req.Remove) > 0 || req.Reset || of != ""), args == 0 && req.Limit != "":
		return daemon.Fail(daemon.ExitUsage, "class: say the CLASS with PATTERNs, --for and --versions, and only with these")
	case args > 0 && !slices.Contains(store.ClassNames(), store.PathClass(req.Class)):
		return daemon.Fail(daemon.ExitUsage, "class: there is no class %q, only versioned, short, scratch and secret", req.Class)
	}
	return nil
}

func (a *app) classOf(cmd *cobra.Command, w where, path string) error {
	st, err := a.openRead(cmd.Context(), w.store)
	if err != nil {
		return err
	}
	defer st.Close()
	c, _, err := st.Classes(cmd.Context())
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(a.out.Writer(), c.Of(strings.Trim(path, "/"), strings.HasSuffix(path, "/")))
	return err
}

func (a *app) printClasses(r *daemon.ClassReply, only string) {
	t := a.out.NewTable("CLASS", "PAST IS KEPT", "PATTERNS")
	for _, k := range r.Classes {
		if only != "" && only != k.Class {
			continue
		}
		var patterns []string
		for _, rule := range r.Rules {
			if rule.Class == k.Class {
				patterns = append(patterns, ui.Name(rule.Pattern))
			}
		}
		if k.Class == string(store.Versioned) {
			patterns = append(patterns, "and all others")
		}
		t.Row(k.Class, k.Keep, strings.Join(patterns, " "))
	}
	t.Print()
}
