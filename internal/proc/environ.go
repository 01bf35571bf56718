package proc

import (
	"bytes"
	"errors"
	"io"
)

// SessionVariable names a session for a process and its descendants.
const SessionVariable = "WSFS_SESSION"

const (
	maxSessionName = 255     // bytes; the rest of a longer value is cut off
	maxEnviron     = 8 << 20 // bytes looked through; the kernel allows 6 MiB
)

// findVariable returns the first value of a variable in an environment as /proc/PID/environ has it: NAME=VALUE strings,
// each ended by NUL, and how many bytes it looked at. An empty value counts as none. It uses buf to read, and clears it:
// nothing else of an environment outlives the call.
func findVariable(r io.Reader, name string, buf []byte) (value string, seen int, err error) {
	defer clear(buf)
	prefix := name + "="
	var (
		matched int  // bytes of prefix matched by the current string, valid unless skip
		skip    bool // the current string is not the one
		val     []byte
	)
	for seen < maxEnviron {
		n, err := r.Read(buf)
		chunk := buf[:n]
		seen += n
		for len(chunk) > 0 {
			if !skip && matched < len(prefix) {
				switch b := chunk[0]; b {
				case prefix[matched]:
					matched++
				case 0:
					matched = 0
				default:
					skip = true
				}
				chunk = chunk[1:]
				continue
			}
			part, rest, ended := bytes.Cut(chunk, []byte{0})
			chunk = rest
			if !skip {
				val = append(val, part[:min(len(part), maxSessionName-len(val))]...)
				if ended {
					return string(val), seen, nil
				}
			} else if ended {
				skip, matched = false, 0
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", seen, err
		}
	}
	return string(val), seen, nil // also a last string without its NUL
}
