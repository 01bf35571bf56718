package versions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"wsfs/blob"
	"wsfs/store"
)

// LackError is a past state that cannot be gone back to as a whole: the bytes of some files are not kept any more, because of their class.
type LackError struct {
	Paths []string // the first of them
	Files int
	Why   *store.LetGoError // of one of them
}

func (e *LackError) Error() string {
	more := ""
	if e.Files > len(e.Paths) {
		more = ", ..."
	}
	return fmt.Sprintf("the bytes of %d of its files are not kept any more (%s%s): the class %s keeps its past only for a while (`wsfs class` shows for how long); "+
		"`wsfs rollback REVISION PATH...` and `wsfs restore` bring back the paths that are whole", e.Files, strings.Join(e.Paths, ", "), more, e.Why.Class)
}

// Unwrap makes errors.Is(err, syscall.ENODATA) true.
func (e *LackError) Unwrap() error { return e.Why }

// Whole refuses a state that lacks bytes with a *LackError.
func (p Place) Whole(ctx context.Context, st *store.Store) error {
	lack, err := p.lack(ctx, st, false)
	if err == nil && lack != nil {
		err = lack
	}
	return err
}

// lack is what a state lacks, nil if it is whole: the first five of its files, or all of them, with all their names.
func (p Place) lack(ctx context.Context, st *store.Store, all bool) (*LackError, error) {
	v, err := st.ViewAt(ctx, p.Timeline, p.Seq)
	if err != nil {
		return nil, err
	}
	inos, err := st.Lacks(ctx, v)
	if err != nil || len(inos) == 0 {
		return nil, err
	}
	slices.Sort(inos)
	ver, err := v.Version(ctx, inos[0])
	if err != nil {
		return nil, err
	}
	e := &LackError{Files: len(inos), Why: letGo(ctx, st, ver.Content)}
	if !all {
		inos = inos[:min(len(inos), 5)]
	}
	for _, ino := range inos {
		names, err := v.NamesOf(ctx, ino)
		if err != nil {
			return nil, err
		}
		for i, n := range names {
			dir := ""
			if n.Parent != store.RootIno {
				if dir, err = PathOf(ctx, v, n.Parent); err != nil {
					return nil, err
				}
				dir += "/"
			}
			if all || i == 0 {
				e.Paths = append(e.Paths, dir+n.Name)
			}
		}
	}
	slices.Sort(e.Paths)
	return e, nil
}

// letGo says why a content is not there; one that is just going has no time yet.
func letGo(ctx context.Context, st *store.Store, ref blob.Ref) *store.LetGoError {
	var e *store.LetGoError
	if _, err := st.Locate(ctx, ref); errors.As(err, &e) {
		return e
	}
	return &store.LetGoError{Ref: ref, Class: st.LetsGo(ref)}
}
