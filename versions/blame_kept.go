package versions

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"wsfs/blob"
	"wsfs/internal/diff"
	"wsfs/store"
)

// KeptBlame is a blame that was kept, as it is carried from one process to another. Blame checks it.
type KeptBlame struct {
	Version store.VersionID
	Content blob.Ref
	Owners  []byte // the file that was kept
	Text    []byte
}

// BlameKept is the blame of v if it was kept, else nil. Reading it is all that it does, so a daemon may answer with it.
func BlameKept(ctx context.Context, st *store.Store, v *store.Version) (*KeptBlame, error) {
	if v.Type() != syscall.S_IFREG || v.Size == 0 {
		return nil, nil
	}
	c := &blameCache{dir: filepath.Join(st.Dir(), blameCacheDir)}
	owners, err := os.ReadFile(c.path(v.ID))
	if err != nil {
		return nil, nil // the next blame finds it out anew
	}
	text, err := contentOf(ctx, st, v)
	if err != nil {
		return nil, fmt.Errorf("read the text: %w", err)
	}
	c.used(v.ID)
	return &KeptBlame{v.ID, v.Content, owners, text}, nil
}

// Blame is what versions.Blame returns, but that of Version only the ID, content and size are set. ok is false if what was
// kept is damaged or of another text.
func (k *KeptBlame) Blame(r BlameRange) (b *Blamed, ok bool, err error) {
	v := &store.Version{ID: k.Version, Content: k.Content, Size: int64(len(k.Text))}
	if diff.Binary(k.Text) {
		return nil, false, nil
	}
	owners, err := decodeBlame(k.Owners, v)
	if err != nil {
		return nil, false, nil
	}
	out := &Blamed{Version: v, Lines: diff.Lines(k.Text)}
	last, err := out.choose(r)
	if err != nil || len(owners) != len(out.Lines) {
		return nil, err != nil, err
	}
	out.Owners = owners[out.First:last]
	return out, true, nil
}

// choose sets First, and returns where the lines of r end.
func (b *Blamed) choose(r BlameRange) (last int, err error) {
	if last = r.Last; last == 0 {
		last = len(b.Lines)
	}
	b.First = max(r.First, 1) - 1
	if last > len(b.Lines) || b.First > last {
		return 0, &LinesError{b.First + 1, last, len(b.Lines)}
	}
	return last, nil
}
