package pebblestore

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/cockroachdb/pebble/v2"

	"github.com/abidehq/abide/store"
)

// readFormat returns the format of the store, and writes it into a new store. It returns
// [store.ErrFormat] if this program must not work on it; see [store.CheckFormat].
func (s *Store) readFormat() (format int, err error) {
	format, err = s.readVersion("format", metaFormat)
	if errors.Is(err, pebble.ErrNotFound) {
		return formatVersion, s.writeFormat()
	}
	if err != nil {
		return 0, err
	}
	oldest, err := s.readVersion("oldest reader", metaOldest)
	if errors.Is(err, pebble.ErrNotFound) {
		oldest, err = format, nil
	}
	if err != nil {
		return 0, err
	}
	if err := store.CheckFormat(format, oldest, formatVersion); err != nil {
		return 0, fmt.Errorf("pebblestore: open %s: %w", s.dir, err)
	}
	return format, nil
}

// readVersion returns a version number of the store, or [pebble.ErrNotFound].
func (s *Store) readVersion(what string, key []byte) (int, error) {
	v, closer, err := s.db.Get(key)
	if err != nil {
		return 0, s.readError("open", err)
	}
	defer closer.Close() //nolint:errcheck // what was read is in memory
	n, err := strconv.Atoi(string(v))
	if err != nil || n < 1 {
		return 0, fmt.Errorf("pebblestore: open %s: %s %q is not a positive number: %w", s.dir, what, v, store.ErrCorrupt)
	}
	return n, nil
}

// writeFormat writes the format into an empty store. A database with other content is not a
// store, and is refused.
func (s *Store) writeFormat() error {
	it, err := s.db.NewIter(nil)
	if err != nil {
		return s.readError("open", err)
	}
	foreign := it.First()
	if err := closeIter(it, nil); err != nil {
		return s.readError("open", err)
	}
	if foreign {
		return fmt.Errorf("pebblestore: open %s: it has no format version, so it is not a directory of Abide: %w", s.dir, store.ErrFormat)
	}
	if err := s.db.Set(metaFormat, strconv.AppendInt(nil, formatVersion, 10), pebble.Sync); err != nil {
		return fmt.Errorf("pebblestore: open %s: %w", s.dir, err)
	}
	return nil
}
