package versions

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"syscall"
	"unicode/utf8"

	"wsfs/blob"
	"wsfs/internal/diff"
	"wsfs/store"
)

// MaxPatch is the largest file, in bytes, that is compared line by line; larger ones are treated as binary.
const MaxPatch = 64 << 20

// Patch is e in git's format, with as many lines of context as o says: what `git apply` and `patch -p1` take. It is
// empty if git has no words for the difference: Remarks has.
func (e *DiffEntry) Patch(ctx context.Context, st *store.Store, context int) ([]byte, error) {
	if e.What == Retyped {
		gone := DiffEntry{What: Removed, Path: e.Path, A: e.A}
		out, err := gone.Patch(ctx, st, context)
		if err != nil {
			return nil, err
		}
		come := DiffEntry{What: Added, Path: e.Path, B: e.B}
		more, err := come.Patch(ctx, st, context)
		return append(out, more...), err
	}
	was, is := gitMode(e.A), gitMode(e.B)
	if was == 0 && is == 0 {
		return nil, nil
	}
	from := e.Path
	if e.What == Renamed {
		from = e.From
	}
	o := diff.Options{OldName: gitName("a/" + from), NewName: gitName("b/" + e.Path), Context: context}
	out := fmt.Appendf(nil, "diff --git %s %s\n", o.OldName, o.NewName)
	head := len(out)
	switch {
	case was == 0:
		out = fmt.Appendf(out, "new file mode %06o\n", is)
		o.OldName = "/dev/null"
	case is == 0:
		out = fmt.Appendf(out, "deleted file mode %06o\n", was)
		o.NewName = "/dev/null"
	case was != is:
		out = fmt.Appendf(out, "old mode %06o\nnew mode %06o\n", was, is)
	}
	if e.What == Renamed {
		if !e.Content() {
			out = append(out, "similarity index 100%\n"...)
		}
		out = fmt.Appendf(out, "rename from %s\nrename to %s\n", gitName(from), gitName(e.Path))
	}
	if e.Content() {
		a, b, text, err := e.texts(ctx, st)
		if err != nil {
			return nil, err
		}
		if text {
			o.OldName, o.NewName = blankTail(o.OldName), blankTail(o.NewName)
			out = append(out, diff.Unified(a, b, o)...)
		} else {
			out = fmt.Appendf(out, "Binary files %s and %s differ\n", o.OldName, o.NewName)
		}
	}
	if len(out) == head {
		return nil, nil
	}
	return out, nil
}

// Remarks is what Patch cannot say of e: directories, pipes, owners, and permissions that git does not keep.
func (e *DiffEntry) Remarks() []string {
	var list []string
	if e.Mixed {
		list = append(list, "another command changed it too before this one ended")
	}
	a, b := e.A, e.B
	for _, s := range []struct {
		v    *store.Version
		what string
	}{{a, Removed}, {b, Added}} {
		if s.v != nil && gitMode(s.v) == 0 && e.What != Renamed && (a == nil || b == nil || e.What == Retyped) {
			list = append(list, s.what+" "+typeWord(s.v))
		}
	}
	if a == nil || b == nil || e.What == Retyped {
		return list
	}
	if e.What == Renamed && gitMode(b) == 0 {
		list = append(list, Renamed+" "+typeWord(b)+" from "+gitName(e.From))
	}
	for _, what := range e.Changed() {
		switch {
		case what == Mode && gitMode(a) == gitMode(b):
			list = append(list, fmt.Sprintf("mode %04o -> %04o", a.Mode&0o7777, b.Mode&0o7777))
		case what == Owner:
			list = append(list, fmt.Sprintf("owner %d:%d -> %d:%d", a.UID, a.GID, b.UID, b.GID))
		case what == Xattr:
			list = append(list, "extended attributes")
		}
	}
	return list
}

func typeWord(v *store.Version) string {
	switch v.Type() {
	case syscall.S_IFDIR:
		return "directory"
	case syscall.S_IFIFO:
		return "FIFO"
	case syscall.S_IFSOCK:
		return "socket"
	case syscall.S_IFCHR:
		return "whiteout"
	}
	return "special file"
}

