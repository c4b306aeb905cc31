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

// migration fills an index that an older format does not have. meta is its note: the database key from
// which on entries are to be added; missing if the index is complete.
type migration struct {
	format int // the first one with the index
	meta   []byte
	first  []byte // where the note begins
	add    func(b *pebble.Batch, it *pebble.Iterator) (entries int, found bool, err error)
}

// migrations returns those that there are, in order.
func migrations() []migration {
	return []migration{
		{2, metaShared, []byte{tagIndex}, migrateShared},
		{3, metaTerms, []byte{tagRecord}, migrateTerms},
	}
}

// migrate brings a store of an older format to this one.
//
// Format 1 has no shared index, and format 2 no index of terms. The first batch raises the format, so
// that no program that would not maintain the indexes can open the store from then on, and writes a note
// for each index that is empty. Each further batch adds some entries and moves the note, and the last
// one removes it. So a migration that is interrupted, at any point, is continued when the store is
// opened again:
//
//	format  note   state
//	older   none   not begun
//	this    a key  entries before the key are in the index
//	this    none   complete, or a store that was created with this format
//
// It runs within Open, before any call can read or write, so that no other code knows of an
// incomplete index.
func (s *Store) migrate(ctx context.Context, format int) error {
	if err := s.beginMigration(format); err != nil {
		return fmt.Errorf("pebblestore: migrate %s: %w", s.dir, err)
	}
	entries, begun := 0, false
	for _, m := range migrations() {
		next, err := s.migrationNote(m)
		for batches := 1; err == nil && next != nil; batches++ {
			begun = true
			var n int
			if err = ctx.Err(); err == nil {
				n, next, err = s.migrateBatch(m, next)
			}
			entries += n
			if batches%migrateReport == 0 {
				s.logger.Info("store migration in progress", "dir", s.dir, "format", formatVersion, "entries", entries)
			}
		}
		if err != nil {
			return fmt.Errorf("pebblestore: migrate %s: %w", s.dir, err)
		}
	}
	if begun {
		s.logger.Info("store migrated", "dir", s.dir, "format", formatVersion, "entries", entries)
	}
	return nil
}

// beginMigration raises the format if it is older, with a note for each index that it does not have.
func (s *Store) beginMigration(format int) error {
	if format >= formatVersion {
		return nil
	}
	b := s.db.NewBatch()
	_ = b.Set(metaFormat, strconv.AppendInt(nil, formatVersion, 10), nil)
	for _, m := range migrations() {
		if format < m.format {
			_ = b.Set(m.meta, m.first, nil)
		}
	}
	return errors.Join(b.Commit(pebble.Sync), b.Close())
}

// migrationNote returns the database key from which on entries are to be added: nil if all are there.
func (s *Store) migrationNote(m migration) ([]byte, error) {
	v, closer, err := s.db.Get(m.meta)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, s.readError("open", err)
	}
	return slices.Clone(v), closer.Close()
}

// migrateBatch adds entries to an index from a database key on, in one synced batch, and returns how
// many, and the key to continue with: nil if it was the last batch.
func (s *Store) migrateBatch(m migration, from []byte) (entries int, next []byte, err error) {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: upper(m.first)})
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
		var n int
		n, found, err = m.add(b, it)
		entries += n
	}
	if err = closeIter(it, err); err != nil {
		return 0, nil, s.readError("read index", err)
	}
	// Migrating may use the part of the reserve that is left to commits that only remove.
	if entries > 0 && s.spaceBelow(s.reserve/freeingShare) {
		return 0, nil, fmt.Errorf("less than %d MiB left on the disk: %w", s.reserve/freeingShare>>20, store.ErrFull)
	}
	if next == nil {
		_ = b.Delete(m.meta, nil)
	} else {
		_ = b.Set(m.meta, next, nil)
	}
	return entries, next, b.Commit(pebble.Sync)
}

// migrateShared adds the record of an index key to the shared index, and moves on.
func migrateShared(b *pebble.Batch, it *pebble.Iterator) (entries int, found bool, err error) {
	k := it.Key()
	r := reader{b: k[1:]}
	key := store.RecordKey{Kind: r.string(), Tenant: r.string()}
	status := r.string()
	if len(r.b) != 16 {
		r.err = errShort
	}
	if err := r.check("index", k); err != nil {
		return 0, false, err
	}
	if !isShared(key.Tenant) {
		return 0, it.SeekGE(upper(k[:len(k)-16])), nil
	}
	num := binary.BigEndian.Uint64(r.b[8:])
	_ = b.Set(sharedIndexKey(nil, key, status, int64(binary.BigEndian.Uint64(r.b)), num), it.Value(), nil)
	return 1, it.Next(), nil
}

// migrateTerms adds the tags of a record to the index of terms, and moves on.
func migrateTerms(b *pebble.Batch, it *pebble.Iterator) (entries int, found bool, err error) {
	rec, err := parseRecord(it.Key(), it.Value())
	if err != nil {
		return 0, false, err
	}
	num := binary.BigEndian.Uint64(it.Key()[1:])
	for _, term := range termsOf(rec.Tags) {
		_ = b.Set(termKey(nil, rec.Key.Kind, term, rec.Time.UnixMilli(), num), nil, nil)
		entries++
	}
	return entries, it.Next(), nil
}
