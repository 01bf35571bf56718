package fstest_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"wsfs/fs/fstest"
)

// flags of the tests of this package.
type flags struct {
	wsfs  *string // the program under test
	dir   *string // TestDir: where
	areas *string // TestDir: what
	plain *bool   // TestDir: a local file system
	fork  *bool   // started by another run of this binary
	kills *int
	storm *int
}

var opt = flags{
	wsfs:  flag.String("wsfs", "", "the wsfs binary to test; built from this tree if empty"),
	dir:   flag.String("dir", "", "TestDir: run the suite on this directory"),
	areas: flag.String("areas", "", "TestDir: areas to run, separated by commas; empty: all"),
	plain: flag.Bool("plain", false, "TestDir: the directory is on a local file system"),
	fork:  flag.Bool("fork", false, "this run was started by another test"),
	kills: flag.Int("kills", 50, "TestKill: how often the daemon is killed"),
	storm: flag.Int("storm", 60, "TestDeadlock: seconds"),
}

func TestMain(m *testing.M) {
	// Agents come first: their argument is no flag.
	if len(os.Args) > 1 && os.Args[1] == "fstest-agent" {
		os.Exit(fstest.Main(m))
	}
	flag.Parse()
	off := func() {}
	if !*opt.fork && *opt.dir == "" {
		off = uringOn()
	}
	code := run(m)
	off()
	os.Exit(code)
}

func run(m *testing.M) int {
	if *opt.wsfs == "" {
		dir, err := os.MkdirTemp("", "wsfs-bin")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		// Other users run it, too.
		if err := os.Chmod(dir, 0o755); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		bin := filepath.Join(dir, "wsfs")
		cmd := exec.Command("go", append(append([]string{"build"}, raceArgs()...), "-o", bin, "wsfs/cmd/wsfs")...)
		if out, err := cmd.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "go build wsfs/cmd/wsfs: %v\n%s", err, out)
			return 1
		}
		*opt.wsfs = bin
	}
	return fstest.Main(m)
}

// transports are those that a mount can have, but for the library's. uring is own where the kernel refuses.
func transports() []string { return []string{"own", "uring"} }

// uringOn lets the kernel offer FUSE over io_uring until the function it returns is called.
func uringOn() func() {
	const param = "/sys/module/fuse/parameters/enable_uring"
	was, err := os.ReadFile(param)
	if err == nil && was[0] == 'Y' {
		return func() {}
	}
	if err == nil {
		err = os.WriteFile(param, []byte("Y"), 0)
	}
	if err != nil {
		fmt.Println("without FUSE over io_uring (Linux 6.14, switched on by root):", err)
		return func() {}
	}
	return func() {
		if err := os.WriteFile(param, was, 0); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
}
