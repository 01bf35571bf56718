package store

import (
	"context"
	"strings"
	"time"

	"wsfs/blob"
)

// Group is a group for tests that apply without the queue.
type Group struct {
	Ops                []*Op
	Blobs              []blob.Location
	JournalID, Applied int64
}

// ApplyGroup applies g.
func (s *Store) ApplyGroup(ctx context.Context, g Group) error {
	return s.applyGroup(ctx, &group{ops: g.Ops, blobs: g.Blobs, journalID: g.JournalID, applied: g.Applied})
}

// Fresh makes op the first to name its attribution.
func (op *Op) Fresh() *Op {
	var rows emitted
	op.fresh = rows.missing(op.Who)
	return op
}

// Queries are those whose plans matter, by name, with keys for n rows.
func Queries(n int) map[string]string {
	log := func(q ChangeQuery) string {
		query, _ := changesSQL(&q, 1, MaxSeq, 1)
		return query
	}
	b := newNameBatch(&Driver{})
	return map[string]string{
		"remove names":            b.gone.head + tuples(n, b.gone.cols) + b.gone.tail,
		"dir head":                sqlDirHead,
		"dir live":                withKeys(sqlDirLive, n, 4),
		"dir past":                withKeys(sqlDirPast, n, 4),
		"names live":              withKeys(sqlNamesLive, n, 5),
		"names past":              withKeys(sqlNamesPast, n, 5),
		"versions":                withKeys(sqlVersions, n, 3),
		"versions past":           withKeys(sqlVersionsPast, n, 4),
		"places":                  withKeys(sqlPlaces, n, 3),
		"newest":                  withKeys(sqlNewest, n, 3),
		"supersede":               strings.ReplaceAll(newVersionBatch(&Driver{}).older.head+tuples(n, 2)+")", "(?,?)", "(?,0,?)"),
		"version past":            sqlVersionPast,
		"state live":              "SELECT v.ino" + sqlStateLive,
		"state past":              "SELECT v.ino" + sqlStatePast,
		"newest past":             withKeys(sqlNewestPast, n, 3),
		"merge versions past":     sqlMergeVersionsPast,
		"all versions":            sqlAllVersions,
		"ino live":                withKeys(sqlInoLive, n, 4),
		"ino past":                withKeys(sqlInoPast, n, 4),
		"seq at":                  sqlSeqAt,
		"items":                   withKeys(sqlChangeItems(), n, 3),
		"inos in":                 sqlInosIn,
		"stands on":               sqlStandsOn,
		"based on":                sqlBasedOn,
		"version by id":           sqlVersionByID,
		"merge versions":          sqlMergeVersions,
		"merge live":              sqlMergeLive,
		"merge past":              sqlMergePast,
		"locate":                  sqlLocate,
		"locate in":               withKeys(sqlLocateIn, n, 2),
		"steps":                   sqlSteps,
		"log of steps by command": sqlStepsCommand,
		"log of steps by session": sqlStepsSession,
		"versions in":             sqlVersionsIn,
		"version at":              sqlVersionAt,
		"step ends":               sqlStepEnds,
		"step heads":              sqlStepHeads,
		"step items":              sqlStepItems,
		"step versions":           sqlStepVersions,
		"versions by id":          withKeys(sqlVersionsByID, n, 2),
		"has blobs":               withKeys(sqlHasBlobs, n, 2),
		"command stretch":         sqlCommandStretch,
		"undone":                  sqlUndone,
		"other before":            sqlOtherBefore,
		"log":                     log(ChangeQuery{}),
		"log of session":          log(ChangeQuery{Session: 1}),
		"log of command":          log(ChangeQuery{Command: 1}),
		"log of inode":            log(ChangeQuery{Ino: 1}),
		"log of name":             log(ChangeQuery{Parent: 1, Name: "x"}),
		"log of directory":        log(ChangeQuery{Parent: 1}),
	}
}

// LogSize is the size of the database's own log.
func (s *Store) LogSize() int64 { return s.drv.LogSize(s.dir) }

// SetCrashPoint has f called at the fault points.
func (o *Options) SetCrashPoint(f func(point string)) { o.crashPoint = f }

// Checkpoint folds the database's log in and says how many bytes of it are left; force empties it.
func (s *Store) Checkpoint(ctx context.Context, force bool) (int64, error) {
	wait := time.Duration(0)
	if force {
		wait = patience
	}
	return s.checkpoint(ctx, wait)
}

// Exec changes the database behind the store's back.
func (s *Store) Exec(ctx context.Context, query string, args ...any) error {
	return s.w.tx(ctx, func(ctx context.Context) error {
		_, err := s.w.exec(ctx, query, args...)
		return err
	})
}

// Count is the result of a query for one number.
func (s *Store) Count(ctx context.Context, query string, args ...any) (n int64, err error) {
	_, err = scanAll(ctx, s.r, 1, query, args, func(c *cells) error {
		n = c.int(0)
		return nil
	})
	return n, err
}

// Rules are the numbers of all rules of Check.
func Rules() []int {
	rules := []int{
		ruleIntegrity, ruleChain, ruleOverlap, ruleTombstone, ruleGap, ruleBadName, ruleNoVersion, ruleType, ruleNlink,
		ruleDirNlink, ruleDirNames, ruleOrphan, ruleLostNames, ruleTree, ruleBytes, ruleStretch, ruleSegment, ruleCounter,
	}
	for _, r := range queryRules() {
		rules = append(rules, r.rule)
	}
	return rules
}

// FileRules are the numbers of the rules that CheckFiles tests and Check does not.
func FileRules() []int { return []int{ruleFiles, rulePack, ruleBackup} }
