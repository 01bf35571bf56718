package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/binary"
	"reflect"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"
)

// The driver opens every connection in SQLite's serialized mode: each call locks the connection's mutex, and reading a
// row of 20 columns does it 40 times, a quarter of all time. database/sql gives a connection to one goroutine at a time, which is all that
// SQLite asks for in its multi-thread mode (sqlite.org/threadsafe.html), and that mode differs in nothing but that a connection has no mutex.

// connector opens connections without a mutex.
type connector struct {
	driver.Connector
	log *gather // of the writer: kept for as long as its connection
}

func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err == nil {
		withoutMutex(conn)
	}
	return conn, err
}

func openDB(dsn string) (*sql.DB, *connector, error) {
	c, err := sqlite3.NewConnector(dsn)
	if err != nil {
		return nil, nil, err
	}
	k := &connector{Connector: c}
	return sql.OpenDB(k), k, nil
}

// handle is SQLite's own of a connection; 0 if it does not look as this version of the driver has it.
func handle(conn driver.Conn) uintptr {
	v := reflect.ValueOf(conn)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return 0
	}
	db := v.Elem().FieldByName("db")
	if db.Kind() != reflect.Uintptr {
		return 0
	}
	return uintptr(db.Uint())
}

// withoutMutex takes a new connection's mutex away and reports whether it did. Whatever does not look as this version of the driver has it
// stays as it is: it is only slower.
func withoutMutex(conn driver.Conn) bool {
	db := handle(conn)
	if db == 0 {
		return false
	}
	tls := libc.NewTLS()
	defer tls.Close()
	mutex := lib.Xsqlite3_db_mutex(tls, db)
	const size = unsafe.Sizeof(mutex)
	if size != 8 || mutex == 0 {
		return false
	}
	field := libc.GoBytes(db+unsafe.Offsetof(lib.Tsqlite3{}.Fmutex), int(size))
	if binary.NativeEndian.Uint64(field) != uint64(mutex) {
		return false
	}
	clear(field)
	lib.Xsqlite3_mutex_free(tls, mutex)
	return true
}
