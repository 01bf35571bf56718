package daemon

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"wsfs/fs"
	"wsfs/internal/control"
	"wsfs/internal/ui"
	"wsfs/store"
	"wsfs/versions"
)

// A transaction of a workspace is a fork of it that is called WS.tx.NAME and shown as .wsfs/tx/NAME: begin makes it, commit merges it as a
// whole or not at all, abort drops it. Nothing else is kept of it, so it survives whatever a workspace survives.
const txInfix = ".tx."

// transactions are those of a workspace that are open, by name.
func (d *Daemon) transactions(ctx context.Context, of store.WorkspaceID, name string) ([]control.Transaction, error) {
	if err := d.st.Apply(ctx, d.st.Last()); err != nil {
		return nil, err
	}
	all, err := d.st.Workspaces(ctx)
	if err != nil {
		return nil, err
	}
	var out []control.Transaction
	for _, ws := range all {
		if tx, ok := strings.CutPrefix(ws.Name, name+txInfix); ok && ws.Parent == of && ws.DroppedAt == 0 {
			out = append(out, control.Transaction{Name: tx, ID: ws.ID, Fork: ws.Name, Begun: time.Unix(0, ws.CreatedAt)})
		}
	}
	slices.SortFunc(out, func(a, b control.Transaction) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// txTree shows the transactions of s in its .wsfs tree. dir is where s is in the mount.
func (d *Daemon) txTree(s *slot, point, dir, session string) *control.Transactions {
	t := &control.Transactions{
		List: func(ctx context.Context) ([]control.Transaction, error) { return d.transactions(ctx, s.id, s.name) },
		Link: func(x *control.Transaction) string { return "../../../" + x.Fork },
	}
	if dir == "" || strings.HasPrefix(dir, ".wsfs/") { // else all workspaces are in the mount
		t.Enter = func(x *control.Transaction) *fs.Entrance {
			return d.entrance(x.Fork, x.ID, path.Join(dir, ".wsfs/tx", x.Name), point, session)
		}
	}
	return t
}

// txArgs reads NAME, and finds the transaction.
func (d *Daemon) txArgs(ctx context.Context, s *slot, f wordFlags, words []string) (*control.Transaction, error) {
	args, err := f.parse(words)
	if err != nil {
		return nil, err
	}
	if len(args) != 1 {
		return nil, Fail(ExitUsage, "%s: write %s NAME: %w", f.Name(), f.Name(), syscall.EINVAL)
	}
	list, err := d.transactions(ctx, s.id, s.name)
	if err != nil {
		return nil, err
	}
	for i := range list {
		if list[i].Name == args[0] {
			return &list[i], nil
		}
	}
	return nil, Fail(ExitFailed, "%s: no transaction %s is open in %s; reading ctl tells which are: %w", f.Name(), ui.Quote(args[0]), s.name, syscall.ENOENT)
}

func (d *Daemon) beginWords(ctx context.Context, s *slot, words []string) (string, error) {
	args, err := newWordFlags("begin").parse(words)
	if err != nil {
		return "", err
	}
	if len(args) != 1 {
		return "", Fail(ExitUsage, "begin: write begin NAME: %w", syscall.EINVAL)
	}
	if err := versions.CheckWorkspaceName(args[0]); err != nil {
		return "", &Error{ExitUsage, err}
	}
	out, err := d.fork(ctx, ForkRequest{Revision: s.name, Name: s.name + txInfix + args[0]})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("transaction %s begins as %s@%d; work in .wsfs/tx/%s, then commit %s or abort %s", args[0], out.Parent, out.BaseSeq, args[0], args[0], args[0]), nil
}

// leaveTx sees to it that nobody works in a transaction any more, else nothing is to be done.
func (d *Daemon) leaveTx(ctx context.Context, what string, t *control.Transaction) error {
	inner, err := d.transactions(ctx, t.ID, t.Fork)
	if err != nil {
		return err
	}
	if len(inner) > 0 {
		return Fail(ExitDecision, "%s: transaction %s is open within it; nothing was changed", what, ui.Quote(inner[0].Name))
	}
	if err := d.vacate(t.ID); err != nil {
		return Fail(ExitDecision, "%s: %w; nothing was changed", what, err)
	}
	return nil
}

func (d *Daemon) commitWords(ctx context.Context, s *slot, words []string) (string, error) {
	f := newWordFlags("commit")
	var ours, theirs bool
	f.BoolVar(&ours, "ours", false, "")
	f.BoolVar(&theirs, "theirs", false, "")
	t, err := d.txArgs(ctx, s, f, words)
	if err != nil {
		return "", err
	}
	what := fmt.Sprintf("commit %s", ui.Quote(t.Name))
	req := MergeRequest{From: t.Fork, Into: s.name, Whole: true}
	switch {
	case ours && theirs:
		return "", Fail(ExitUsage, "commit: --ours or --theirs, not both: %w", syscall.EINVAL)
	case ours:
		req.Prefer = "ours"
	case theirs:
		req.Prefer = "theirs"
	}
	if err := d.leaveTx(ctx, what, t); err != nil {
		return "", err
	}
	out, err := d.merge(ctx, req)
	said := "nothing differs"
	switch {
	case ExitCode(err) == ExitNothing:
	case err != nil:
		return "", fmt.Errorf("%s: %w", what, err)
	case len(out.Conflicts) > 0:
		var lines []string
		for _, c := range out.Conflicts {
			lines = append(lines, fmt.Sprintf("conflict %s: %s: %s", ui.Name(string(c.Path)), c.Why, c.Detail))
		}
		return strings.Join(lines, "\n"), Fail(ExitDecision, "%s: %s was changed meanwhile in ways that do not go together with it; nothing was changed, and it stays open. "+
			"Make them agree in .wsfs/tx/%s, say commit --theirs to take the side of the transaction or --ours, or abort", what, s.name, t.Name)
	default:
		said = fmt.Sprintf("%d created, %d changed, %d merged, %d renamed, %d removed in change %d", out.Created, out.Changed, out.Merged, out.Renamed, out.Removed, out.Seq)
	}
	return d.endTx(ctx, "committed "+t.Name+": "+said, t), nil
}

func (d *Daemon) abortWords(ctx context.Context, s *slot, words []string) (string, error) {
	t, err := d.txArgs(ctx, s, newWordFlags("abort"), words)
	if err != nil {
		return "", err
	}
	what := fmt.Sprintf("abort %s", ui.Quote(t.Name))
	if err := d.leaveTx(ctx, what, t); err != nil {
		return "", err
	}
	if _, err := d.drop(ctx, DropRequest{Workspace: t.Fork, Force: true}); err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	return fmt.Sprintf("aborted %s: nothing of it is in %s", t.Name, s.name), nil
}

// endTx drops the fork of a transaction that was committed. If somebody went in at the last moment, it stays: nothing is lost, and
// nothing of it is missing in the workspace.
func (d *Daemon) endTx(ctx context.Context, said string, t *control.Transaction) string {
	if _, err := d.drop(ctx, DropRequest{Workspace: t.Fork, Force: true}); err != nil {
		return fmt.Sprintf("%s; its tree stays until abort %s, as somebody went in: %v", said, t.Name, err)
	}
	return said
}
