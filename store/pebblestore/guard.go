package pebblestore

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/abidehq/abide/internal/base"
)

// guardFS is the file system as Pebble sees it.
//
// When Pebble cannot write its log, its list of files or its options, it panics, partly
// in goroutines and with locks held, where no caller can recover; or it stops opening the
// database and frees what goroutines that it has started still use. So such an error
// never reaches Pebble: the store fails, and the goroutine blocks for good, before it takes
// a lock that readers need. Errors of tables are Pebble's to handle, and so are those of
// reading.
//
// Pebble also relies on the entries of a directory reaching the disk in the order in
// which they were made, which some file systems do not guarantee. A marker file names the
// current list of files: so what it names is made durable before the marker is created,
// and the new marker before the old one is removed.
//
// In a goroutine that is blocked for good, deferred functions do not run and locks
// that it holds are not released: so failing must come before Pebble takes a lock
// that readers need, and Close of a failed store does not wait for Pebble.
//
// What is guarded, by the kind of file:
//
//	tables (.sst)       not guarded: Pebble retries, and throttle slows it down
//	files of a backup   not guarded: an error fails the backup, not the store
//	directories         sync succeeds, or does not return
//	everything else     create, write, sync, stat, close and rename succeed, or
//	                    do not return
type guardFS struct {
	vfs.FS
	fail   func(error)     // makes the store fail; takes the store's mutex
	failed <-chan struct{} // closed when the store has failed

	backup           atomic.Pointer[string] // the folder of the backup under way, or nil
	wrote            atomic.Bool            // Pebble has begun to write, so that goroutines of it may run
	backgroundErrors atomic.Int32           // failed flushes and compactions in a row
}

// Pebble retries at once, and without end, when it cannot write a table. guardFS delays each
// retry by backgroundErrorPause, and after maxBackgroundErrors in a row, some seconds, the
// store fails: until then, commits that need a new memtable wait.
const (
	maxBackgroundErrors  = 50
	backgroundErrorPause = 100 * time.Millisecond
)

// guard puts a guardFS between Pebble and the file system, and counts background errors.
func (s *Store) guard(o *pebble.Options) {
	g := &guardFS{FS: o.FS, fail: s.fail, failed: s.failed}
	o.FS, s.guarded = g, g
	listener := pebble.TeeEventListener(*o.EventListener, pebble.EventListener{
		BackgroundError: func(err error) {
			if g.backgroundErrors.Add(1) == maxBackgroundErrors {
				go g.fail(fmt.Errorf("background work has failed too often: %w", err))
			}
		},
		FlushEnd:      func(info pebble.FlushInfo) { g.backgroundDone(info.Err) },
		CompactionEnd: func(info pebble.CompactionInfo) { g.backgroundDone(info.Err) },
	})
	o.EventListener = &listener
}

func (g *guardFS) backgroundDone(err error) {
	if err == nil {
		g.backgroundErrors.Store(0)
	}
}

// throttle delays the creation of a table after background errors, and blocks any creation
// for good when the store has failed.
func (g *guardFS) throttle(name string) {
	g.wrote.Store(true)
	if g.backgroundErrors.Load() > 0 && isTable(name) {
		over := make(chan struct{})
		stop := base.System{}.AfterFunc(backgroundErrorPause, func() { close(over) })
		select {
		case <-over:
		case <-g.failed:
			stop()
		}
	}
	select {
	case <-g.failed:
		select {}
	default:
	}
}

// isTable reports whether a file is a table, without which Pebble can continue: it keeps the
// memtable, or the tables that were to be merged.
func isTable(name string) bool { return strings.HasSuffix(name, ".sst") }

// isMarker reports whether a file is one of those whose name says which list of files, and
// which format, is the current one.
func (g *guardFS) isMarker(name string) bool {
	return strings.HasPrefix(g.PathBase(name), "marker.")
}

// inBackup reports whether a file or a folder belongs to a backup, or is the folder that the
// backup is in. Its errors are those of the backup, and not of the store.
func (g *guardFS) inBackup(name string) bool {
	backup := g.backup.Load()
	return backup != nil && (name == *backup || g.PathDir(name) == *backup || name == g.PathDir(*backup))
}

