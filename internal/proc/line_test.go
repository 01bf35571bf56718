package proc

import "testing"

// TestLastProgramOfALine: bash runs the last program of a -c line in its own place, and the line stays one command. A
// shell's copy of itself that becomes a program has the number of that program's command, and its words from then on.
func TestLastProgramOfALine(t *testing.T) {
	for _, c := range []struct {
		name, script string
		same         bool
	}{
		{"line", `bash -c 'echo $$; read; exec sleep 5' line <&0 & wait`, true},
		{"copy", `(echo $BASHPID; read; exec sleep 5) <&0 & wait`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newResolver(t, Options{})
			k := script(t, c.script, inSession("a"))
			pid := k.number()
			before := resolve(r, pid)
			k.say("go on")
			becomes(t, pid, "sleep")
			after := resolve(r, pid)
			if before.Process == after.Process || after.Process.Comm != "sleep" {
				t.Errorf("the process is %+v, it was %+v: want a new image", after.Process, before.Process)
			}
			if same := before.Command == after.Command; same != c.same || before.Command.ID != after.Command.ID {
				t.Errorf("before exec %+v, after %+v", before.Command, after.Command)
			}
		})
	}
}
