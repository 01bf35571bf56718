package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"wsfs/internal/daemon"
	"wsfs/internal/ui"
)

// finding is one line of `wsfs doctor --json`.
type finding struct {
	Name   string `json:"name"`
	State  string `json:"state"` // ok, warn or fail
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"`
	// Bytes belong to the finding of that name.
	Bytes *daemon.Bytes `json:"bytes,omitempty"`
}

func ok(name, format string, args ...any) finding {
	return finding{Name: name, State: "ok", Detail: fmt.Sprintf(format, args...)}
}

func warn(name, fix, format string, args ...any) finding {
	return finding{Name: name, State: "warn", Detail: fmt.Sprintf(format, args...), Fix: fix}
}

func fail(name, fix, format string, args ...any) finding {
	return finding{Name: name, State: "fail", Detail: fmt.Sprintf(format, args...), Fix: fix}
}

func (a *app) doctorCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check what wsfs needs of this machine and say how to fix it",
		Args:  noArgs,
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		w, err := a.here()
		if err != nil {
			return err
		}
		ex := &examiner{dev: "/dev/fuse", fuseConf: "/etc/fuse.conf", proc: "/proc", sys: "/sys", exe: a.exe}
		list := ex.machine()
		list = append(list, ex.store(w.store)...)
		failed := 0
		for _, f := range list {
			if f.State == "fail" {
				failed++
			}
			if a.json {
				if err := a.out.JSON(f); err != nil {
					return err
				}
				continue
			}
			style := map[string]ui.Style{"ok": ui.Green, "warn": ui.Yellow, "fail": ui.Red}[f.State]
			fmt.Fprintf(a.out.Writer(), "%s %s: %s\n", a.out.Styled(fmt.Sprintf("%-4s", f.State), style), f.Name, f.Detail)
			if f.Fix != "" {
				fmt.Fprintf(a.out.Writer(), "     fix: %s\n", f.Fix)
			}
		}
		if failed > 0 {
			return &quietError{daemon.Fail(daemon.ExitFailed, "doctor: %s", ui.Plural(int64(failed), "prerequisite"))}
		}
		return nil
	}
	a.jsonFlag(cmd)
	return cmd
}
