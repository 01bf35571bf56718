package versions

import (
	"context"
	"errors"
	"syscall"

	"wsfs/store"
)

// moves passes on where the pointer of a workspace was moved, newest first, among the changes: a rollback changes no file
// of the state that it leads to, so no change tells of it.
type moves struct {
	l    *logger
	refs []store.Ref // newest first
}

// newMoves reads those of q.Workspace, none if that is 0.
func newMoves(ctx context.Context, l *logger) (*moves, error) {
	m := &moves{l: l}
	if l.q.Workspace == 0 {
		return m, nil
	}
	all, err := l.st.RefLog(ctx, l.q.Workspace)
	if err != nil {
		return nil, err
	}
	for _, ref := range all {
		switch ref.Why {
		case WhyRollback, WhyUndo, WhyRedo:
			m.refs = append(m.refs, ref)
		}
	}
	return m, nil
}

// since passes on those that are not older than at, in ns.
func (m *moves) since(ctx context.Context, at int64) error {
	for ; len(m.refs) > 0 && m.refs[0].At >= at; m.refs = m.refs[1:] {
		if err := m.pass(ctx, &m.refs[0]); err != nil {
			return err
		}
	}
	return nil
}

func (m *moves) pass(ctx context.Context, ref *store.Ref) error {
	row := &store.ChangeRow{Seq: ref.BaseSeq, At: ref.At}
	var err error
	if row.Session, err = m.l.st.SessionByID(ctx, ref.Session); err != nil && !errors.Is(err, syscall.ENOENT) {
		return err
	}
	cmd, err := m.l.st.CommandByID(ctx, ref.Command)
	if err != nil && !errors.Is(err, syscall.ENOENT) {
		return err
	}
	if cmd != nil {
		row.Command = &cmd.Command
	}
	if !m.l.wanted(row) {
		return nil
	}
	return m.l.out(&Entry{
		Timeline: ref.Base, Seq: ref.BaseSeq, First: ref.BaseSeq, At: ref.At, Kind: store.OpWorkspace, What: Moved, Why: ref.Why,
		Type: syscall.S_IFDIR, Ino: store.RootIno, Session: row.Session, Command: row.Command,
	})
}
