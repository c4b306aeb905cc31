package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/abidehq/abide/store"
)

const (
	// backupName is the file that marks a folder as a backup. Its first line is backupBegun
	// or backupDone.
	backupName = "BACKUP"
	backupTemp = "BACKUP.new"

	backupBegun = "unfinished"
	backupDone  = "finished"

	// partialEnding is what the name of a folder ends with while a backup is written to it.
	partialEnding = ".partial"
)

var _ store.Backuper = (*Store)(nil)

// Backup writes the state of the store at one moment during the call to a new folder. It has
// everything that was committed before the call. Commits continue meanwhile. Tables are hard
// links, if the folder is on the same file system, and copies if it is not.
//
// The folder has the name dir + ".partial" until it is complete. It is marked, before
// anything else is in it, as an unfinished backup, and at the end as a finished one: [Open]
// refuses both, the second unless it is opened for inspection. An error removes the folder
// and does not affect the store. What a killed process has left must be removed by hand.
//
// In this order, so that a crash at any point leaves nothing that could be taken for a
// store or for a finished backup:
//
//	the folder, with BACKUP "unfinished"    synced (guardFS.MkdirAll)
//	checkpoint of Pebble                    tables, list of files, log
//	ATTEMPTS, LOCK, BACKUP.new "finished"   synced
//	SEAL                                    synced, with the directory
//	BACKUP.new renamed to BACKUP            directory synced
//	dir.partial renamed to dir              parent synced
func (s *Store) Backup(ctx context.Context, dir string) error {
	release, err := s.read(ctx, "backup")
	if err != nil {
		return err
	}
	defer release()
	if !s.backup.TryLock() {
		return fmt.Errorf("pebblestore: backup: another backup is under way: %w", store.ErrInUse)
	}
	defer s.backup.Unlock()
	dir, err = s.backupDir(dir)
	if err == nil {
		err = s.writeBackup(ctx, dir)
	}
	if err != nil && !errors.Is(err, store.ErrFailed) {
		err = fmt.Errorf("pebblestore: backup to %s: %w", dir, err)
	}
	return err
}

// backupDir returns the absolute name of a folder for a backup, without symbolic links, or
// [store.ErrInvalid] if it exists, is inside the store, or has no parent.
func (s *Store) backupDir(dir string) (string, error) {
	parent := s.fs.PathDir(dir)
	if s.fs == disk {
		abs, err := filepath.Abs(dir)
		if err == nil {
			parent, err = filepath.EvalSymlinks(filepath.Dir(abs))
		}
		switch {
		case isNotExist(err):
			return dir, fmt.Errorf("the folder %s does not exist: %w", filepath.Dir(abs), store.ErrInvalid)
		case err != nil:
			return dir, err
		}
		dir = filepath.Join(parent, filepath.Base(abs))
	}
	if dir == s.dir || strings.HasPrefix(dir, s.dir+string(filepath.Separator)) {
		return dir, fmt.Errorf("it is inside the store, %s: %w", s.dir, store.ErrInvalid)
	}
	for _, name := range []string{dir, dir + partialEnding} {
		_, err := s.fs.Stat(name)
		switch {
		case err == nil && name != dir:
			return dir, fmt.Errorf("%s exists, where a backup was not finished or is under way; remove it, or name another folder: %w", name, store.ErrInvalid)
		case err == nil:
			return dir, fmt.Errorf("it exists; name a folder that does not: %w", store.ErrInvalid)
		case !isNotExist(err):
			return dir, err
		}
	}
	return dir, nil
}

