package proc

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// The flags of field 9 of /proc/PID/stat that matter here; include/linux/sched.h.
const (
	flagExiting    = 0x00000004
	flagForkNoExec = 0x00000040 // forked, but no exec since
	flagKernel     = 0x00200000
)

var errMalformed = errors.New("malformed")

// stat is what we use of /proc/PID/stat, proc_pid_stat(5).
type stat struct {
	pid   int
	comm  string
	state byte
	ppid  int
	sid   int    // 0: the leader is outside our pid namespace
	tty   int    // controlling terminal, 0 none
	flags uint64 // flag*
	start uint64 // clock ticks after boot
	stack uint64 // address of the stack's bottom: random per exec; 0 or 1 when we may not know it
}

// exiting reports whether the process has begun to exit: its memory may be gone, its descriptors not yet.
func (s *stat) exiting() bool {
	return s.flags&flagExiting != 0 || s.state == 'Z' || s.state == 'X'
}

// parseStat reads the one line of /proc/PID/stat. The name in parentheses may hold any bytes, parentheses too.
func parseStat(line []byte) (stat, error) {
	open, end := bytes.IndexByte(line, '('), bytes.LastIndexByte(line, ')')
	if open < 1 || end < open {
		return stat{}, fmt.Errorf("stat: no name in parentheses: %w", errMalformed)
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(line[:open])))
	if err != nil || pid <= 0 {
		return stat{}, fmt.Errorf("stat: process id %q: %w", line[:open], errMalformed)
	}
	s := stat{pid: pid, comm: string(line[open+1 : end])}
	rest := bytes.TrimLeft(line[end+1:], " ")
	// Field numbers as in the manual: 1 is the pid, 2 the name.
	for field := 3; field <= 28; field++ {
		var word []byte
		word, rest, _ = bytes.Cut(rest, []byte{' '})
		word = bytes.TrimRight(word, "\n")
		if len(word) == 0 {
			return stat{}, fmt.Errorf("stat: ends before field %d: %w", field, errMalformed)
		}
		switch field {
		case 3:
			s.state = word[0]
		case 4:
			s.ppid, err = natural(word)
		case 6:
			s.sid, err = natural(word)
		case 7:
			s.tty, err = strconv.Atoi(string(word))
		case 9:
			s.flags, err = strconv.ParseUint(string(word), 10, 64)
		case 22:
			s.start, err = strconv.ParseUint(string(word), 10, 64)
		case 28:
			s.stack, err = strconv.ParseUint(string(word), 10, 64)
		}
		if err != nil {
			return stat{}, fmt.Errorf("stat: field %d is %q: %w", field, word, errMalformed)
		}
	}
	return s, nil
}

// natural parses a process id or 0. The kernel prints -1 for "none" in some fields of a dying task.
func natural(word []byte) (int, error) {
	n, err := strconv.Atoi(string(word))
	return max(n, 0), err
}

// status is what we use of /proc/ID/status.
type status struct {
	tgid int
	uid  uint32 // the real one: who ran it, also when the program is setuid
}

func parseStatus(text []byte) (status, error) {
	var s status
	var haveUID bool
	for len(text) > 0 && (s.tgid == 0 || !haveUID) {
		var line []byte
		line, text, _ = bytes.Cut(text, []byte{'\n'})
		key, value, _ := bytes.Cut(line, []byte{':'})
		fields := bytes.Fields(value)
		if len(fields) == 0 {
			continue
		}
		switch string(key) {
		case "Tgid":
			n, err := strconv.Atoi(string(fields[0]))
			if err != nil || n <= 0 {
				return status{}, fmt.Errorf("status: Tgid is %q: %w", fields[0], errMalformed)
			}
			s.tgid = n
		case "Uid":
			n, err := strconv.ParseUint(string(fields[0]), 10, 32)
			if err != nil {
				return status{}, fmt.Errorf("status: Uid is %q: %w", fields[0], errMalformed)
			}
			s.uid, haveUID = uint32(n), true
		}
	}
	if s.tgid == 0 || !haveUID {
		return status{}, fmt.Errorf("status: no Tgid or no Uid: %w", errMalformed)
	}
	return s, nil
}

// parseArgv makes what Process.Argv holds of the start of a cmdline file: the terminator of the last argument goes.
func parseArgv(cmdline []byte) string {
	if len(cmdline) > MaxArgv {
		return string(cmdline[:MaxArgv])
	}
	return string(bytes.TrimSuffix(cmdline, []byte{0}))
}
