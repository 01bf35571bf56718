package main

import (
	"context"
	"fmt"

	"wsfs/internal/daemon"
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
	was, err := daemon.BytesOf(ctx, st)
	if err != nil {
		return []finding{fail(name, "", "%v", err)}
	}
	var list []finding
	if was != nil {
		f := ok("bytes", "%s", was.Text())
		f.Bytes = was
		list = append(list, f)
	}
	if b.Cap == 0 {
		return append(list, ok(name, "nothing limits the store's size; `wsfs retain` does"))
	}
	text := fmt.Sprintf("the store has %s of at most %s (%d %%)", ui.Bytes(b.Bytes), ui.Bytes(b.Cap), b.Percent())
	if b.Tight() {
		return append(list, warn(name, "`wsfs du --history` tells what has most; `wsfs retain` allows more, or keeps less", "%s; at the limit it loses its oldest history", text))
	}
	return append(list, ok(name, "%s", text))
}