// writeBackup writes a backup to a folder that does not exist.
func (s *Store) writeBackup(ctx context.Context, dir string) (err error) {
	partial := dir + partialEnding
	s.mu.Lock()
	began := store.FromMillis(s.now())
	attempts := s.attempts.entries(nil)
	s.mu.Unlock()
	defer func() {
		if err != nil && !errors.Is(err, store.ErrFailed) { // after a failure Pebble may still write to it
			err = errors.Join(err, s.fs.RemoveAll(partial))
		}
	}()
	if err := s.checkpoint(partial); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	path := func(name string) string { return s.fs.PathJoin(partial, name) }
	mark := fmt.Sprintf("%s\nstore %s\ntime %s\n", backupDone, s.dir, began.UTC().Format("2006-01-02T15:04:05.000Z"))
	for _, file := range []struct{ name, content string }{{journalName, string(attempts)}, {"LOCK", ""}, {backupTemp, mark}} {
		if err := writeSynced(s.fs, path(file.name), []byte(file.content)); err != nil {
			return err
		}
	}
	if err := sealDir(s.fs, partial); err != nil { // and all is durable
		return err
	}
	if err := s.fs.Rename(path(backupTemp), path(backupName)); err != nil {
		return err
	}
	if err := syncDir(s.fs, partial); err != nil {
		return err
	}
	if err := s.fs.Rename(partial, dir); err != nil {
		return err
	}
	return syncDir(s.fs, s.fs.PathDir(dir))
}

// checkpoint makes Pebble write a checkpoint to a folder. If the store fails meanwhile, the
// goroutine may be blocked for good, so its result is not awaited.
func (s *Store) checkpoint(dir string) error {
	s.guarded.backup.Store(&dir)
	done := make(chan error, 1)
	go func() {
		done <- checkpoint(s.db, dir)
	}()
	select {
	case err := <-done:
		s.guarded.backup.Store(nil)
		return err
	case <-s.failed:
		return s.failure
	}
}

// checkpoint makes Pebble write a checkpoint to a folder. Pebble panics with the error if it
// cannot sync the folder, and has released its locks by then.
func checkpoint(db *pebble.DB, dir string) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			var ok bool
			if err, ok = cause.(error); !ok {
				panic(cause)
			}
		}
	}()
	return db.Checkpoint(dir, pebble.WithFlushedWAL())
}

// markUnfinished marks a folder as an unfinished backup.
func markUnfinished(fs vfs.FS, dir string) error {
	if err := writeSynced(fs, fs.PathJoin(dir, backupName), []byte(backupBegun+"\n")); err != nil {
		return err
	}
	return syncDir(fs, dir)
}

// checkBackup returns [store.ErrIncomplete] if the folder is an unfinished backup, and
// [store.ErrBackup] if it is a finished one that is not to be inspected: a program that
// worked on a backup would do again what was done since.
func (s *Store) checkBackup(inspect bool) error {
	f, err := s.fs.Open(s.fs.PathJoin(s.dir, backupName))
	if isNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	b, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	state, rest, _ := strings.Cut(strings.TrimSpace(string(b)), "\n")
	switch {
	case state != backupDone:
		return fmt.Errorf("it is a backup that was not finished, and is of no use: %w", store.ErrIncomplete)
	case !inspect:
		return fmt.Errorf("it is a backup (%s); open it with inspect=true to read it, or make it a store again with: abide store restore %s: %w",
			strings.ReplaceAll(rest, "\n", ", "), s.dir, store.ErrBackup)
	}
	return nil
}

// Restore makes the backup in a folder a store that can be opened. It returns
// [store.ErrInvalid] if the folder is not a backup, and [store.ErrIncomplete] if it is one
// that is not finished.
func Restore(ctx context.Context, dir string, o Options) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s := newStore(dir, o)
	if _, err := s.fs.Stat(s.fs.PathJoin(dir, backupName)); isNotExist(err) { // and no folder is made
		return fmt.Errorf("pebblestore: restore %s: it is not a backup: %w", dir, store.ErrInvalid)
	}
	if err := s.lockDir(); err != nil {
		return err
	}
	err := s.checkBackup(true)
	if err == nil {
		err = s.fs.Remove(s.fs.PathJoin(s.dir, backupName))
	}
	if err == nil {
		err = syncDir(s.fs, s.dir)
	}
	if err != nil {
		err = fmt.Errorf("pebblestore: restore %s: %w", s.dir, err)
	}
	return errors.Join(err, s.dirLock.Close())
}
