package main

import (
	"context"
	"fmt"

	"wsfs/internal/ui"
	"wsfs/store"
	"wsfs/store/sqlite"
)

// history says how much of the past the store has room for.
func (x *examiner) history(dir string) []finding {
	const name = "history"
	ctx := context.Background()
	st, err := store.Open(ctx, dir, sqlite.Driver(), store.Options{ReadOnly: true})
	if err != nil {
		return nil // store says so, or the daemon brings it up to date
	}
	defer func() { _ = st.Close() }() // only read
	b, err := st.Budget(ctx)
	if err != nil {
		return []finding{fail(name, "", "%v", err)}
	}
	if b.Cap == 0 {
		return []finding{ok(name, "nothing limits the store's size; `wsfs retain` does")}
	}
	text := fmt.Sprintf("the store has %s of at most %s (%d %%)", ui.Bytes(b.Bytes), ui.Bytes(b.Cap), b.Percent())
	if b.Tight() {
		return []finding{warn(name, "`wsfs du --history` tells what has most; `wsfs retain` allows more, or keeps less", "%s; at the limit it loses its oldest history", text)}
	}
	return []finding{ok(name, "%s", text)}
}
