package store

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"

	"wsfs/blob"
)

// cells is one row of a result: what a connection of the driver shows, or what database/sql gives, int64, []byte, string or nil.
// Scanning into the named types of this package directly would take database/sql's slow way through text.
type cells struct {
	n    int
	row  Row // nil: vals are the row
	vals []any
	ptrs []any
	bad  error
}

func newCells(n int) *cells { return &cells{n: n} }

// result stands at one row, of one of the two.
type result struct {
	rows *sql.Rows
	row  Row
}

func (c *cells) scan(r result) error {
	c.bad = nil
	if c.row = r.row; c.row != nil {
		return nil
	}
	if c.vals == nil {
		c.vals, c.ptrs = make([]any, c.n), make([]any, c.n)
		for i := range c.vals {
			c.ptrs[i] = &c.vals[i]
		}
	}
	return r.rows.Scan(c.ptrs...)
}

// scanAll calls scan for each row of a query and reports whether there was any.
func scanAll(ctx context.Context, q querier, width int, query string, args []any, scan func(c *cells) error) (bool, error) {
	c := newCells(width)
	found := false
	err := eachRow(ctx, q, query, args, func(rows result) error {
		if err := c.scan(rows); err != nil {
			return err
		}
		found = true
		if err := scan(c); err != nil {
			return err
		}
		return c.bad
	})
	return found, err
}

// int is column i, 0 for NULL. What is not an integer is remembered in bad.
func (c *cells) int(i int) int64 {
	if c.row != nil {
		v, ok := c.row.Int(i)
		if !ok {
			c.bad = fmt.Errorf("column %d holds no integer: %w", i+1, ErrCorrupt)
		}
		return v
	}
	switch v := c.vals[i].(type) {
	case int64:
		return v
	case nil:
		return 0
	default:
		c.bad = fmt.Errorf("column %d holds %T, not an integer: %w", i+1, v, ErrCorrupt)
		return 0
	}
}

func (c *cells) null(i int) bool {
	if c.row != nil {
		return c.row.Null(i)
	}
	return c.vals[i] == nil
}

// bytes is column i, which the caller owns; nil for NULL.
func (c *cells) bytes(i int) []byte {
	if c.row != nil {
		return bytes.Clone(c.lent(i))
	}
	return c.lent(i)
}

// lent is bytes, good until the next row.
func (c *cells) lent(i int) []byte {
	if c.row != nil {
		v, ok := c.row.Bytes(i)
		if !ok {
			c.bad = fmt.Errorf("column %d holds a number, not bytes: %w", i+1, ErrCorrupt)
		}
		return v
	}
	switch v := c.vals[i].(type) {
	case []byte:
		return v
	case string:
		return []byte(v)
	case nil:
		return nil
	default:
		c.bad = fmt.Errorf("column %d holds %T, not bytes: %w", i+1, v, ErrCorrupt)
		return nil
	}
}

func (c *cells) string(i int) string {
	if c.row == nil {
		if v, ok := c.vals[i].(string); ok {
			return v
		}
	}
	return string(c.lent(i))
}

func (c *cells) ref(i int) blob.Ref {
	var r blob.Ref
	if b := c.lent(i); b != nil && copy(r[:], b) != len(b) {
		c.bad = fmt.Errorf("column %d holds a hash of %d bytes, not %d: %w", i+1, len(b), blob.RefSize, ErrCorrupt)
	}
	return r
}

const (
	// The state of an inode; v is its row.
	versionCols = `v.timeline_id, v.ino, v.seq, v.version_id, v.parent_version_id, v.replaced_version_id,
		v.merge_version_id, v.origin_timeline_id, v.mode, v.uid, v.gid, v.nlink, v.rdev, v.size, v.holes, v.mtime, v.ctime,
		v.atime, v.content_hash, v.target, v.xattrs`
	versionWidth = 21
)

// version reads versionCols from column i on.
func (c *cells) version(i int) (*Version, error) {
	v := new(Version)
	return v, c.versionTo(v, i)
}

func (c *cells) versionTo(v *Version, i int) error {
	*v = Version{
		Ino: Ino(c.int(i + 1)), Seq: Seq(c.int(i + 2)), ID: VersionID(c.int(i + 3)), Parent: VersionID(c.int(i + 4)),
		Replaced: VersionID(c.int(i + 5)), Merge: VersionID(c.int(i + 6)), Origin: TimelineID(c.int(i + 7)),
		Mode: uint32(c.int(i + 8)), UID: uint32(c.int(i + 9)), GID: uint32(c.int(i + 10)), Nlink: uint32(c.int(i + 11)),
		Rdev: uint32(c.int(i + 12)), Size: c.int(i + 13), Holes: c.int(i + 14), Mtime: c.int(i + 15), Ctime: c.int(i + 16),
		Content: c.ref(i + 18), Target: c.string(i + 19),
	}
	if v.Origin == 0 {
		v.Origin = TimelineID(c.int(i))
	}
	v.Atime = v.Mtime
	if !c.null(i + 17) {
		v.Atime = c.int(i + 17)
	}
	if b := c.lent(i + 20); b != nil {
		x, err := decodeXattrs(b)
		if err != nil {
			return fmt.Errorf("version %d of inode %d: %w: %w", v.ID, v.Ino, err, ErrCorrupt)
		}
		v.Xattrs = x
	}
	return c.bad
}
