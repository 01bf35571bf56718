package fs

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"wsfs/blob"
)

// ImportMerge says what a regular file of the directory becomes in the workspace, instead of what it is there.
type ImportMerge struct {
	Have   blob.Content // what the workspace has; if that is not so any more, nothing is imported
	Mode   uint32       // permissions
	Xattrs map[string][]byte
	// Text makes of the directory's content, of at most Max bytes, that of the workspace; nil: it is taken as it is. If it
	// cannot, nothing is imported. The directory's is stored as well.
	Text func(host []byte) ([]byte, bool)
	Max  int64
	// Theirs is set to the directory's content when Text was called.
	Theirs blob.Content
}

// mergeWith notes what a file becomes.
func (h *hostFile) mergeWith(m *ImportMerge) {
	if m == nil {
		return
	}
	h.merge = m
	h.st.Mode, h.xattrs = h.st.Mode&syscall.S_IFMT|m.Mode&0o7777, m.Xattrs
	if m.Text != nil { // tools that go by times must see it
		h.st.Mtim = syscall.NsecToTimespec(time.Now().UnixNano())
	}
}

// readMerged reads a file that is to be merged.
func (f *FS) readMerged(ctx context.Context, file *os.File, h *hostFile) error {
	host, err := io.ReadAll(io.LimitReader(file, h.merge.Max+1))
	if err != nil {
		return err
	}
	merged, ok := []byte(nil), false
	if int64(len(host)) <= h.merge.Max {
		merged, ok = h.merge.Text(host)
	}
	if !ok {
		return fmt.Errorf("it changes while it is read; try again: %w", syscall.EAGAIN)
	}
	if h.theirs, err = f.putText(ctx, host); err == nil {
		h.staged, err = f.putText(ctx, merged)
	}
	h.merge.Theirs = h.theirs.Content
	h.read, h.st.Size, h.st.Blocks = true, int64(len(merged)), int64(len(merged)+511)/512
	return err
}

func (f *FS) putText(ctx context.Context, b []byte) (blob.Staged, error) {
	switch {
	case len(b) == 0:
		return blob.Staged{}, nil
	case len(b) <= blob.MaxBlob:
		return f.blobs.PutPacked(b)
	}
	return f.blobs.PutReader(ctx, bytes.NewReader(b))
}

// current fails if the workspace has something else by now than what was merged.
func (im *importer) current(h *hostFile, have *node) error {
	if h.merge == nil || h.isDir() || have != nil && have.isReg() && (blob.Content{Ref: have.v.Content, Size: have.v.Size}) == h.merge.Have {
		return nil
	}
	return fmt.Errorf("import %s: workspace %q is changed at the same time; try again: %w", filepath.ToSlash(h.path()), im.f.ws.Name, syscall.EAGAIN)
}
