package store

import (
	"context"
	iofs "io/fs"
	"path/filepath"
	"strings"

	"wsfs/blob"
)

// Usage says what the bytes of a store's files are. Every stored byte of content counts once, where it is needed most: for the
// present, else for history, else for dropped workspaces. The parts add up to Total, which is the size of the files.
type Usage struct {
	Total      int64 `json:"total"`
	Live       int64 `json:"live"`       // content of what workspaces show now
	History    int64 `json:"history"`    // content of past states only
	Dropped    int64 `json:"dropped"`    // content of dropped workspaces only
	Unneeded   int64 `json:"unneeded"`   // content that nothing names: `wsfs gc` removes it
	PackWaste  int64 `json:"pack_waste"` // of packs: headers, and what was removed
	Rows       int64 `json:"rows"`       // the database without content and without what is free
	Free       int64 `json:"free"`       // of the database: used again
	Log        int64 `json:"log"`        // the database's own log
	Journal    int64 `json:"journal"`
	Other      int64 `json:"other"` // logs, caches, locks
	Versions   int64 `json:"versions"`
	Changes    int64 `json:"changes"`
	LiveFiles  int64 `json:"live_files"`  // versions that are shown now
	Pinned     int64 `json:"pinned"`      // states before what is complete that are kept for tags, forks, mounts
	PolicyKept int64 `json:"policy_kept"` // and for the policy
	// Classes are the parts of History by the class of the path. What LetGo counts has no bytes any more: versions that stay without.
	Classes map[PathClass]int64 `json:"classes"`
	LetGo   int64               `json:"let_go"`
}

// UsageOf is the history of one inode.
type UsageOf struct {
	Timeline  TimelineID
	Ino       Ino
	Workspace WorkspaceID // whose history it is, 0 if unknown
	Dropped   bool
	Bytes     int64 // stored, of content that is not shown now
	Versions  int64
}

// Usage works out what the bytes are, and calls each for every inode with a history. It reads all versions and the nodes of
// all large contents, and keeps 50 bytes of memory for each content.
func (s *Store) Usage(ctx context.Context, each func(UsageOf)) (Usage, error) {
	return s.usage(ctx, each, func(context.Context) error { return nil })
}

// usage calls pause now and then, with no lock held; its error is the end.
func (s *Store) usage(ctx context.Context, each func(UsageOf), pause func(context.Context) error) (Usage, error) {
	d := &du{s: s, pause: pause, sizes: make(map[markKey]int64), owner: make(map[TimelineID]WorkspaceID), gone: make(map[WorkspaceID]bool)}
	d.u.Classes = map[PathClass]int64{}
	var err error
	if d.rules, _, err = s.Classes(ctx); err == nil {
		err = d.run(ctx, each)
	}
	return d.u, s.dbError("work out what the store's bytes are", err)
}

// du is one run of Usage.
type du struct {
	s     *Store
	u     Usage
	sizes map[markKey]int64 // stored bytes of contents that nothing was counted for yet; in packs with their headers
	inDB  int64             // bytes of contents in the database
	packs int64             // bytes of contents in packs
	owner map[TimelineID]WorkspaceID
	gone  map[WorkspaceID]bool
	rules Classes
	pause func(context.Context) error
}

func (d *du) run(ctx context.Context, each func(UsageOf)) error {
	for _, step := range []func(context.Context) error{d.blobs, d.owners, d.live} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	for _, dropped := range []bool{false, true} {
		if err := d.history(ctx, dropped, each); err != nil {
			return err
		}
	}
	for _, n := range d.sizes {
		d.u.Unneeded += n
	}
	for _, c := range []struct {
		query string
		n     *int64
	}{
		{`SELECT count(*) FROM file_version WHERE origin_timeline_id = 0`, &d.u.Versions}, {`SELECT count(*) FROM change`, &d.u.Changes},
		{`SELECT count(*) FROM content_gone n WHERE NOT EXISTS (SELECT 1 FROM blob b WHERE b.hash = n.hash)`, &d.u.LetGo},
		{`SELECT count(*) FROM pin p JOIN timeline t ON t.id = p.timeline_id WHERE p.seq < t.gc_seq AND p.kind = '` + PinRetained + `'`, &d.u.PolicyKept},
		{`SELECT count(*) FROM (SELECT timeline_id, seq FROM tag UNION SELECT timeline_id, seq FROM pin WHERE kind <> '` + PinRetained + `'
			UNION SELECT base_timeline_id, base_seq FROM workspace) p JOIN timeline t ON t.id = p.timeline_id WHERE p.seq < t.gc_seq`, &d.u.Pinned},
	} {
		if _, err := scanAll(ctx, d.s.r, 1, c.query, nil, func(cl *cells) error {
			*c.n = cl.int(0)
			return nil
		}); err != nil {
			return err
		}
	}
	return d.files(ctx)
}

