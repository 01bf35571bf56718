package sqlite_test

import (
	"testing"

	"wsfs/store/sqlite"
	"wsfs/store/storetest"
)

func TestStore(t *testing.T) { storetest.Run(t, sqlite.Driver()) }
