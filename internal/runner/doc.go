// Package runner starts a program in a mount namespace of its own in which a workspace lies where its directory is, and
// tells the daemon about it.
//
// Between the one who asks ([Start], in `wsfs run`) and the program there is a keeper ([Child], the same executable): it
// is the process that the daemon knows as the command. It enters the namespace, registers itself, starts the program as
// its child, reports how that ended, and stays for as long as anything lives that the program left in the background:
// orphans become its children (PR_SET_CHILD_SUBREAPER), so that ancestry, the only thing that attribution follows, always
// leads to it. It holds no descriptor of the program and takes part in no pipe.
//
// All three are one process group: the terminal stops, continues and interrupts them together. What is sent to the asker
// alone is passed on over the socket between the two, never from the keeper's own signals: those it ignores.
package runner
