package fstest_test

import (
	"flag"
	"os"
	"testing"

	"wsfs/fs/fstest"
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(fstest.Main(m))
}
