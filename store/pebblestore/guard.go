package pebblestore

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// guardFS is the file system as Pebble sees it.
//
// When Pebble cannot write its log or its list of files, it panics, some of it in
// goroutines and with locks where nothing can be done about it. So such an error
// never gets there: the store fails, and the goroutine stays where it is for good,
// before it takes a lock that readers need. Errors of tables are Pebble's to handle.
//
// Pebble also counts on the entries of a directory reaching the disk in the order in
// which they were made, which some file systems do not promise. A marker names the
// list of files that counts: so what it names is made durable before the marker is
// there, and the marker before the one that it replaces is gone.
type guardFS struct {
	vfs.FS
	fail  func(error)
	armed atomic.Bool // the store is open: before, Pebble returns most errors
}

// isVital reports whether Pebble cannot go on without writing a file.
func isVital(base string) bool {
	return strings.HasSuffix(base, ".log") || strings.HasPrefix(base, "MANIFEST-") || isMarker(base)
}

func isMarker(base string) bool { return strings.HasPrefix(base, "marker.") }

// check does not return if err is one that Pebble must not see.
func (g *guardFS) check(verb, name string, err error) error {
	if err != nil && g.armed.Load() && isVital(g.PathBase(name)) {
		g.stop(verb, name, err)
	}
	return err
}

// stop makes the store fail, and does not return.
func (g *guardFS) stop(verb, name string, err error) {
	g.fail(fmt.Errorf("%s %s: %w", verb, name, err))
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
	if isMarker(g.PathBase(name)) {
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
	if isMarker(g.PathBase(name)) {
		if err := g.syncDir(name); err != nil {
			return err
		}
	}
	return g.FS.Remove(name)
}

// OpenDir opens a directory. That it cannot be synced is never for Pebble to see.
func (g *guardFS) OpenDir(name string) (vfs.File, error) {
	f, err := g.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &guardDir{f, g, name}, nil
}

// Unwrap returns the file system below.
func (g *guardFS) Unwrap() vfs.FS { return g.FS }

func (g *guardFS) wrap(verb, name string, f vfs.File, err error) (vfs.File, error) {
	if err := g.check(verb, name, err); err != nil {
		return nil, err
	}
	if !isVital(g.PathBase(name)) {
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
