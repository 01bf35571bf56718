package main

import (
	"fmt"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"wsfs/internal/report"
	"wsfs/internal/ui"
	"wsfs/versions"
)

// lsLine is one line of `wsfs ls --json`.
type lsLine struct {
	Name       string `json:"name"`
	NameBase64 string `json:"name_base64,omitempty"` // only if the name is not UTF-8
	Type       string `json:"type"`
	Mode       string `json:"mode"`
	Nlink      uint32 `json:"nlink"`
	UID        uint32 `json:"uid"`
	GID        uint32 `json:"gid"`
	Size       int64  `json:"size"`
	Mtime      string `json:"mtime"`
	Ino        uint64 `json:"ino"`
	Seq        int64  `json:"seq"` // of the change that made this version
	Target     string `json:"target,omitempty"`
	Content    string `json:"content,omitempty"` // hash of the content of a regular file
}

func (a *app) lsCmd() *cobra.Command {
	var long bool
	cmd := &cobra.Command{
		Use:   "ls [-l] WS@REV:PATH | PATH@REV",
		Short: "List a directory as it was",
		Args:  cobra.ExactArgs(1),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		p, err := a.findPast(ctx, args[0])
		if err != nil {
			return err
		}
		defer p.st.Close()
		t := a.out.NewTable("", ">", "", "", ">", "", "")
		err = versions.List(ctx, p.rev.View, p.path, func(e versions.DirEntry) error {
			v := e.Version
			if a.json {
				return a.out.JSON(lsLineOf(e))
			}
			name := ui.Name(e.Name)
			if !long {
				_, err := a.out.Writer().WriteString(name + "\n")
				return err
			}
			if v.Type() == syscall.S_IFLNK {
				name += " -> " + ui.Name(v.Target)
			}
			t.Row(modeText(v.Mode), fmt.Sprint(v.Nlink), fmt.Sprint(v.UID), fmt.Sprint(v.GID), fmt.Sprint(v.Size),
				time.Unix(0, v.Mtime).Format("2006-01-02 15:04:05"), name)
			return nil
		})
		if err != nil {
			return fmt.Errorf("%s: %w", p.rev.Revision, err)
		}
		t.Print()
		return nil
	}
	cmd.Flags().BoolVarP(&long, "long", "l", false, "modes, owners, sizes and times")
	a.jsonFlag(cmd)
	a.workspaceOf(cmd)
	return cmd
}

func lsLineOf(e versions.DirEntry) lsLine {
	v := e.Version
	l := lsLine{
		Type: report.TypeName(v.Type()), Mode: report.Octal(v.Mode & 0o7777), Nlink: v.Nlink, UID: v.UID, GID: v.GID, Size: v.Size,
		Mtime: ui.Stamp(v.Mtime), Ino: uint64(v.Ino), Seq: int64(v.Seq),
	}
	l.Name, l.NameBase64 = ui.Text(e.Name)
	l.Target, _ = ui.Text(v.Target)
	if v.Type() == syscall.S_IFREG && v.Size > 0 {
		l.Content = v.Content.String()
	}
	return l
}

// modeText is a mode as ls -l shows it.
func modeText(m uint32) string {
	b := []byte("?rwxrwxrwx")
	for i := range 9 {
		if m&(1<<(8-i)) == 0 {
			b[i+1] = '-'
		}
	}
	special := func(i int, bit uint32, with, without byte) {
		if m&bit == 0 {
			return
		}
		if b[i] == 'x' {
			b[i] = with
		} else {
			b[i] = without
		}
	}
	special(3, syscall.S_ISUID, 's', 'S')
	special(6, syscall.S_ISGID, 's', 'S')
	special(9, syscall.S_ISVTX, 't', 'T')
	switch m & syscall.S_IFMT {
	case syscall.S_IFREG:
		b[0] = '-'
	case syscall.S_IFDIR:
		b[0] = 'd'
	case syscall.S_IFLNK:
		b[0] = 'l'
	case syscall.S_IFIFO:
		b[0] = 'p'
	case syscall.S_IFSOCK:
		b[0] = 's'
	case syscall.S_IFCHR:
		b[0] = 'c'
	case syscall.S_IFBLK:
		b[0] = 'b'
	}
	return string(b)
}
