package pebblestore

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/abidehq/abide/store"
)

// pointDeletes is up to how many values a log is deleted value by value: a range
// deletion costs every later read a little, and most logs are short.
const pointDeletes = 64

// append adds entries to a log, as one value under the index of the first. The
// header has the number of the log and not its length, so that it is written only
// when a log begins or is trimmed; the length follows from the last value.
//
// A log has a number, and not the key's names, in its database keys: they are shorter, and
// a log that is deleted and begun again has a new number, so that the deletion of the old
// one cannot hide it.
func (s *Store) append(g *group, a *store.Append) {
	k := s.pinned(a.Key)
	if !k.hasLog {
		k.hasLog, k.log, k.logTag, k.headerDirty = true, s.newID(g), a.Tag, true
	}
	s.keyBuf = logKey(s.keyBuf[:0], k.log, k.logLen)
	s.valBuf = appendEntries(s.valBuf[:0], a.Entries)
	_ = g.batch.Set(s.keyBuf, s.valBuf, nil)
	k.logLen += len(a.Entries)
	k.logGroup, k.changed = g, g
}

// trim drops the entries before an index. The header says which entry is the first, so
// removing values only frees room: an error of the disk leaves them. The value with the last
// entry that is dropped stays, so that the length of the log follows from the last value
// even if all entries are trimmed.
func (s *Store) trim(g *group, k *keyState, before int) {
	if before <= k.logBase {
		return
	}
	k.logBase, k.headerDirty, k.changed = before, true, g
	it, err := s.db.NewIter(logBounds(k.log))
	if err != nil {
		return
	}
	last := []byte(nil)
	if it.SeekLT(logKey(nil, k.log, before)) {
		last = slices.Clone(it.Key())
	}
	if closeIter(it, nil) == nil && last != nil {
		_ = g.batch.DeleteRange(logKey(nil, k.log, 0), last, nil)
	}
}

// deleteLog deletes a log: value by value if they are few and can be found, and
// otherwise as a range.
//
// The number of a log is never used again, so nothing can be put where it was:
// a range deletion hides nothing that comes later. An error of the disk while the values
// are searched is therefore no error of the commit: the range deletion needs no search.
func (s *Store) deleteLog(g *group, k *keyState) {
	bounds := logBounds(k.log)
	// What was appended in a group that is not applied yet cannot be found.
	if k.logGroup == nil || k.logGroup.applied {
		var keys [][]byte
		it, err := s.db.NewIter(bounds)
		if err == nil {
			for it.First(); it.Valid() && len(keys) <= pointDeletes; it.Next() {
				keys = append(keys, slices.Clone(it.Key()))
			}
			err = closeIter(it, nil)
		}
		if err == nil && len(keys) <= pointDeletes {
			for _, key := range keys {
				_ = g.batch.Delete(key, nil)
			}
			return
		}
	}
	_ = g.batch.DeleteRange(bounds.LowerBound, bounds.UpperBound, nil)
}

func logBounds(log uint64) *pebble.IterOptions {
	return &pebble.IterOptions{LowerBound: logKey(nil, log, 0), UpperBound: logKey(nil, log+1, 0)}
}

// logLength returns the length of a log, from its last value.
func (s *Store) logLength(from source, log uint64) (int, error) {
	it, err := from.NewIter(logBounds(log))
	if err != nil {
		return 0, err
	}
	length := 0
	if it.Last() {
		length, err = countEntries(it.Key(), it.Value())
		length += int(binary.BigEndian.Uint64(it.Key()[9:]))
	}
	err = closeIter(it, err)
	return length, err
}

// ReadLog returns a page of entries of a log, of up to [store.LogPageBytes]. A key without a
// log has an empty page.
//
// Header and entries are read from one view: a log that is trimmed, deleted or
// begun anew meanwhile is read as it was before or as it is afterwards.
func (s *Store) ReadLog(ctx context.Context, key store.Key, from int) (store.LogPage, error) {
	if err := store.ValidateReadLog(key, from); err != nil {
		return store.LogPage{}, err
	}
	release, err := s.read(ctx, "read log")
	if err != nil {
		return store.LogPage{}, err
	}
	defer release()
	view, err := s.view()
	if err != nil {
		return store.LogPage{}, s.readError("read log", err)
	}
	defer view.close()
	at := headerKey(nil, key)
	v, closer, err := view.Get(at)
	if errors.Is(err, pebble.ErrNotFound) {
		return store.LogPage{First: from}, nil
	}
	if err != nil {
		return store.LogPage{}, s.readError("read log", err)
	}
	h, err := parseHeader(at, v)
	_ = closer.Close()
	if err != nil {
		return store.LogPage{}, err
	}
	page := store.LogPage{First: max(from, h.base)}
	if page.Length, err = s.logLength(view, h.log); err == nil && page.First < page.Length {
		page.Entries, err = readEntries(view, h.log, page.First)
	}
	if err != nil {
		return store.LogPage{}, s.readError("read log", err)
	}
	return page, nil
}

// readEntries returns a page of entries from an index on, as copies.
func readEntries(from source, log uint64, first int) (entries [][]byte, err error) {
	it, err := from.NewIter(logBounds(log))
	if err != nil {
		return nil, err
	}
	size := 0
	full := false
	// The value before the next index holds the first entry.
	for it.SeekLT(logKey(nil, log, first+1)); it.Valid() && !full && err == nil; it.Next() {
		start := int(binary.BigEndian.Uint64(it.Key()[9:]))
		err = parseEntries(it.Key(), it.Value(), func(i int, entry []byte) bool {
			if start+i < first {
				return true
			}
			if size += len(entry); size > store.LogPageBytes && len(entries) > 0 {
				full = true
				return false
			}
			entries = append(entries, slices.Clone(entry))
			return true
		})
	}
	err = closeIter(it, err)
	return entries, err
}
