package control

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"time"

	"wsfs/fs"
	"wsfs/internal/ui"
)

// usage is what reading ctl says.
const usage = `# Write one command in one write, as in: echo undo > .wsfs/ctl
# The write fails if the command does; ctl.result has what it said. Paths count from the root of the workspace.
undo [--command cN] [--session NAME] [--since POINT] [--except PATH] [--yes] [--dry-run] [PATH...]
redo [--yes] [--dry-run]
rollback [--yes] [--dry-run] REV [PATH...]
fork [REV] NAME
tag [--force] [REV] NAME
tag -d NAME
begin NAME                           # a transaction: work in .wsfs/tx/NAME, which nobody else sees, then
commit [--ours | --theirs] NAME      # all of it appears as one change, or nothing does, or
abort NAME                           # none of it ever was
`

// maxLine is the longest command line that ctl takes.
const maxLine = 64 << 10

func (t *Tree) openCtl(flags uint32) (fs.Generated, error) {
	if flags&syscall.O_ACCMODE != syscall.O_RDONLY && t.o.Do == nil {
		return nil, fmt.Errorf("write to ctl: nothing can be changed in this mount: %w", syscall.EROFS)
	}
	return &ctl{t: t, help: whole(t.help)}, nil
}

// ctl is an open ctl: a write runs a command, a read tells which there are, and what is open.
type ctl struct {
	t    *Tree
	help fs.Generated
}

// ReadAt implements fs.Generated.
func (f *ctl) ReadAt(c *fs.Call, p []byte, off int64) (int, error) { return f.help.ReadAt(c, p, off) }

// WriteAt implements fs.Generated: p is one command line, wherever it is written to. The command goes on if the writer is
// interrupted, since it may be half done.
func (f *ctl) WriteAt(c *fs.Call, p []byte, _ int64) (int, error) {
	line := strings.TrimSuffix(string(p), "\n")
	words, err := Split(line)
	switch {
	case err != nil:
	case len(p) > maxLine:
		err = fmt.Errorf("the command is longer than %d bytes", maxLine)
	case len(words) == 0:
		return len(p), nil // an empty line, as a truncation leaves it
	}
	if err != nil {
		f.t.last.set(f.t.o.Now(), line, Result{Text: err.Error(), Exit: 2, Errno: syscall.EINVAL})
		return 0, syscall.EINVAL
	}
	c.Blocks()
	res := f.t.o.Do(context.Background(), c.PID, words)
	f.t.last.set(f.t.o.Now(), line, res)
	if res.Errno != 0 {
		return 0, res.Errno
	}
	return len(p), nil
}

// Close implements fs.Generated.
func (f *ctl) Close() {}

// Split cuts a command line into words as a shell does, with '...', "..." and \ but without expansions. It holds one
// line.
func Split(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	inWord, escaped, quote := false, false, byte(0)
	for i := range len(line) { // bytes: a path may be no UTF-8
		r := line[i]
		switch {
		case r == 0 || r == '\n' && quote == 0:
			return nil, fmt.Errorf("%s: write one command, on one line", ui.Quote(line))
		case escaped:
			word.WriteByte(r)
			escaped = false
		case r == '\\' && quote != '\'':
			inWord, escaped = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			inWord, quote = true, r
		case quote == 0 && (r == ' ' || r == '\t' || r == '\r'):
			if inWord {
				words = append(words, word.String())
			}
			word.Reset()
			inWord = false
		default:
			inWord = true
			word.WriteByte(r)
		}
	}
	if quote != 0 || escaped {
		return nil, fmt.Errorf("%s: a quote is not closed", ui.Quote(line))
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}

// lastResult is what the last command of a mount led to.
type lastResult struct {
	mu   sync.Mutex
	line string    // guarded by mu
	at   time.Time // guarded by mu
	res  Result    // guarded by mu
}

func (l *lastResult) set(at time.Time, line string, res Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at, l.line, l.res = at, line, res
}

// text is ctl.result: which command, when, its exit code, and what it said. It is empty before the first one.
func (l *lastResult) text() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.at.IsZero() {
		return nil
	}
	text := fmt.Sprintf("command %s\ntime %s\nexit %d\n", ui.Visible(l.line), l.at.UTC().Format(time.RFC3339Nano), l.res.Exit)
	if l.res.Text != "" {
		text += "\n" + strings.TrimSuffix(l.res.Text, "\n") + "\n"
	}
	return []byte(text)
}
