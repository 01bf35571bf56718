package daemon

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"wsfs/store"
	"wsfs/versions"
)

// place is how far a watch is.
type place struct {
	seq      store.Seq
	ref      int64
	conflict store.ConflictID
	resolved int64 // ns
}

func (p place) String() string {
	return fmt.Sprintf("%d.%d.%d.%d", p.seq, p.ref, p.conflict, p.resolved)
}

// placeOf is the place that the field `since` of an event says, or its id. An id says less: of the other streams all is told again that
// happened at the same moment or, should the clock have been set back, after it.
func placeOf(ctx context.Context, st *store.Store, ws *store.Workspace, since string) (place, error) {
	if what, n, ok := strings.Cut(since, ":"); ok {
		return placeAfter(ctx, st, ws, since, what, n)
	}
	parts := strings.Split(since, ".")
	if len(parts) == 3 { // of a program that did not tell of what is resolved
		parts = append(parts, "0")
	}
	var n [4]int64
	err := error(nil)
	for i := 0; i < len(parts) && len(parts) == len(n) && err == nil; i++ {
		n[i], err = strconv.ParseInt(parts[i], 10, 64)
		if n[i] < 0 {
			err = syscall.EINVAL
		}
	}
	if err != nil || len(parts) != len(n) {
		return place{}, noPlace(since, "give 0, now, or the field `since` or `id` of an event")
	}
	return place{store.Seq(n[0]), n[1], store.ConflictID(n[2]), n[3]}, nil
}

func noPlace(since, why string) error {
	return Fail(ExitUsage, "watch --since %q: %s: %w", since, why, syscall.EINVAL)
}

// placeAfter is the place after the event of an id.
func placeAfter(ctx context.Context, st *store.Store, ws *store.Workspace, since, what, number string) (place, error) {
	number, line, several := strings.Cut(number, "/")
	n, err := strconv.ParseInt(number, 10, 64)
	at, index := int64(0), 0
	if err == nil && several {
		index, err = strconv.Atoi(line)
	}
	if err != nil || n < 1 || index < 0 {
		return place{}, noPlace(since, "it is no id of an event")
	}
	here := func(p *place) {}
	switch what {
	case "moved":
		refs, err := st.RefsAfter(ctx, ws.ID, n-1, 1)
		if err != nil {
			return place{}, err
		}
		if len(refs) == 1 && refs[0].N == n {
			at, here = refs[0].At, func(p *place) { p.ref = n }
		}
	case "conflict", "resolved":
		rows, err := st.Conflicts(ctx, store.ConflictQuery{Workspace: ws.ID, ID: store.ConflictID(n), Resolved: true})
		if err != nil {
			return place{}, err
		}
		if len(rows) == 1 && what == "conflict" {
			at, here = rows[0].At, func(p *place) { p.conflict = rows[0].ID }
		} else if len(rows) == 1 {
			at = rows[0].ResolvedAt // what else was resolved then is told again
		}
	default:
		rows, err := st.ChangesAfter(ctx, ws.ID, store.Seq(n)-1, store.Seq(n), 1)
		if err != nil {
			return place{}, err
		}
		if len(rows) == 1 && strconv.FormatInt(int64(rows[0].Timeline), 10) == what {
			list, err := versions.NewStream(st).Change(ctx, rows[0])
			if err != nil {
				return place{}, err
			}
			at, here = rows[0].At, func(p *place) {
				if p.seq = rows[0].Seq - 1; index >= len(list)-1 {
					p.seq = rows[0].Seq
				}
			}
		}
	}
	if at == 0 {
		return place{}, noPlace(since, "the workspace has no such event, or has it no more")
	}
	f, err := st.FollowedAt(ctx, ws.ID, at)
	if err != nil {
		return place{}, err
	}
	p := place{f.Seq, f.Ref, f.Conflict, at - 1}
	here(&p)
	return p, nil
}
