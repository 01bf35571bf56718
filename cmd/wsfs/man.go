package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"wsfs/internal/ui"
)

func (a *app) manCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "man [DIR]",
		Short: "Write the manual pages",
		Long:  "Writes a manual page for every command into DIR (made if missing), or the page of wsfs itself to the standard output.",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				_, err := a.out.Writer().Write(manPage(cmd.Root()))
				return err
			}
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			if err := manPages(cmd.Root(), args[0]); err != nil {
				return err
			}
			fmt.Fprintf(a.out.Writer(), "wrote the manual pages to %s\n", ui.Name(args[0]))
			return nil
		},
	}
}

// manPages writes the page of a command and of those below it. (cobra's own writer of manual pages goes through Markdown; its
// tables are set up whenever the program starts, which took a tenth of the time of a short command.)
func manPages(cmd *cobra.Command, dir string) error {
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() && !c.IsAdditionalHelpTopicCommand() {
			if err := manPages(c, dir); err != nil {
				return err
			}
		}
	}
	return os.WriteFile(filepath.Join(dir, manName(cmd)+".1"), manPage(cmd), 0o644)
}

func manName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// manPage is a page in the man(7) macros. It has no date: the pages of one version are the same wherever they are made.
func manPage(cmd *cobra.Command) []byte {
	cmd.InitDefaultHelpFlag()
	p := &page{}
	fmt.Fprintf(&p.b, ".TH %s 1 \"\" %s wsfs\n", manQuoted(strings.ToUpper(manName(cmd))), manQuoted("wsfs "+version()))
	p.section("NAME")
	p.text(manName(cmd) + " - " + cmd.Short)
	p.section("SYNOPSIS")
	p.b.WriteString(".B ")
	p.text(cmd.UseLine())
	p.section("DESCRIPTION")
	long := cmd.Long
	if long == "" {
		long = cmd.Short
	}
	for i, part := range strings.Split(strings.TrimSpace(long), "\n\n") {
		if i > 0 {
			p.b.WriteString(".PP\n")
		}
		p.text(part)
	}
	p.flags("OPTIONS", cmd.NonInheritedFlags())
	p.flags("OPTIONS INHERITED FROM PARENT COMMANDS", cmd.InheritedFlags())
	if cmd.Example != "" {
		p.section("EXAMPLE")
		p.b.WriteString(".nf\n")
		p.text(cmd.Example)
		p.b.WriteString(".fi\n")
	}
	var also []string
	if cmd.HasParent() {
		also = append(also, manName(cmd.Parent()))
	}
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() && !c.IsAdditionalHelpTopicCommand() {
			also = append(also, manName(c))
		}
	}
	if len(also) > 0 {
		p.section("SEE ALSO")
		for i, name := range also {
			end := ","
			if i == len(also)-1 {
				end = ""
			}
			fmt.Fprintf(&p.b, ".BR %s (1)%s\n", manEscaped(name), end)
		}
	}
	return p.b.Bytes()
}

type page struct{ b bytes.Buffer }

func (p *page) section(name string) { fmt.Fprintf(&p.b, ".SH %s\n", manQuoted(name)) }

// text writes lines that are no macros, whatever they begin with.
func (p *page) text(s string) {
	for sc := bufio.NewScanner(strings.NewReader(s)); sc.Scan(); {
		line := manEscaped(sc.Text())
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			line = `\&` + line
		}
		p.b.WriteString(line + "\n")
	}
}

func (p *page) flags(title string, set *pflag.FlagSet) {
	if !set.HasAvailableFlags() {
		return
	}
	p.section(title)
	set.VisitAll(func(f *pflag.Flag) {
		if f.Deprecated != "" || f.Hidden {
			return
		}
		p.b.WriteString(".TP\n")
		name := `\fB` + manEscaped("--"+f.Name) + `\fR`
		if f.Shorthand != "" {
			name = `\fB` + manEscaped("-"+f.Shorthand) + `\fR, ` + name
		}
		value, usage := pflag.UnquoteUsage(f)
		if value != "" {
			name += `=\fI` + manEscaped(value) + `\fR`
		}
		p.b.WriteString(name + "\n")
		p.text(usage)
	})
}

// manEscaped keeps troff from acting on a text, and hyphens from becoming typographic ones, which nobody can paste.
func manEscaped(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, `\`, `\e`), "-", `\-`)
}

// manQuoted is an argument of a macro.
func manQuoted(s string) string { return `"` + strings.ReplaceAll(manEscaped(s), `"`, `\(dq`) + `"` }
