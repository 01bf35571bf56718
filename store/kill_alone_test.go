package store_test

import (
	"maps"
	"path/filepath"
	"testing"
	"time"

	"wsfs/store"
	"wsfs/store/sqlite"
)

// TestAgentAlone has one agent work without being killed, and compares what it has with the model at every step: what
// these tests find after a kill may have been wrong before.
func TestAgentAlone(t *testing.T) {
	ctx := t.Context()
	for seed := uint64(1); seed <= 2; seed++ {
		dir := filepath.Join(t.TempDir(), "store")
		m := makeAgents(t, dir, 1)[0]
		st, err := store.Open(ctx, dir, sqlite.Driver(), killOptions(make([]byte, pageSize), func(string) {}))
		if err != nil {
			t.Fatal(err)
		}
		a := &agent{st: st, name: "agent-0", cut: 100 * time.Millisecond, tmp: t.TempDir()}
		a.all = []*agent{a}
		if err := a.open(ctx, m.ws); err != nil {
			t.Fatal(err)
		}
		for range 150 {
			op := m.next(seed)
			err := a.do(ctx, op)
			if err == nil {
				err = st.Apply(ctx, st.Last())
			}
			if err != nil {
				t.Errorf("%+v: %v", op, err)
				break
			}
			s := &survivors{t: t, st: st, trees: map[string]map[string]string{}}
			row, err := st.Workspace(ctx, m.ws)
			if err != nil {
				t.Fatal(err)
			}
			v, err := st.ViewOf(ctx, row)
			if err != nil {
				t.Fatal(err)
			}
			if have, want := s.tree(ctx, v), m.tree().show(); !maps.Equal(have, want) {
				t.Errorf("%s; of %q", apart(have, want), m.did[max(0, len(m.did)-12):])
				break
			}
		}
		if err := a.f.Close(); err != nil {
			t.Error(err)
		}
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}
}
