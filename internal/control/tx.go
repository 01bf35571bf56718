package control

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"time"

	"wsfs/fs"
	"wsfs/internal/ui"
	"wsfs/store"
)

// tx/ has a directory for each open transaction of the workspace: the tree that it works in. Where that is a workspace of the same mount
// anyway, it is a link to it, so that no directory is in two places.
const txMark = 1 << 36

// Transaction is one that is open.
type Transaction struct {
	Name  string
	ID    store.WorkspaceID // of the fork that it works in
	Fork  string
	Begun time.Time
}

// Transactions are those of a workspace; all is needed.
type Transactions struct {
	List func(ctx context.Context) ([]Transaction, error)
	// Enter leads into the tree of one; nil: Link says where it is, from tx/.
	Enter func(t *Transaction) *fs.Entrance
	Link  func(t *Transaction) string
}

func (t *Tree) transactions(c *fs.Call) ([]Transaction, error) {
	if t.o.Tx == nil {
		return nil, nil
	}
	c.Blocks()
	return t.o.Tx.List(context.Background())
}

func (t *Tree) lookupTx(c *fs.Call, name string) (fs.Found, error) {
	list, err := t.transactions(c)
	if err != nil {
		return fs.Found{}, err
	}
	for i := range list {
		switch x := &list[i]; {
		case x.Name != name:
		case t.o.Tx.Enter != nil:
			return fs.Found{Enter: t.o.Tx.Enter(x)}, nil
		default:
			a, err := t.GetAttr(c, txMark|uint64(x.ID))
			return fs.Found{Attr: a}, err
		}
	}
	return fs.Found{}, syscall.ENOENT
}

func (t *Tree) readTx(c *fs.Call) ([]fs.DirEntry, error) {
	list, err := t.transactions(c)
	if err != nil {
		return nil, err
	}
	typ := uint32(syscall.S_IFLNK)
	if t.o.Tx != nil && t.o.Tx.Enter != nil {
		typ = syscall.S_IFDIR
	}
	out := make([]fs.DirEntry, len(list))
	for i := range list {
		out[i] = fs.DirEntry{Name: list[i].Name, Ino: store.Ino(txMark | uint64(list[i].ID)), Type: typ}
	}
	return out, nil
}

func (t *Tree) readTxLink(c *fs.Call, id uint64) (string, error) {
	list, err := t.transactions(c)
	if err != nil {
		return "", err
	}
	for i := range list {
		if uint64(list[i].ID) == id&^txMark {
			return t.o.Tx.Link(&list[i]), nil
		}
	}
	return "", fmt.Errorf("a transaction that has ended: %w", syscall.ESTALE)
}

// help is what reading ctl says: the commands, and what is open.
func (t *Tree) help(ctx context.Context) ([]byte, error) {
	if t.o.Tx == nil {
		return []byte(usage), nil
	}
	list, err := t.o.Tx.List(ctx)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	b.WriteString(usage)
	for _, x := range list {
		fmt.Fprintf(&b, "# open: transaction %s in .wsfs/tx/%s, since %s\n", ui.Name(x.Name), ui.Name(x.Name), x.Begun.UTC().Format(time.RFC3339))
	}
	return []byte(b.String()), nil
}
