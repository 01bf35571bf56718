package sqlite

import (
	"context"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"

	"wsfs/store"
)

// conn is a connection on SQLite's own interface, without database/sql and the driver between, which take as long for a row
// as SQLite does. It has no mutex: one goroutine uses it at a time. What is a C string or a C array here is memory that
// Go's collector does not see: conn.Close gives it back.
type conn struct {
	tls   *libc.TLS
	db    uintptr
	slot  uintptr             // a pointer that SQLite writes to
	stmts map[string]compiled // by query; bounded as the queries are, which are constants times a few sizes
	args  uintptr             // values of the parameters that are bytes, until the statement is reset
	room  int                 // size of args
	row   row
	busy  bool
	lent  bool   // somebody else opened db, and closes it
	buf   []byte // args while they are laid out
}

type compiled struct {
	stmt   uintptr
	params int
}

// sqliteError is what SQLite answered; Code as *sqlite3.Error has it.
type sqliteError struct {
	code int
	text string
}

func (e *sqliteError) Error() string { return fmt.Sprintf("%s (%d)", e.text, e.code) }
func (e *sqliteError) Code() int     { return e.code }

// openConn opens one more connection for reading, of a database by its URI; see the readers of open.
func openConn(uri string) (store.Conn, error) {
	c := &conn{tls: libc.NewTLS(), stmts: map[string]compiled{}}
	c.row.c = c
	c.slot = libc.Xmalloc(c.tls, 8)
	name, err := libc.CString(uri)
	if err == nil && c.slot != 0 {
		const flags = lib.SQLITE_OPEN_READONLY | lib.SQLITE_OPEN_URI | lib.SQLITE_OPEN_NOMUTEX
		rc := lib.Xsqlite3_open_v2(c.tls, name, c.slot, flags, 0)
		c.db = c.pointer()
		libc.Xfree(c.tls, name)
		if err = c.failed(rc); err == nil {
			lib.Xsqlite3_extended_result_codes(c.tls, c.db, 1)
			lib.Xsqlite3_busy_timeout(c.tls, c.db, busyTimeout)
			for _, p := range readerPragmas() {
				if err = c.Each(context.Background(), "PRAGMA "+p, nil, func(store.Row) error { return nil }); err != nil {
					break
				}
			}
		}
	}
	if err != nil || c.slot == 0 {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// bulkConn uses a connection of the driver's.
func bulkConn(from any) (store.Conn, error) {
	d, ok := from.(driver.Conn)
	if !ok || handle(d) == 0 {
		return nil, fmt.Errorf("the database driver's connection is a %T, which this program does not know", from)
	}
	c := &conn{tls: libc.NewTLS(), db: handle(d), lent: true, stmts: map[string]compiled{}}
	c.row.c = c
	if c.slot = libc.Xmalloc(c.tls, 8); c.slot == 0 {
		return nil, &sqliteError{lib.SQLITE_NOMEM, "out of memory"}
	}
	return c, nil
}

// pointer is what SQLite wrote to c.slot.
func (c *conn) pointer() uintptr { return uintptr(binary.NativeEndian.Uint64(libc.GoBytes(c.slot, 8))) }

func (c *conn) failed(rc int32) error {
	if rc == lib.SQLITE_OK {
		return nil
	}
	text := "out of memory"
	if c.db != 0 {
		text = libc.GoString(lib.Xsqlite3_errmsg(c.tls, c.db))
	}
	return &sqliteError{int(rc), text}
}

// Close implements store.Conn.
func (c *conn) Close() error {
	for _, st := range c.stmts {
		lib.Xsqlite3_finalize(c.tls, st.stmt)
	}
	var err error
	if !c.lent {
		err = c.failed(lib.Xsqlite3_close_v2(c.tls, c.db))
	}
	libc.Xfree(c.tls, c.args)
	libc.Xfree(c.tls, c.slot)
	c.tls.Close()
	return err
}

func (c *conn) compile(query string) (compiled, error) {
	if st, ok := c.stmts[query]; ok {
		return st, nil
	}
	text, err := libc.CString(query)
	if err != nil {
		return compiled{}, err
	}
	defer libc.Xfree(c.tls, text)
	if err := c.failed(lib.Xsqlite3_prepare_v3(c.tls, c.db, text, -1, lib.SQLITE_PREPARE_PERSISTENT, c.slot, 0)); err != nil {
		return compiled{}, err
	}
	st := compiled{stmt: c.pointer()}
	st.params = int(lib.Xsqlite3_bind_parameter_count(c.tls, st.stmt))
	c.stmts[query] = st
	return st, nil
}

// Each implements store.Conn.
func (c *conn) Each(ctx context.Context, query string, args []any, fn func(store.Row) error) error {
	if c.busy {
		return errors.New("a connection is asked for something while it answers")
	}
	c.busy = true
	defer func() { c.busy = false }()
	st, err := c.compile(query)
	if err == nil {
		err = c.bind(st, args)
	}
	if err != nil {
		return err
	}
	if ctx.Done() != nil {
		defer c.interrupted(ctx)()
	}
	c.row.stmt = st.stmt
	for n := 0; err == nil; n++ {
		if n%64 == 0 {
			if err = ctx.Err(); err != nil {
				break
			}
		}
		switch rc := lib.Xsqlite3_step(c.tls, st.stmt); rc & 0xff {
		case lib.SQLITE_ROW:
			err = fn(&c.row)
			continue
		case lib.SQLITE_INTERRUPT:
			err = errors.Join(ctx.Err(), c.failed(rc))
		case lib.SQLITE_DONE:
		default:
			err = c.failed(rc)
		}
		break
	}
	lib.Xsqlite3_reset(c.tls, st.stmt) // repeats the error of the last step
	return err
}

// interrupted has the end of ctx end the query: again and again, because SQLite forgets what comes just before a query begins. What it
// returns waits for that, so that no other query is met.
func (c *conn) interrupted(ctx context.Context) (end func()) {
	over, done := make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		tls := libc.NewTLS()
		defer tls.Close()
		for {
			lib.Xsqlite3_interrupt(tls, c.db)
			select {
			case <-over:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	})
	return func() {
		if close(over); !stop() {
			<-done
		}
	}
}
