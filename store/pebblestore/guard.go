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
// When Pebble cannot write its log, its list of files or its options, it panics, some
// of it in goroutines and with locks where nothing can be done about it, or it stops
// opening the database and takes away what goroutines that it has started still use.
// So such an error never gets there: the store fails, and the goroutine stays where
// it is for good, before it takes a lock that readers need. Errors of tables are
// Pebble's to handle, and so are those of reading.
//
// Pebble also counts on the entries of a directory reaching the disk in the order in
// which they were made, which some file systems do not promise. A marker names the
// list of files that counts: so what it names is made durable before the marker is
// there, and the marker before the one that it replaces is gone.
//
// In a goroutine that stays where it is, deferred functions do not run and locks
// that it holds are not released: so failing must come before Pebble takes a lock
// that readers need, and Close of a failed store does not wait for Pebble.
type guardFS struct {
	vfs.FS
	fail   func(error)
	failed <-chan struct{}

	backup   atomic.Pointer[string] // the folder that a backup is written to, if there is one
	wrote    atomic.Bool            // something was written, so goroutines may have been started
	troubles atomic.Int32           // how often in a row something in the background has failed
}

// Pebble tries again at once, and without end, when it cannot write a table. It has
// to wait a little each time, and after a while the store fails: until then, commits
// wait for room in memory.
const (
	maxTroubles  = 50
	troublePause = 100 * time.Millisecond
)

// guard puts itself between Pebble and the file system.
func (s *Store) guard(o *pebble.Options) {
	g := &guardFS{FS: o.FS, fail: s.fail, failed: s.failed}
	o.FS, s.guarded = g, g
	listener := pebble.TeeEventListener(*o.EventListener, pebble.EventListener{
		BackgroundError: func(err error) {
			if g.troubles.Add(1) == maxTroubles {
				go g.fail(fmt.Errorf("background work has failed too often: %w", err))
			}
		},
		FlushEnd:      func(info pebble.FlushInfo) { g.ended(info.Err) },
		CompactionEnd: func(info pebble.CompactionInfo) { g.ended(info.Err) },
	})
	o.EventListener = &listener
}

func (g *guardFS) ended(err error) {
	if err == nil {
		g.troubles.Store(0)
	}
}

// hold lets Pebble make another table after a while if it is in trouble, and nothing
// any more if the store has failed.
func (g *guardFS) hold(name string) {
	g.wrote.Store(true)
	if g.troubles.Load() > 0 && isTable(name) {
		over := make(chan struct{})
		stop := base.System{}.AfterFunc(troublePause, func() { close(over) })
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

// isTable reports whether Pebble can go on without having written a file.
func isTable(name string) bool { return strings.HasSuffix(name, ".sst") }

func (g *guardFS) isMarker(name string) bool {
	return strings.HasPrefix(g.PathBase(name), "marker.")
}

// outside reports whether a file or a folder is that of a backup, or the folder that the
// backup is in. Its errors are those of the backup, and not of the store.
func (g *guardFS) outside(name string) bool {
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
	if err != nil && !isTable(name) && !g.outside(name) {
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
	g.hold(name)
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

// List lists a directory.
func (g *guardFS) List(name string) ([]string, error) {
	files, err := g.FS.List(name)
	if g.wrote.Load() {
		err = g.check("list", name, err)
	}
	return files, err
}

// OpenDir opens a directory. That it cannot be synced is never for Pebble to see.
func (g *guardFS) OpenDir(name string) (vfs.File, error) {
	f, err := g.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	if g.outside(name) {
		return f, nil
	}
	return &guardDir{f, g, name}, nil
}

// Unwrap returns the file system below.
func (g *guardFS) Unwrap() vfs.FS { return g.FS }

func (g *guardFS) wrap(verb, name string, f vfs.File, err error) (vfs.File, error) {
	if err := g.check(verb, name, err); err != nil {
		return nil, err
	}
	if isTable(name) || g.outside(name) {
		return f, nil
	}
	return &guardFile{f, g, name}, nil
}

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

// guardFile is a file that Pebble cannot go on without.
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
