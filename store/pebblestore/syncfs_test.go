package pebblestore

import (
	"github.com/cockroachdb/pebble/v2/vfs"
)

// syncFS is a file system that tells before and after each sync of a file or a
// directory. The callback may block, which delays the sync.
type syncFS struct {
	vfs.FS
	before, after func(path string)
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
	f, err := fs.FS.ReuseForWrite(oldName, newName, category)
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