func (d *du) blobs(ctx context.Context) error {
	_, err := scanAll(ctx, d.s.r, 3, `SELECT hash, pack, COALESCE(length(data), pack_length) FROM blob`, nil, func(c *cells) error {
		n := c.int(2)
		if c.int(1) != 0 {
			n += recordOverhead
			d.packs += n
		} else {
			d.inDB += n
		}
		r := c.ref(0)
		d.sizes[markKey(r[:16])] = n
		return c.bad
	})
	return err
}

// owners finds out whose history each timeline is: the workspace that stood on it first.
func (d *du) owners(ctx context.Context) error {
	if _, err := scanAll(ctx, d.s.r, 2, `SELECT id, dropped_at FROM workspace`, nil, func(c *cells) error {
		d.gone[WorkspaceID(c.int(0))] = !c.null(1)
		return nil
	}); err != nil {
		return err
	}
	_, err := scanAll(ctx, d.s.r, 2, `SELECT timeline_id, workspace_id FROM workspace_ref WHERE timeline_id IS NOT NULL ORDER BY at DESC`, nil,
		func(c *cells) error {
			d.owner[TimelineID(c.int(0))] = WorkspaceID(c.int(1))
			return nil
		})
	return err
}

// take counts a content and all that belongs to it, as far as it was not counted.
func (d *du) take(ctx context.Context, c blob.Content) (n int64, err error) {
	one := func(r blob.Ref) {
		k := markKey(r[:16])
		n += d.sizes[k]
		delete(d.sizes, k)
	}
	if c.Ref.IsZero() {
		return 0, nil
	}
	if c.Size <= blob.MaxBlob {
		one(c.Ref)
		return n, nil
	}
	err = d.s.blobs.Walk(ctx, c, func(r blob.Ref) error {
		if _, fresh := d.sizes[markKey(r[:16])]; !fresh && r == c.Ref {
			return iofs.SkipDir // counted with another version
		}
		one(r)
		return nil
	})
	if err != nil && ctx.Err() == nil {
		err = nil // damaged: what cannot be read is nothing's
	}
	return n, err
}

// live counts what workspaces show now.
func (d *du) live(ctx context.Context) error {
	return d.s.shown(ctx, func(_ VersionID, c blob.Content) error {
		if d.u.LiveFiles++; d.u.LiveFiles%gcChunk == 0 {
			if err := d.pause(ctx); err != nil {
				return err
			}
		}
		n, err := d.take(ctx, c)
		d.u.Live += n
		return err
	})
}

// shown calls fn with every version that a workspace shows now, once.
func (s *Store) shown(ctx context.Context, fn func(VersionID, blob.Content) error) error {
	spaces, err := s.Workspaces(ctx)
	if err != nil {
		return err
	}
	seen := make(map[VersionID]bool)
	for _, ws := range spaces {
		v, err := s.ViewOf(ctx, ws)
		if err != nil {
			return err
		}
		if err := s.shownIn(ctx, v, func(_ Ino, id VersionID, c blob.Content) error {
			if seen[id] {
				return nil
			}
			seen[id] = true
			return fn(id, c)
		}); err != nil {
			return err
		}
	}
	return nil
}

// shownIn calls fn with every version that a state shows.
func (s *Store) shownIn(ctx context.Context, v *View, fn func(Ino, VersionID, blob.Content) error) error {
	type row struct {
		ino Ino
		id  VersionID
		c   blob.Content
	}
	done := make(map[Ino]bool)
	for _, seg := range v.path {
		var list []row
		query, args := stateOf(`v.ino, v.version_id, v.nlink, v.content_hash, v.size`, seg)
		if _, err := scanAll(ctx, s.r, 5, query, args, func(c *cells) error {
			ino, id := Ino(c.int(0)), VersionID(c.int(1))
			if done[ino] {
				return nil
			}
			if done[ino] = true; c.int(2) == 0 {
				return nil
			}
			list = append(list, row{ino, id, blob.Content{Ref: c.ref(3), Size: c.int(4)}})
			return c.bad
		}); err != nil {
			return err
		}
		for _, r := range list {
			if err := fn(r.ino, r.id, r.c); err != nil {
				return err
			}
		}
	}
	return nil
}