// Lines counts the lines that e adds and takes away; text is false if one side is no text.
func (e *DiffEntry) Lines(ctx context.Context, st *store.Store) (plus, minus int, text bool, err error) {
	if e.What == Retyped {
		gone := DiffEntry{What: Removed, A: e.A}
		come := DiffEntry{What: Added, B: e.B}
		_, minus, t1, err := gone.Lines(ctx, st)
		if err != nil {
			return 0, 0, false, err
		}
		plus, _, t2, err := come.Lines(ctx, st)
		return plus, minus, t1 && t2, err
	}
	if !e.Content() {
		return 0, 0, true, nil
	}
	a, b, text, err := e.texts(ctx, st)
	if err != nil || !text {
		return 0, 0, false, err
	}
	for _, c := range diff.Diff(a, b) {
		plus, minus = plus+c.BLen, minus+c.ALen
	}
	return plus, minus, true, nil
}

// texts reads both sides; text is false if one of them is binary or too large.
func (e *DiffEntry) texts(ctx context.Context, st *store.Store) (a, b []byte, text bool, err error) {
	for _, v := range []*store.Version{e.A, e.B} {
		if v != nil && v.Type() == syscall.S_IFREG && v.Size > MaxPatch {
			return nil, nil, false, nil
		}
	}
	if a, err = e.ahead.content(ctx, st, e.A); err == nil {
		b, err = e.ahead.content(ctx, st, e.B)
	}
	if err != nil {
		return nil, nil, false, fmt.Errorf("compare %q: %w", e.Path, err)
	}
	return a, b, !diff.Binary(a) && !diff.Binary(b), nil
}

// contentOf is what git calls the content: bytes of a file, target of a link. Anything else has none.
func contentOf(ctx context.Context, st *store.Store, v *store.Version) ([]byte, error) {
	switch {
	case v == nil:
		return nil, nil
	case v.Type() == syscall.S_IFLNK:
		return []byte(v.Target), nil
	case v.Type() != syscall.S_IFREG || v.Size == 0:
		return nil, nil
	}
	return readContent(ctx, st, v, make([]byte, v.Size))
}

// readContent fills buf, which is as long as the file v is.
func readContent(ctx context.Context, st *store.Store, v *store.Version, buf []byte) ([]byte, error) {
	return readWith(ctx, st, v, buf, nil)
}

func readWith(ctx context.Context, st *store.Store, v *store.Version, buf []byte, leaves *blob.Leaves) ([]byte, error) {
	n, err := st.Blobs().ReadAtWith(ctx, blob.Content{Ref: v.Content, Size: v.Size}, buf, 0, leaves)
	if n < len(buf) && err == nil {
		err = io.ErrUnexpectedEOF
	}
	if n == len(buf) {
		err = nil
	}
	return buf, err
}

// gitMode is a mode as git keeps it, 0 for what it does not keep.
func gitMode(v *store.Version) uint32 {
	switch {
	case v == nil:
		return 0
	case v.Type() == syscall.S_IFLNK:
		return syscall.S_IFLNK
	case v.Type() != syscall.S_IFREG:
		return 0
	case v.Mode&0o100 != 0:
		return syscall.S_IFREG | 0o755
	}
	return syscall.S_IFREG | 0o644
}

// gitName is a name as git writes it in patches: in C's quotes if it holds anything odd.
func gitName(s string) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == '"' || r == '\\' || r == 0x7f }) {
		return s
	}
	var b bytes.Buffer
	b.WriteByte('"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\t':
			b.WriteString(`\t`)
		case c < ' ' || c >= 0x7f:
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// blankTail ends a name that holds blanks by a tab: patch takes what follows the first blank for a time.
func blankTail(s string) string {
	if strings.HasPrefix(s, `"`) || !strings.Contains(s, " ") {
		return s
	}
	return s + "\t"
}
