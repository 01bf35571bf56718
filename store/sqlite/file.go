package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"

	"modernc.org/sqlite/vfs"

	"wsfs/store"
)

// openFile opens a database through a descriptor: SQLite's own files go by path, where by now may be a link, or a FIFO on which it would wait
// for good. It has no log and no journal, and nobody writes to it.
func openFile(ctx context.Context, f *os.File) (store.DB, error) {
	name, files, err := vfs.New(oneFile{f})
	if err != nil {
		return store.DB{}, fmt.Errorf("open %s: %w", f.Name(), err)
	}
	more := url.Values{"vfs": {name}, "immutable": {"1"}}
	db := store.DB{Readers: max(4, 2*runtime.NumCPU()), Close: files.Close}
	if db.Reader, _, err = openPool(ctx, dsn("/"+File, "ro", more, readerPragmas()...), db.Readers); err != nil {
		return store.DB{}, errors.Join(fmt.Errorf("open %s for reading: %w", f.Name(), err), files.Close())
	}
	db.Conn = func() (store.Conn, error) { return openConn(dsn("/"+File, "ro", more)) }
	return db, nil
}

// oneFile is a file system of SQLite's in which there is one file.
type oneFile struct{ f *os.File }

func (o oneFile) Open(name string) (fs.File, error) {
	if filepath.Base(name) != File {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	st, err := o.f.Stat()
	if err != nil {
		return nil, err
	}
	return &reading{io.NewSectionReader(o.f, 0, st.Size()), o.f}, nil
}

// reading is the file of one connection, which has an offset of its own.
type reading struct {
	*io.SectionReader
	f *os.File
}

func (r *reading) Stat() (fs.FileInfo, error) { return r.f.Stat() }
func (r *reading) Close() error               { return nil }
