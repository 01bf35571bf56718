package versions

import "wsfs/store"

// Step is the part of its command that did e: the process just below the command's own, such as `npm install` in
// `bash -c "git pull && npm install"`. It is nil if the command did it itself, or if nothing is known.
func (e *Entry) Step() *store.Process {
	if e.Command == nil || e.Process == nil {
		return nil
	}
	var chain []*store.Process // from the process that did it up to the session's root
	for p := e.Process; p != nil && len(chain) < 1000; p = p.Parent {
		chain = append(chain, p)
	}
	// The command is the topmost process below the root. The root itself may have done it, or be gone.
	top := len(chain) - 1
	if top > 0 && chain[top-1].Argv == e.Command.Argv {
		top--
	} else if chain[top].Argv != e.Command.Argv {
		return nil
	}
	// What a shell forks for a pipeline or in parentheses is still the command.
	for top > 0 && chain[top-1].Argv == e.Command.Argv {
		top--
	}
	if top == 0 {
		return nil
	}
	return chain[top-1]
}

func sameStep(a, b *Entry) bool {
	x, y := a.Step(), b.Step()
	return x == y || x != nil && y != nil && x.ID == y.ID
}
