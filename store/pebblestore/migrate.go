package pebblestore

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/cockroachdb/pebble/v2"

	"github.com/abidehq/abide/store"
)

const (
	// migrateBytes is how large a batch of a migration grows before it is committed.
	migrateBytes = 1 << 20

	// migrateReport is how many batches are committed between two log lines.
	migrateReport = 64
)

// migrate brings a store of an older format to this one.
//
// Format 1 has no shared index. The first batch raises the format, so that no program that
// would not maintain the shared index can open the store from then on, and writes a note
// (metaShared) that the index is empty. Each further batch adds some entries and moves the
// note, and the last one removes it. So a migration that is interrupted, at any point, is
// continued when the store is opened again:
//
//	format  note        state
//	1       none        not begun
//	2       index key   entries before the key are in the shared index
//	2       none        complete, or a store that was created with format 2
//
// It runs within Open, before any call can read or write, so that no other code knows of an
// incomplete index.
func (s *Store) migrate(ctx context.Context, format int) error {
	next, err := s.beginMigration(format)
	if err != nil {
		return fmt.Errorf("pebblestore: migrate %s: %w", s.dir, err)
	}
	if next == nil {
		return nil
	}
	entries := 0
	for batches := 1; next != nil; batches++ {
		var n int
		if err = ctx.Err(); err == nil {
			n, next, err = s.migrateIndex(next)
		}
		if err != nil {
			return fmt.Errorf("pebblestore: migrate %s: %w", s.dir, err)
		}
		entries += n
		if batches%migrateReport == 0 {
			s.logger.Info("store migration in progress", "dir", s.dir, "format", formatVersion, "entries", entries)
		}
	}
	s.logger.Info("store migrated", "dir", s.dir, "format", formatVersion, "entries", entries)
	return nil
}

// beginMigration raises the format if it is older, and returns the index key from which on
// records are to be added to the shared index: nil if all are in it.
func (s *Store) beginMigration(format int) ([]byte, error) {
	if format < formatVersion {
		b := s.db.NewBatch()
		_ = b.Set(metaFormat, strconv.AppendInt(nil, formatVersion, 10), nil)
		_ = b.Set(metaShared, []byte{tagIndex}, nil)
		if err := errors.Join(b.Commit(pebble.Sync), b.Close()); err != nil {
			return nil, err
		}
	}
	v, closer, err := s.db.Get(metaShared)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, s.readError("open", err)
	}
	return slices.Clone(v), closer.Close()
}

// migrateIndex adds records to the shared index from an index key on, in one synced batch, and
// returns how many, and the index key to continue with: nil if it was the last batch.
func (s *Store) migrateIndex(from []byte) (entries int, next []byte, err error) {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: []byte{tagIndex + 1}})
	if err != nil {
		return 0, nil, err
	}
	b := s.db.NewBatch()
	defer func() { err = errors.Join(err, b.Close()) }()
	most := cmp.Or(s.limits.migrate, migrateBytes)
	for found := it.First(); found && err == nil; {
		if entries > 0 && b.Len() >= most {
			next = slices.Clone(it.Key())
			break
		}
		k := it.Key()
		r := reader{b: k[1:]}
		key := store.RecordKey{Kind: r.string(), Tenant: r.string()}
		status := r.string()
		if len(r.b) != 16 {
			r.err = errShort
		}
		if err = r.check("index", k); err != nil {
			break
		}
		if !isShared(key.Tenant) {
			found = it.SeekGE(upper(k[:len(k)-16]))
			continue
		}
		num := binary.BigEndian.Uint64(r.b[8:])
		_ = b.Set(sharedIndexKey(nil, key, status, int64(binary.BigEndian.Uint64(r.b)), num), it.Value(), nil)
		entries++
		found = it.Next()
	}
	if err = closeIter(it, err); err != nil {
		return 0, nil, s.readError("read index", err)
	}
	// Migrating may use the part of the reserve that is left to commits that only remove.
	if entries > 0 && s.spaceBelow(s.reserve/freeingShare) {
		return 0, nil, fmt.Errorf("less than %d MiB left on the disk: %w", s.reserve/freeingShare>>20, store.ErrFull)
	}
	if next == nil {
		_ = b.Delete(metaShared, nil)
	} else {
		_ = b.Set(metaShared, next, nil)
	}
	return entries, next, b.Commit(pebble.Sync)
}