// sqlPastContents goes along the versions of a timeline by inode, those of now and those of before together.
const sqlPastContents = `SELECT v.ino, v.seq, v.content_hash, v.size, v.origin_timeline_id FROM file_version v
	WHERE v.timeline_id = ? AND v.past = 0 AND (v.ino, v.seq) > (?, ?)
	UNION ALL SELECT w.ino, w.seq, w.content_hash, w.size, w.origin_timeline_id FROM file_version w
	WHERE w.timeline_id = ? AND w.past = 1 AND (w.ino, w.seq) > (?, ?) ORDER BY 1, 2 LIMIT ?`

// history counts what is left of other versions: those of dropped workspaces, or of the others.
func (d *du) history(ctx context.Context, dropped bool, each func(UsageOf)) error {
	list, err := timelineRows(ctx, d.s.r)
	if err != nil {
		return err
	}
	for _, t := range list {
		ws := d.owner[t.ID]
		if gone, known := d.gone[ws]; (gone || !known) != dropped {
			continue
		}
		names := &pastNames{q: d.s.r, path: append([]Segment{{t.ID, MaxSeq}}, t.Chain...)}
		if err := d.past(ctx, names, UsageOf{Timeline: t.ID, Workspace: ws, Dropped: dropped}, each); err != nil {
			return err
		}
	}
	return nil
}

// past counts what is left of the versions of one timeline; like says whose it is.
func (d *du) past(ctx context.Context, names *pastNames, like UsageOf, each func(UsageOf)) error {
	of := like
	flush := func() {
		if of.Versions > 0 && each != nil {
			each(of)
		}
	}
	var ino, seq int64
	for n := gcChunk; n == gcChunk; {
		n = 0
		type row struct {
			i Ino
			s Seq
			c blob.Content
		}
		var page []row
		if err := d.pause(ctx); err != nil {
			return err
		}
		if _, err := scanAll(ctx, d.s.r, 5, sqlPastContents, []any{int64(like.Timeline), ino, seq, int64(like.Timeline), ino, seq, int64(gcChunk)},
			func(c *cells) error {
				n++
				ino, seq = c.int(0), c.int(1)
				if c.int(4) == 0 {
					page = append(page, row{Ino(ino), Seq(seq), blob.Content{Ref: c.ref(2), Size: c.int(3)}})
				}
				return c.bad
			}); err != nil {
			return err
		}
		for _, r := range page {
			if of.Ino != r.i {
				flush()
				of = like
				of.Ino = r.i
			}
			b, err := d.take(ctx, r.c)
			if err != nil {
				return err
			}
			of.Bytes += b
			of.Versions++
			if like.Dropped {
				d.u.Dropped += b
				continue
			}
			d.u.History += b
			if b > 0 {
				paths, err := names.during(ctx, r.i, r.s, r.s+1)
				if err != nil {
					return err
				}
				d.u.Classes[d.rules.ofAny(paths)] += b
			}
		}
	}
	flush()
	return nil
}

// files takes the sizes of the files, and what is left of them when the contents are counted.
func (d *du) files(ctx context.Context) error {
	var db, packs int64
	err := filepath.WalkDir(d.s.dir, func(path string, e iofs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil // files come and go
		}
		info, err := e.Info()
		if err != nil {
			return nil
		}
		d.u.Total += info.Size()
		rel, _ := filepath.Rel(d.s.dir, path) // both are absolute
		switch dir, _, _ := strings.Cut(rel, string(filepath.Separator)); {
		case dir == "packs":
			packs += info.Size()
		case dir == "journal":
			d.u.Journal += info.Size()
		case rel == "wsfs.db":
			db = info.Size()
		case strings.HasPrefix(rel, "wsfs.db-"):
			d.u.Log += info.Size()
		default:
			d.u.Other += info.Size()
		}
		return nil
	})
	if err != nil {
		return err
	}
	if d.u.Free, err = d.s.freeBytes(ctx); err != nil {
		return err
	}
	d.u.PackWaste = packs - d.packs
	d.u.Rows = db - d.u.Free - d.inDB
	return nil
}
