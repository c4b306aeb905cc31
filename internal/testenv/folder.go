//go:build unix

package testenv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/abidehq/abide/internal/base"
)

// folder is where a server keeps its data while it is there. It is locked as long as our
// process lives, so that those who come later know what was left behind.
type folder struct {
	path string
	lock *os.File
}

// newFolder makes a folder for a kind of server, which belongs to owner, or to us if that
// is nil. It first removes what processes that were killed have left of the same kind.
func newFolder(kind string, owner *syscall.Credential) (*folder, error) {
	parent, err := openToAll(os.TempDir(), "/tmp", "/var/tmp")
	if err != nil {
		return nil, err
	}
	removeLeft(parent, kind)
	path, err := os.MkdirTemp(parent, "abide-"+kind+"-")
	if err != nil {
		return nil, err
	}
	f := &folder{path: path}
	if f.lock, err = os.Create(filepath.Join(path, "lock")); err == nil {
		err = syscall.Flock(int(f.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err == nil && owner != nil {
		err = os.Chown(path, int(owner.Uid), int(owner.Gid))
	}
	if err != nil {
		return nil, errors.Join(err, f.remove())
	}
	return f, nil
}

// remove removes the folder with all that is in it.
func (f *folder) remove() error {
	if f == nil {
		return nil
	}
	err := os.RemoveAll(f.path)
	if f.lock != nil {
		err = errors.Join(err, f.lock.Close())
	}
	return err
}

// openToAll returns the first of the folders in which another user can work: those above
// it must be searchable too. Tests run as root have servers of other users.
func openToAll(folders ...string) (string, error) {
	for _, f := range folders {
		path, err := filepath.Abs(f)
		if err != nil {
			return "", err
		}
		if isOpen(path) {
			return path, nil
		}
	}
	return "", fmt.Errorf("none of %v can be searched by everybody", folders)
}

func isOpen(path string) bool {
	for {
		info, err := os.Stat(path)
		if err != nil || !info.IsDir() || (os.Geteuid() == 0 && info.Mode().Perm()&1 == 0) {
			return false
		}
		above := filepath.Dir(path)
		if above == path {
			return true
		}
		path = above
	}
}

// removeLeft removes the folders of a kind whose processes were killed. One that was made
// a moment ago may not be locked yet.
func removeLeft(parent, kind string) {
	now := base.System{}.Now()
	locks, _ := filepath.Glob(filepath.Join(parent, "abide-"+kind+"-*", "lock")) // the pattern is a good one
	for _, path := range locks {
		info, err := os.Stat(path)
		if err != nil || now.Sub(info.ModTime()) < time.Minute {
			continue
		}
		lock, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			continue // another process uses or removes it
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = os.RemoveAll(filepath.Dir(path)) // what stays is for the next one
		}
		_ = lock.Close() // nothing was written
	}
}
