package fuse

import (
	"strings"
	"testing"
)

// A helper that was started ahead is the one that tells of the move; one that has nothing to tell ends.
func TestEchoHelperAhead(t *testing.T) {
	s := startStore(t, serveConfig{})
	s.sh("echo 1 > f")
	s.must("mark before")
	s.sh("echo longer > f; mkdir d")
	s.must("mark after")
	w := watch(t, s.point)
	for _, to := range []string{"before", "after"} {
		w.settle()
		s.must("foresee")
		s.must("foresee") // of another workspace in the same mount: there is one
		waitFor(t, func() bool { return len(children(s.cmd.Process.Pid)) == 1 })
		s.must("move " + to)
		w.events("MODIFY f", "CLOSE_WRITE,CLOSE f")
		if left := children(s.cmd.Process.Pid); len(left) > 0 {
			t.Fatalf("helpers are left: %v", left)
		}
		s.must("over")
	}
	s.must("foresee")
	waitFor(t, func() bool { return len(children(s.cmd.Process.Pid)) == 1 })
	s.must("over")
	waitFor(t, func() bool { return len(children(s.cmd.Process.Pid)) == 0 })
	if log := s.log.String(); strings.Contains(log, "level=WARN") || strings.Contains(log, "level=ERROR") {
		t.Error("the server complains")
	}
}
