package store

// AppendAttribution appends everything that w names, with all ancestors, so that DecodeAttribution gives it back without a
// store. It is for memory that outlives a process, never for a disk: the form may change with the program.
func AppendAttribution(b []byte, w Attribution) []byte {
	var none emitted
	r := none.missing(w)
	if r == nil {
		r = &attributionRows{}
	}
	var session SessionID
	var process ProcessID
	var command CommandID
	if w.Session != nil {
		session = w.Session.ID
	}
	if w.Process != nil {
		process = w.Process.ID
	}
	if w.Command != nil {
		command = w.Command.ID
	}
	b = putUint(b, uint64(session))
	b = putUint(b, uint64(process))
	b = putUint(b, uint64(command))
	return appendMore(appendRows(b, r), r)
}

// DecodeAttribution reads what AppendAttribution wrote.
func DecodeAttribution(b []byte) (Attribution, error) {
	d := &decoder{b: b}
	session, process, command := SessionID(d.uint("session")), ProcessID(d.uint("process")), CommandID(d.uint("command"))
	var known knownRows
	rows := decodeRows(d, &known)
	decodeMore(d, rows, &known)
	if d.err != nil {
		return Attribution{}, d.err
	}
	var w Attribution
	w.Session, w.Process, w.Command = known.sessions[session], known.processes[process], known.commands[command]
	return w, nil
}
