package sqlitestore

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// lockFile locks a file, with others or alone, or reports that it cannot. What is locked
// with others and cannot be locked alone is not locked at all afterwards. The kernel lets
// go of it when the process dies.
func lockFile(f *os.File, alone bool) (bool, error) {
	handle := windows.Handle(f.Fd())
	if err := windows.UnlockFileEx(handle, 0, 1, 0, &windows.Overlapped{}); err != nil && !errors.Is(err, windows.ERROR_NOT_LOCKED) {
		return false, err
	}
	how := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if alone {
		how |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	err := windows.LockFileEx(handle, how, 0, 1, 0, &windows.Overlapped{})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return false, nil
	}
	return err == nil, err
}
