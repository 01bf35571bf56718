package fstest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"wsfs/fs/fstest"
)

// TestVerdicts: whoever may do something in a directory of the disk may do it on a mount, and nobody else, with the same
// errors and the same modes and owners afterwards. One thing does not reach a FUSE server as what it is: a chown(2) with -1 and
// -1 by somebody else, of a file with setuid or setgid, is EPERM on a disk and changes nothing here.
func TestVerdicts(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("several users take part, which needs root")
	}
	native, err := os.MkdirTemp("", "verdicts")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(native) })
	_, mount := newMount(t)
	on := filepath.Join(mount, "v")
	if err := os.Mkdir(on, 0o755); err != nil {
		t.Fatal(err)
	}
	all := os.Getenv("WSFS_TEST_FULL") != ""
	want, got := fstest.Verdicts(t, native, all), fstest.Verdicts(t, on, all)
	if len(got) != len(want) || len(got) < 1000 {
		t.Fatalf("%d verdicts on the mount, %d on the disk", len(got), len(want))
	}
	wrong := 0
	for i := range got {
		if got[i] == want[i] || strings.Contains(got[i], "06777: chown of nothing by ") && strings.HasSuffix(want[i], "EPERM") &&
			strings.Contains(got[i], " f 106777 ") {
			continue
		}
		if wrong++; wrong < 30 {
			t.Errorf("the mount says\n%s\nthe disk says\n%s", got[i], want[i])
		}
	}
	t.Logf("%d of %d verdicts differ", wrong, len(got))
}
