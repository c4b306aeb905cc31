//go:build unix

package sqlitestore

import (
	"errors"
	"os"
	"syscall"
)

// lockFile locks a file, with others or alone, or reports that it cannot. What is locked
// with others and cannot be locked alone is not locked at all afterwards. The kernel lets
// go of it when the process dies.
func lockFile(f *os.File, alone bool) (bool, error) {
	how := syscall.LOCK_SH
	if alone {
		how = syscall.LOCK_EX
	}
	for {
		err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB) //nolint:gosec // it is a small number
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, syscall.EINTR):
			return false, err
		}
	}
}
