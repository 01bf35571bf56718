package runner

import (
	"errors"
	"os"
	"syscall"
)

// probe is what a keeper gets instead of a descriptor to see whether it could do its work.
const probe = "probe"

// Probe says why this process cannot have mount namespaces, or nil. exe is this program.
func Probe(exe string) error {
	var err error
	for _, sys := range attempts(true) {
		var p *os.Process
		p, err = os.StartProcess(exe, []string{"wsfs", ChildCommand, probe}, &os.ProcAttr{Sys: sys})
		if err != nil {
			if errors.Is(err, syscall.EPERM) {
				continue
			}
			break
		}
		state, werr := p.Wait()
		if werr != nil {
			return werr
		}
		if state.Success() {
			return nil
		}
		err = syscall.EACCES // a namespace, but no mounts in it
	}
	return &NamespaceError{err}
}
