package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"wsfs/internal/daemon"
	"wsfs/internal/ui"
	"wsfs/store"
	"wsfs/versions"
)

func (a *app) blameCmd() *cobra.Command {
	var lines string
	cmd := &cobra.Command{
		Use:   "blame PATH[@REV] | WS@REV:PATH",
		Short: "Tell who wrote each line, with which command",
		Long: "Tells for each line of a file, as it is or was, which change brought it: its number, command, session, time and command\n" +
			"line. Lines are followed through renames and saves by replacement. Of a file that is gone it tells who deleted it, and\n" +
			"blames its last version.",
		Args: cobra.ExactArgs(1),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		r, err := parseLines(lines)
		if err != nil {
			return err
		}
		p, err := a.findPast(ctx, args[0])
		if err != nil {
			return err
		}
		defer p.st.Close()
		ver, err := a.blamed(ctx, p)
		if err != nil {
			return err
		}
		b, err := versions.Blame(ctx, p.st.Store, ver, r)
		var none *versions.LinesError
		if errors.As(err, &none) {
			return &daemon.Error{Exit: daemon.ExitUsage, Err: err}
		}
		if err != nil {
			return fmt.Errorf("%s of %s: %w", ui.Quote(p.path), p.rev.Revision, err)
		}
		return a.printBlame(b)
	}
	cmd.Flags().StringVarP(&lines, "lines", "L", "", "only these lines: 10,20 or 10,+5 or 10, or ,20")
	a.jsonFlag(cmd)
	a.workspaceOf(cmd)
	return cmd
}

// parseLines reads what -L takes.
func parseLines(s string) (versions.BlameRange, error) {
	var r versions.BlameRange
	if s == "" {
		return r, nil
	}
	bad := daemon.Fail(daemon.ExitUsage, "blame: -L %q: write lines as 10,20 or 10,+5 or 10, or ,20; they count from 1", s)
	from, to, comma := strings.Cut(s, ",")
	number := func(s string, empty int) (int, bool) {
		if s == "" {
			return empty, true
		}
		n, err := strconv.Atoi(s)
		return n, err == nil && n > 0 && n < 1<<31
	}
	var ok bool
	if r.First, ok = number(from, 1); !ok || from == "" && to == "" {
		return r, bad
	}
	count, relative := strings.CutPrefix(to, "+")
	switch r.Last, ok = number(count, 0); {
	case !ok || relative && count == "":
		return r, bad
	case relative:
		r.Last += r.First - 1
	case !comma:
		r.Last = r.First
	case to != "" && r.Last < r.First:
		return r, bad
	}
	return r, nil
}

// blamed is the version to blame; of what is gone the last one, with a word about who deleted it.
func (a *app) blamed(ctx context.Context, p *past) (*store.Version, error) {
	ver, err := versions.Find(ctx, p.rev.View, p.path, true)
	if !errors.Is(err, syscall.ENOENT) {
		return ver, err
	}
	gone, gerr := versions.WhatBecameOf(ctx, p.st.Store, p.rev.View, p.path)
	if gerr != nil {
		return nil, gerr
	}
	if gone == nil {
		return nil, fmt.Errorf("%s: %w", p.rev.Revision, err) // a link that leads nowhere
	}
	name := ui.Name(p.path)
	lp := &logPrinter{out: a.out}
	switch {
	case gone.Entry != nil && a.json:
		if err := a.out.JSON(logLineOf(gone.Entry)); err != nil {
			return nil, err
		}
	case gone.Entry != nil && gone.Entry.What == versions.Renamed:
		a.note("%s was renamed to %s at @%d: %s", name, ui.Name(gone.Entry.Path), gone.Entry.Seq, lp.headline(gone.Entry))
	case gone.Entry != nil:
		a.note("%s was deleted at @%d: %s", name, gone.Entry.Seq, lp.headline(gone.Entry))
	case gone.Path != "":
		a.note("%s is %s now", name, ui.Name(gone.Path))
	}
	if gone.Last == nil || gone.Last.Type() != syscall.S_IFREG {
		return nil, fmt.Errorf("%s: %w", p.rev.Revision, err)
	}
	return gone.Last, nil
}

// blameLine is one line of `wsfs blame --json`.
type blameLine struct {
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
	Process    *process `json:"process,omitempty"`
	Unknown    string   `json:"unknown,omitempty"` // why the line may be older than that
}

func (a *app) printBlame(b *versions.Blamed) error {
	if a.json {
		made := map[*versions.LineOwner]blameLine{}
		for i, o := range b.Owners {
			l, ok := made[o]
			if !ok {
				e := logLineOf(&versions.Entry{Session: o.Session, Command: o.Command, Process: o.Process})
				l = blameLine{
					Seq: int64(o.Version.Seq), Version: int64(o.Version.ID), Time: ui.Stamp(o.At), Session: e.Session, SessionID: e.SessionID,
					Command: e.Command, Argv: e.Argv, Cwd: e.Cwd, Process: e.Process, Unknown: o.Unknown,
				}
				made[o] = l
			}
			l.Line = b.First + i + 1
			l.Text, l.TextBase64 = ui.Text(string(b.Lines[b.First+i]))
			if err := a.out.JSON(l); err != nil {
				return err
			}
		}
		return nil
	}
	return a.blameText(b)
}

// blameText prints who in columns before each line.
func (a *app) blameText(b *versions.Blamed) error {
	o := a.out
	const argvWidth = 40
	heads := map[*versions.LineOwner][]string{}
	var widths [5]int
	for _, owner := range b.Owners {
		if heads[owner] != nil {
			continue
		}
		h := []string{"@" + itoa(int64(owner.Version.Seq)), "-", "-", "-", "(unknown)"}
		if owner.Unknown != "" {
			h[0] = "<=" + h[0]
		}
		if owner.Command != nil {
			h[1] = "c" + itoa(int64(owner.Command.ID))
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
			h[4] = ui.Cut("$ "+processText(owner.Process), argvWidth)
		}
		for i, s := range h {
			widths[i] = max(widths[i], ui.Width(s))
		}
		heads[owner] = h
	}
	styles := [5]ui.Style{ui.Dim, ui.Yellow, ui.Blue, "", ui.Bold}
	digits := len(itoa(int64(b.First + len(b.Owners))))
	w := o.Writer()
	unknown := map[string]bool{}
	for i, owner := range b.Owners {
		for k, s := range heads[owner] {
			w.WriteString(o.Styled(s, styles[k]) + strings.Repeat(" ", widths[k]-ui.Width(s)+2))
		}
		text := strings.TrimSuffix(string(b.Lines[b.First+i]), "\n")
		if o.Terminal {
			text = visible(text)
		}
		if _, err := fmt.Fprintf(w, "%*d) %s\n", digits, b.First+i+1, text); err != nil {
			return err
		}
		if owner.Unknown != "" && !unknown[owner.Unknown] {
			unknown[owner.Unknown] = true
			a.note("lines marked <=@N may be older than change N: %s", owner.Unknown)
		}
	}
	return nil
}
