package pebblestore

import (
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// syncFS is a file system that tells before and after each sync of a file or a
// directory. The callback may block, which delays the sync.
type syncFS struct {
	vfs.FS
	before, after func(path string)

	// names makes renames atomic: those of the file system in memory take the old name away and
	// then add the new one, and a directory that is synced in between has neither.
	names sync.RWMutex

	// renamed has the old names of files whose new name was not synced, by the new one, guarded
	// by names.
	renamed map[string]string
}

// Rename is atomic with regard to syncs.
func (fs *syncFS) Rename(oldName, newName string) error {
	fs.names.Lock()
	defer fs.names.Unlock()
	err := fs.FS.Rename(oldName, newName)
	fs.noteRename(oldName, newName, err)
	return err
}

// noteRename remembers a rename until its directory is synced. The lock is held.
func (fs *syncFS) noteRename(oldName, newName string, err error) {
	if err != nil {
		return
	}
	if fs.renamed == nil {
		fs.renamed = map[string]string{}
	}
	fs.renamed[newName] = oldName
}

// crashClone returns what a power loss leaves, or nil if the clone has lost both names of a file that was
// renamed: the file system in memory drops each of them by itself, and no real one does.
func (fs *syncFS) crashClone(mem *vfs.MemFS, cfg vfs.CrashCloneCfg) *vfs.MemFS {
	fs.names.RLock()
	defer fs.names.RUnlock()
	clone := mem.CrashClone(cfg)
	there := func(name string) bool {
		_, err := clone.Stat(name)
		return err == nil
	}
	for newName, oldName := range fs.renamed {
		_, err := mem.Stat(newName)
		if err == nil && !there(newName) && !there(oldName) {
			return nil
		}
	}
	return clone
}

func (fs *syncFS) wrap(f vfs.File, err error, path string) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &syncFile{File: f, fs: fs, path: path}, nil
}

// Create returns a file that tells of its syncs.
func (fs *syncFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := fs.FS.Create(name, category)
	return fs.wrap(f, err, name)
}

// OpenReadWrite returns a file that tells of its syncs.
func (fs *syncFS) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := fs.FS.OpenReadWrite(name, category, opts...)
	return fs.wrap(f, err, name)
}

// ReuseForWrite returns a file that tells of its syncs.
func (fs *syncFS) ReuseForWrite(oldName, newName string, category vfs.DiskWriteCategory) (vfs.File, error) {
	fs.names.Lock()
	f, err := fs.FS.ReuseForWrite(oldName, newName, category)
	fs.noteRename(oldName, newName, err)
	fs.names.Unlock()
	return fs.wrap(f, err, newName)
}

// OpenDir returns a directory that tells of its syncs.
func (fs *syncFS) OpenDir(name string) (vfs.File, error) {
	f, err := fs.FS.OpenDir(name)
	return fs.wrap(f, err, name)
}

// Unwrap returns the file system below.
func (fs *syncFS) Unwrap() vfs.FS { return fs.FS }

type syncFile struct {
	vfs.File
	fs   *syncFS
	path string
}

// Sync tells before and after.
func (f *syncFile) Sync() error {
	f.fs.before(f.path)
	defer f.fs.after(f.path)
	f.fs.names.RLock()
	defer f.fs.names.RUnlock()
	return f.File.Sync()
}

// SyncData tells before and after.
func (f *syncFile) SyncData() error {
	f.fs.before(f.path)
	defer f.fs.after(f.path)
	return f.File.SyncData()
}

// SyncTo tells before and after.
func (f *syncFile) SyncTo(length int64) (bool, error) {
	f.fs.before(f.path)
	defer f.fs.after(f.path)
	return f.File.SyncTo(length)
}
