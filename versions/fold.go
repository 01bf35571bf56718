package versions

import (
	"syscall"

	"wsfs/store"
)

// foldWindow is how many entries of one command are looked at together.
const foldWindow = 8192

// folder joins the entries of one step of one command that only make sense together. It gets entries newest first and passes them
// on newest first; memory is bounded by foldWindow.
type folder struct {
	emit func(*Entry) error
	run  []*Entry // newest first, all by one command
}

func (f *folder) add(e *Entry) error {
	if len(f.run) > 0 && (len(f.run) >= foldWindow || !sameActor(f.run[0], e)) {
		if err := f.flush(); err != nil {
			return err
		}
	}
	f.run = append(f.run, e)
	return nil
}

// sameActor reports whether a and b were done by one step of one command, or without one by one process.
func sameActor(a, b *Entry) bool {
	switch {
	case (a.Command == nil) != (b.Command == nil) || (a.Session == nil) != (b.Session == nil):
		return false
	case a.Session != nil && a.Session.ID != b.Session.ID:
		return false
	case a.Command != nil:
		return a.Command.ID == b.Command.ID && sameStep(a, b)
	case a.Process == nil || b.Process == nil:
		return a.Process == b.Process && a.Kind == b.Kind
	}
	return a.Process.ID == b.Process.ID
}

func (f *folder) flush() error {
	run := f.run
	f.run = nil
	births := map[store.Ino]*Entry{} // what this command made and only it has touched since
	folded := map[*Entry]bool{}
	for i := len(run) - 1; i >= 0; i-- {
		e := run[i]
		birth := births[e.Ino]
		switch {
		case e.What == Created || e.saved:
			births[e.Ino] = e
		case birth == nil:
		case e.What == Linked && birth.link == nil:
			birth.link = e
		case e.What == Deleted && birth.link != nil && e.Path == birth.Path:
			// Made under a temporary name, linked to its own, the temporary name removed: git's way of renaming.
			birth.link.From = birth.Path
			birth.link.take(birth)
			folded[birth], folded[e] = true, true
			births[e.Ino] = birth.link
		case e.absorb(birth):
			folded[birth] = true
			births[e.Ino] = e
		default:
			delete(births, e.Ino)
		}
	}
	for _, e := range run {
		if folded[e] {
			continue
		}
		if err := f.emit(e); err != nil {
			return err
		}
	}
	return nil
}

// absorb makes e, which followed on the creation birth, stand for both. It reports false if both must be shown.
func (e *Entry) absorb(birth *Entry) bool {
	switch e.What {
	case Written:
		if birth.written {
			return false // a second content is a version of its own
		}
		e.take(birth)
		e.written = true
	case Mode, Owner, Times, Xattr:
		e.take(birth)
	case Renamed:
		// A temporary file took its final name, perhaps another one's: that is how most programs write.
		if birth.From != "" {
			return false
		}
		size := e.oldSize
		e.take(birth)
		if e.replaces {
			e.What, e.oldSize, e.Old = Written, size, e.over
			e.count()
		}
	case Deleted:
		if e.Path != birth.Path || birth.link != nil || birth.What != Created {
			return false
		}
		e.First, e.What, e.OldMode, e.Old, e.New = birth.First, Temporary, 0, nil, nil
		e.Type = birth.Type
	default:
		return false
	}
	return true
}

// take makes e tell what birth told, at e's place in time and under e's path.
func (e *Entry) take(birth *Entry) {
	e.What, e.First, e.written, e.link, e.oldSize = birth.What, birth.First, birth.written, birth.link, birth.oldSize
	e.Old = birth.Old
	if e.From == "" {
		e.From = birth.From
	}
	if e.Type == 0 {
		e.Type, e.Size = birth.Type, birth.Size
	}
	e.OldMode = birth.OldMode
	if e.Type == syscall.S_IFREG {
		e.count()
	}
}
