package sqlitestore

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"runtime"
)

// private creates the database file, empty and for its owner alone, or logs a warning if
// it exists and other users of the machine can read or write it. It returns the
// permissions of the file, which SQLite gives to the files beside it too.
func private(path string, logger *slog.Logger) (fs.FileMode, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err == nil {
		return 0o600, f.Close()
	}
	if !errors.Is(err, fs.ErrExist) {
		return 0, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	mode := info.Mode().Perm()
	if mode&0o077 != 0 && runtime.GOOS != "windows" {
		logger.Warn("store is accessible to other users", "path", path, "mode", fmt.Sprintf("%04o", mode), "want", "0600")
	}
	return mode, nil
}
