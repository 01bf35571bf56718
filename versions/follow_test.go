package versions

import (
	"syscall"
	"testing"

	"wsfs/blob"
	"wsfs/store"
)

// restore gives path to a new file, as restore and import do: no item says that the old one lost it.
func (w *world) restore(path, content string) store.Seq {
	p, name := w.at(path)
	old := w.nodes[w.paths[path]]
	old.Nlink--
	v := store.Version{Ino: w.st.NewIno(), Mode: syscall.S_IFREG | 0o644, Nlink: 1, Size: int64(len(content)), Content: blob.Sum([]byte(content))}
	w.paths[path] = v.Ino
	return w.append(&store.Op{
		Kind: store.OpRestore, Names: []store.Name{{Parent: p, Name: name, Ino: v.Ino, Type: syscall.S_IFREG}},
		Versions: []store.Version{old, v}, Items: []store.Item{{Op: store.OpCreate, Ino: v.Ino, Parent: p, Name: name}},
		Contents: []blob.Staged{w.st.Blobs().StageSmall([]byte(content))},
	})
}

// What was written to a file is told though it lost its name without a word; what it was under another name is not.
func TestLogFollowsHolders(t *testing.T) {
	w := newWorld(t)
	w.mkdir("d")
	w.command("s", "1")
	start := w.create("d/a", "1")
	w.command("s", "2")
	w.write("d/a", "12")
	w.command("s", "3")
	w.restore("d/a", "other")
	w.command("s", "4")
	w.rename("d/a", "d/b")
	w.command("s", "5")
	w.create("d/a", "new")
	w.command("s", "6")
	w.write("d/b", "not of a")
	w.command("s", "7")
	w.remove("d/a")
	newest := []string{"deleted d/a", "created d/a +3", "renamed d/a -> d/b", "created d/a +5", "written d/a +1"}
	w.expect(LogQuery{Path: "d/a"}, append(newest, "created d/a +1")...)
	w.expect(LogQuery{Path: "d/a", After: start}, newest...)
	w.expect(LogQuery{Path: "d/a", Limit: 1}, newest[0])
}

// A name that was given to so many files that they do not fit in one page, each written once.
func TestLogFollowsManyHolders(t *testing.T) {
	const n = 150
	w := newWorld(t)
	var want []string
	for range n {
		w.command("s", "1")
		w.create("a", "1")
		w.command("s", "2")
		w.write("a", "22")
		w.command("s", "3")
		w.remove("a")
		w.create("beside", "") // 3 changes of the name, and these between
		w.remove("beside")
		want = append(want, "deleted a", "written a +1", "created a +1")
	}
	w.expect(LogQuery{Path: "a"}, want...)
}
