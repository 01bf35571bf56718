package store

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"
)

// encodeXattrs is the form of extended attributes in the database: for each, in the order of the names, the length of
// the name, the name, the length of the value, the value; lengths are unsigned varints. None is nil.
func encodeXattrs(x map[string][]byte) []byte {
	if len(x) == 0 {
		return nil
	}
	var b []byte
	for _, name := range slices.Sorted(maps.Keys(x)) {
		b = binary.AppendUvarint(b, uint64(len(name)))
		b = append(b, name...)
		b = binary.AppendUvarint(b, uint64(len(x[name])))
		b = append(b, x[name]...)
	}
	return b
}

var errXattrs = errors.New("extended attributes are cut off") // an immutable value

func decodeXattrs(b []byte) (map[string][]byte, error) {
	if len(b) == 0 {
		return nil, nil
	}
	x := make(map[string][]byte)
	next := func() ([]byte, error) {
		n, k := binary.Uvarint(b)
		if k <= 0 || n > uint64(len(b)-k) {
			return nil, errXattrs
		}
		v := b[k : k+int(n)]
		b = b[k+int(n):]
		return v, nil
	}
	for len(b) > 0 {
		name, err := next()
		if err != nil {
			return nil, err
		}
		value, err := next()
		if err != nil {
			return nil, err
		}
		x[string(name)] = slices.Clone(value)
	}
	return x, nil
}
