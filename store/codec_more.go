package store

// more reports whether a row holds what the first format of rows has no place for.
func (r *attributionRows) more() bool {
	if r == nil {
		return false
	}
	for _, s := range r.sessions {
		if s.Parent != nil || s.Meta != "" || s.Home != 0 {
			return true
		}
	}
	for _, p := range r.processes {
		if p.Unread {
			return true
		}
	}
	return false
}

// appendMore writes it, in the order of the rows.
func appendMore(b []byte, r *attributionRows) []byte {
	for _, s := range r.sessions {
		var parent SessionID
		if s.Parent != nil {
			parent = s.Parent.ID
		}
		b = putUint(b, uint64(parent))
		b = putString(b, s.Meta)
		b = putUint(b, uint64(s.Home))
	}
	for _, p := range r.processes {
		b = putBool(b, p.Unread)
	}
	return b
}

func decodeMore(d *decoder, r *attributionRows, known *knownRows) {
	if r == nil {
		d.fail("more of rows that are not there")
		return
	}
	for _, s := range r.sessions {
		s.Parent = known.session(SessionID(d.uint("session's parent")))
		s.Meta = d.string("session's meta")
		s.Home = WorkspaceID(d.uint("session's home"))
	}
	for _, p := range r.processes {
		p.Unread = d.bool("environment unread")
	}
}

func appendEnded(b []byte, ends []CommandEnd) []byte {
	b = putUint(b, uint64(len(ends)))
	for i := range ends {
		e := &ends[i]
		b = putUint(b, uint64(e.Command))
		b = append(b, byte(e.State))
		b = putInt(b, int64(e.Exit))
		b = putInt(b, e.At)
	}
	return b
}

func decodeEnded(d *decoder, e *CommandEnd) {
	e.Command = CommandID(d.uint("ended command"))
	e.State = CommandState(d.byte("command's state"))
	e.Exit = int(d.int("exit"))
	e.At = d.int("command's end")
}
