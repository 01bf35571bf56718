package sqlite

import (
	"fmt"

	"modernc.org/libc"
	"modernc.org/libc/sys/types"
	lib "modernc.org/sqlite/lib"
)

// bind gives a statement its values. Bytes and text lie in c.args one after the other: SQLite reads them there until the next
// bind, which gives every parameter another value.
func (c *conn) bind(st compiled, args []any) error {
	if len(args) != st.params {
		return fmt.Errorf("%d values for %d parameters", len(args), st.params)
	}
	c.buf = c.buf[:0]
	for _, a := range args {
		switch v := a.(type) {
		case []byte:
			c.buf = append(c.buf, v...)
		case string:
			c.buf = append(c.buf, v...)
		}
	}
	if len(c.buf) > c.room || c.args == 0 { // an empty value has an address as well: without one it would be NULL
		libc.Xfree(c.tls, c.args)
		c.room = max(4096, 2*len(c.buf))
		if c.args = libc.Xmalloc(c.tls, types.Size_t(c.room)); c.args == 0 {
			c.room = 0
			return &sqliteError{lib.SQLITE_NOMEM, "out of memory"}
		}
	}
	copy(libc.GoBytes(c.args, c.room), c.buf)
	at := c.args
	for i, a := range args {
		var rc int32
		n := int32(i + 1)
		switch v := a.(type) {
		case int64:
			rc = lib.Xsqlite3_bind_int64(c.tls, st.stmt, n, v)
		case []byte:
			if v == nil {
				rc = lib.Xsqlite3_bind_null(c.tls, st.stmt, n)
				break
			}
			rc = lib.Xsqlite3_bind_blob(c.tls, st.stmt, n, at, int32(len(v)), 0)
			at += uintptr(len(v))
		case string:
			rc = lib.Xsqlite3_bind_text(c.tls, st.stmt, n, at, int32(len(v)), 0)
			at += uintptr(len(v))
		case nil:
			rc = lib.Xsqlite3_bind_null(c.tls, st.stmt, n)
		default:
			return fmt.Errorf("parameter %d is of type %T: only int64, []byte, string and nil can be given", n, a)
		}
		if err := c.failed(rc); err != nil {
			return err
		}
	}
	return nil
}

// row is the row that a statement stands at; it implements store.Row.
type row struct {
	c    *conn
	stmt uintptr
}

func (r *row) value(i int) (value uintptr, kind int32) {
	v := lib.Xsqlite3_column_value(r.c.tls, r.stmt, int32(i))
	return v, lib.Xsqlite3_value_type(r.c.tls, v)
}

func (r *row) Null(i int) bool {
	_, kind := r.value(i)
	return kind == lib.SQLITE_NULL
}

func (r *row) Int(i int) (int64, bool) {
	v, kind := r.value(i)
	switch kind {
	case lib.SQLITE_INTEGER:
		return lib.Xsqlite3_value_int64(r.c.tls, v), true
	case lib.SQLITE_NULL:
		return 0, true
	}
	return 0, false
}

func (r *row) Bytes(i int) ([]byte, bool) {
	v, kind := r.value(i)
	switch kind {
	case lib.SQLITE_BLOB, lib.SQLITE_TEXT:
	case lib.SQLITE_NULL:
		return nil, true
	default:
		return nil, false
	}
	p := lib.Xsqlite3_value_blob(r.c.tls, v) // of text, its bytes as they are stored
	n := lib.Xsqlite3_value_bytes(r.c.tls, v)
	if p == 0 || n == 0 {
		return nil, true
	}
	return libc.GoBytes(p, int(n)), true
}