// MkdirAll makes a folder. That of a backup is for its owner alone, and is marked as one that
// is not finished before anything else is in it.
func (g *guardFS) MkdirAll(dir string, perm os.FileMode) error {
	if backup := g.backup.Load(); backup == nil || dir != *backup {
		return g.FS.MkdirAll(dir, perm)
	}
	if err := g.FS.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return markUnfinished(g.FS, dir)
}

// check does not return if err is one that Pebble must not see.
func (g *guardFS) check(verb, name string, err error) error {
	if err != nil && !isTable(name) && !g.inBackup(name) {
		g.stop(verb, name, err)
	}
	return err
}

// stop makes the store fail, and does not return.
func (g *guardFS) stop(verb, name string, err error) {
	go g.fail(fmt.Errorf("%s %s: %w", verb, name, err)) // not here, where Pebble may hold a lock
	select {}
}

// syncDir makes all entries of the directory of a file durable.
func (g *guardFS) syncDir(name string) error {
	dir, err := g.OpenDir(g.PathDir(name))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Create makes a file; before a marker, what it names is made durable.
func (g *guardFS) Create(name string, category vfs.DiskWriteCategory) (f vfs.File, err error) {
	g.throttle(name)
	if g.isMarker(name) {
		err = g.syncDir(name)
	}
	if err == nil {
		f, err = g.FS.Create(name, category)
	}
	return g.wrap("create", name, f, err)
}

// ReuseForWrite makes a file out of another.
func (g *guardFS) ReuseForWrite(oldName, newName string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := g.FS.ReuseForWrite(oldName, newName, category)
	return g.wrap("create", newName, f, err)
}

// Remove removes a file; before a marker, the one that replaces it is made durable.
func (g *guardFS) Remove(name string) error {
	if g.isMarker(name) {
		if err := g.syncDir(name); err != nil {
			return err
		}
	}
	return g.FS.Remove(name)
}

// Rename renames a file.
func (g *guardFS) Rename(oldName, newName string) error {
	return g.check("rename", oldName, g.FS.Rename(oldName, newName))
}

// List lists a directory. Before Pebble has written anything an error is harmless, and is what
// Open returns.
func (g *guardFS) List(name string) ([]string, error) {
	files, err := g.FS.List(name)
	if g.wrote.Load() {
		err = g.check("list", name, err)
	}
	return files, err
}

// OpenDir opens a directory, whose sync succeeds or does not return.
func (g *guardFS) OpenDir(name string) (vfs.File, error) {
	f, err := g.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	if g.inBackup(name) {
		return f, nil
	}
	return &guardDir{f, g, name}, nil
}

// Unwrap returns the file system below.
func (g *guardFS) Unwrap() vfs.FS { return g.FS }

// wrap guards a new file, unless it is a table or belongs to a backup.
func (g *guardFS) wrap(verb, name string, f vfs.File, err error) (vfs.File, error) {
	if err := g.check(verb, name, err); err != nil {
		return nil, err
	}
	if isTable(name) || g.inBackup(name) {
		return f, nil
	}
	return &guardFile{f, g, name}, nil
}

// guardDir is a directory other than that of a backup.
type guardDir struct {
	vfs.File
	guard *guardFS
	name  string
}

// Sync makes the entries of the directory durable, or the store fail.
func (d *guardDir) Sync() error {
	if err := d.File.Sync(); err != nil {
		d.guard.stop("sync", d.name, err)
	}
	return nil
}

// guardFile is a file without which Pebble cannot continue.
type guardFile struct {
	vfs.File
	guard *guardFS
	name  string
}

// Write writes, or makes the store fail.
func (f *guardFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	return n, f.guard.check("write", f.name, err)
}

// Sync syncs, or makes the store fail.
func (f *guardFile) Sync() error { return f.guard.check("sync", f.name, f.File.Sync()) }

// SyncData syncs, or makes the store fail.
func (f *guardFile) SyncData() error { return f.guard.check("sync", f.name, f.File.SyncData()) }

// SyncTo syncs, or makes the store fail.
func (f *guardFile) SyncTo(length int64) (bool, error) {
	full, err := f.File.SyncTo(length)
	return full, f.guard.check("sync", f.name, err)
}

// Stat asks about the file, or makes the store fail.
func (f *guardFile) Stat() (vfs.FileInfo, error) {
	info, err := f.File.Stat()
	return info, f.guard.check("stat", f.name, err)
}

// Close closes the file, or makes the store fail.
func (f *guardFile) Close() error { return f.guard.check("close", f.name, f.File.Close()) }
