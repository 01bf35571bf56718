package versions

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"syscall"

	"wsfs/store"
)

// place is where an inode was: the directory it was in and its name there.
type place struct {
	parent store.Ino
	name   string
}

// places finds the paths of inodes while a log walks back in time. What it learnt from the database stays valid as long
// as every change is shown to it (step); after a jump it must forget.
type places struct {
	st      *store.Store
	dirs    map[store.Ino]place
	row     *store.ChangeRow
	view    *store.View         // at row, made when first needed
	removed map[store.Ino]place // directories that row itself removed
}

func newPlaces(st *store.Store) *places {
	return &places{st: st, dirs: map[store.Ino]place{}}
}

// at moves to the state right after row.
func (p *places) at(row *store.ChangeRow) {
	p.row, p.view, p.removed = row, nil, nil
	for i := range row.Items {
		if it := &row.Items[i]; it.Op == store.OpRmdir || gone(it) {
			if p.removed == nil {
				p.removed = map[store.Ino]place{}
			}
			p.removed[it.Ino] = place{it.Parent, it.Name}
		}
	}
}

func gone(it *store.ChangeItem) bool { return it.Version != nil && it.Version.Nlink == 0 }

func (p *places) forget() { clear(p.dirs) }

// step takes row back: from here on the walk is at the state before it.
func (p *places) step(row *store.ChangeRow) {
	for i := len(row.Items) - 1; i >= 0; i-- {
		it := &row.Items[i]
		switch {
		case it.FromName != "":
			p.dirs[it.Ino] = place{it.FromParent, it.FromName}
		case it.Op == store.OpRmdir:
			p.dirs[it.Ino] = place{it.Parent, it.Name}
		default:
			// Born here, or moved in a way that the item does not tell.
			delete(p.dirs, it.Ino)
		}
	}
}

// path is the path of name in the directory parent at the current state, and the directories it leads through, from
// the parent up to the root. What cannot be found any more is shown as a number.
func (p *places) path(ctx context.Context, parent store.Ino, name string) (string, []store.Ino, error) {
	parts := []string{name}
	var chain []store.Ino
	for dir := parent; ; {
		chain = append(chain, dir)
		if dir == store.RootIno {
			break
		}
		at, err := p.place(ctx, dir)
		if errors.Is(err, syscall.ENOENT) || len(chain) > MaxPath {
			parts = append(parts, "#"+strconv.FormatUint(uint64(dir), 10))
			break
		}
		if err != nil {
			return "", nil, err
		}
		parts = append(parts, at.name)
		dir = at.parent
	}
	for i, j := 0, len(parts)-1; i < j; i, j = i+1, j-1 {
		parts[i], parts[j] = parts[j], parts[i]
	}
	return strings.Join(parts, "/"), chain, nil
}

func (p *places) place(ctx context.Context, dir store.Ino) (place, error) {
	if at, ok := p.dirs[dir]; ok {
		return at, nil
	}
	if at, ok := p.removed[dir]; ok {
		return at, nil
	}
	if p.view == nil {
		v, err := p.st.ViewAt(ctx, p.row.Timeline, p.row.Seq)
		var gone *store.CollectedError
		if errors.As(err, &gone) && gone.After != 0 { // the next one that is kept knows most of it
			v, err = p.st.ViewAt(ctx, gone.Timeline, gone.After)
		}
		if err != nil {
			return place{}, err
		}
		p.view = v
	}
	names, err := p.view.NamesOf(ctx, dir)
	if err != nil {
		return place{}, err
	}
	if len(names) == 0 {
		return place{}, syscall.ENOENT
	}
	at := place{names[0].Parent, names[0].Name}
	p.dirs[dir] = at
	return at, nil
}
