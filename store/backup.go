package store

import (
	"context"
	"errors"
	"fmt"
)

// Backuper is a store that can be backed up into a folder while it is in use: the embedded
// one. A store in a database is backed up with the tools of that database.
type Backuper interface {
	Store

	// Backup writes what the store holds to a folder, which it makes and which must not
	// exist. The backup holds everything that was committed before the call, and what was
	// committed during it up to one moment. It returns [ErrInvalid] for a folder that
	// cannot be one, and [ErrInUse] if another backup is under way. After an error there is
	// no such folder.
	Backup(ctx context.Context, dir string) error
}

var (
	// ErrBackup means that the store is a backup, on which nothing must run: it would do again what was
	// done since the backup was made. It can be read, and be made a store again.
	ErrBackup = errors.New("store is a backup")

	// ErrReadOnly is returned by calls that change a store that was opened to be read only.
	ErrReadOnly = errors.New("store is read-only")
)

// ReadOnly returns [ErrReadOnly] for a call.
func ReadOnly(verb string) error {
	return fmt.Errorf("store: %s: it was opened to be inspected: %w", verb, ErrReadOnly)
}
