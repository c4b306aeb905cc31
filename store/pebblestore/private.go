package pebblestore

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// privateFS is the file system of the machine, on which new files are for their owner
// alone: they hold all that was put, and the hashes of tokens.
type privateFS struct{ vfs.FS }

// disk is the file system of stores that are given none.
var disk vfs.FS = privateFS{vfs.Default}

// Create creates a file that only its owner can read.
func (p privateFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := p.FS.Create(name, category)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(name, 0o600); err != nil {
		_ = f.Close() // nothing was written
		return nil, err
	}
	return f, nil
}

// Lock locks a file that only its owner can read.
func (p privateFS) Lock(name string) (io.Closer, error) {
	lock, err := p.FS.Lock(name)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(name, 0o600); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// Unwrap returns the file system below.
func (p privateFS) Unwrap() vfs.FS { return p.FS }

// warnIfShared logs a warning if other users of the machine can enter the directory of a
// store, which was made by another program or an older version.
func (s *Store) warnIfShared() error {
	info, err := s.fs.Stat(s.dir)
	if err != nil {
		return err
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 && runtime.GOOS != "windows" {
		s.logger.Warn("store is accessible to other users", "dir", s.dir, "mode", fmt.Sprintf("%04o", mode), "want", "0700")
	}
	return nil
}
