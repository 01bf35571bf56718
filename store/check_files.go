package store

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// The rules about the files of a store.
const (
	ruleFiles  = 60 // nothing but regular files and directories of one owner, which nobody else may use
	rulePack   = 61 // every pack has its header
	ruleBackup = 62 // the files of a backup are what they were
)

// CheckFiles is Check, and tests the store's directory as well: what kind of files are there, who may use them, that
// every pack is one, and that a backup is what it was when it was made.
func (s *Store) CheckFiles(ctx context.Context, report func(Problem)) error {
	if err := s.checkDir(report); err != nil {
		return err
	}
	if err := s.checkBackup(report); err != nil {
		return err
	}
	return s.Check(ctx, report)
}

func (s *Store) checkDir(report func(Problem)) error {
	var top syscall.Stat_t
	if err := syscall.Stat(s.dir, &top); err != nil {
		return fmt.Errorf("look at store %s: %w", s.dir, err)
	}
	problem := func(rule int, format string, args ...any) {
		report(Problem{Rule: rule, Text: fmt.Sprintf(format, args...)})
	}
	return filepath.WalkDir(s.dir, func(path string, d iofs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, os.ErrNotExist) {
				return nil // files come and go beside a writer
			}
			return err
		}
		info, err := d.Info()
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		switch mode := info.Mode(); {
		case path == s.dir:
			if mode.Perm()&0o077 != 0 {
				problem(ruleFiles, "others may use the store: its directory has mode %04o", mode.Perm())
			}
			return nil
		case path == filepath.Join(s.dir, "lost+found"):
			return filepath.SkipDir
		case !mode.IsRegular() && !mode.IsDir() && mode.Type() != os.ModeSocket:
			problem(ruleFiles, "%s is neither a file nor a directory (%v)", path, mode.Type())
		case ok && st.Uid != top.Uid:
			problem(ruleFiles, "%s belongs to user %d, the store to user %d", path, st.Uid, top.Uid)
		case mode.Perm()&0o022 != 0:
			problem(ruleFiles, "others may write to %s: it has mode %04o", path, mode.Perm())
		}
		if dir, name := filepath.Split(path); filepath.Clean(dir) == filepath.Join(s.dir, "packs") && strings.HasSuffix(name, ".pack") && info.Mode().IsRegular() {
			if err := s.blobs.CheckPack(name); err != nil && !errors.Is(err, os.ErrNotExist) {
				problem(rulePack, "%v", err)
			}
		}
		return nil
	})
}

// checkBackup compares the files of a backup with what its manifest says. A store that is no backup passes.
func (s *Store) checkBackup(report func(Problem)) error {
	m, err := ReadBackup(s.dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	problem := func(format string, args ...any) {
		report(Problem{Rule: ruleBackup, Text: fmt.Sprintf(format, args...)})
	}
	if err != nil {
		problem("%v", err)
		return nil
	}
	// Closing the file drops the locks that this process has on it through SQLite. Nobody writes to a backup, so there is
	// nobody whom they would keep out.
	sum, err := sumDatabase(s.dir, s.drv.File)
	if err != nil {
		return err
	}
	if sum != m.Database && (m.Next == nil || sum != *m.Next) {
		problem("the database is not the one that was written: %d bytes with hash %s, and not %d with %s",
			sum.Bytes, sum.Blake3, m.Database.Bytes, m.Database.Blake3)
	}
	for n, want := range m.Packs {
		st, err := os.Lstat(s.packPath(n))
		if err != nil {
			problem("a pack is missing: %v", err)
		} else if st.Size() < want {
			problem("pack %s has %d bytes, %d were written", s.packPath(n), st.Size(), want)
		}
	}
	return nil
}
