package pebblestore

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/abidehq/abide/store"
)

// prefetched is what was read for a Tx without the mutex.
//
// A Tx that puts hundreds of records to new keys would read each of them under
// the mutex. So they are read before, from tables alone where recent says that
// a memtable cannot have them, and adopted under the mutex if the caches still
// have everything that was in use since. A commit that has changed one of them
// in the meantime has left it in the cache, and that state takes precedence; if the cache
// may have evicted something, all of it is dropped and read again under the mutex.
//
//	lock    stamp the caches; note which keys and records they lack
//	unlock  read those
//	lock    adopt: stamps still valid, and still not in the cache
//	        commit: pinAll finds them in memory
//	        unpinAdopted
type prefetched struct {
	recordsAt cacheStamp
	keysAt    cacheStamp
	records   []*recordState // as read; version 0 if they do not exist
	keys      []*keyState    // that have neither messages nor a log; others are not prefetched

	pinnedRecords []*recordState // adopted, until unpinAdopted
	pinnedKeys    []*keyState
}

// missing is a record or a key that a Tx needs and memory does not have.
type missing struct {
	record store.RecordKey // or
	key    store.Key
	recent bool // it may be in a memtable
	exists bool // the Tx expects a version of the record
}

// prefetch reads the records that a large Tx puts, and finds out which of the keys that it
// puts messages to are new, without the mutex. It returns nil for a small Tx. An error of the
// disk is not returned: the read under the mutex meets it again.
func (s *Store) prefetch(tx *store.Tx) (*prefetched, error) {
	if len(tx.PutRecords)+len(tx.Put) < s.limits.prefetch {
		return nil, nil
	}
	if _, err := s.lock("commit"); err != nil {
		return nil, err
	}
	p := &prefetched{recordsAt: s.records.stamp(), keysAt: s.keys.stamp()}
	var records, keys []missing
	for i := range tx.PutRecords {
		if key := tx.PutRecords[i].Record.Key; !tx.PutRecords[i].New && s.records.get(key) == nil {
			records = append(records, missing{record: key, recent: s.recent.hasRecord(key), exists: tx.PutRecords[i].Expect > 0})
		}
	}
	for i := range tx.Put {
		if key := tx.Put[i].Key; !tx.Put[i].New && s.keys.get(key) == nil {
			keys = append(keys, missing{key: key, recent: s.recent.hasKey(key)})
		}
	}
	s.readers.Add(1)
	s.mu.Unlock()
	defer s.readers.Done()
	if len(records) > 0 {
		p.records = s.prefetchRecords(records)
	}
	if len(keys) > 0 {
		p.keys = s.prefetchKeys(keys)
	}
	return p, nil
}

// prefetchRecords reads the states of records, but for those whose read fails. Those that no
// memtable has are read with one iterator for new records and one for others, in the order of
// their names: names that are near each other are in the same table, whose filter is then
// loaded once.
func (s *Store) prefetchRecords(records []missing) []*recordState {
	slices.SortFunc(records, func(a, b missing) int {
		return byName(a.record.Kind, b.record.Kind, a.record.Tenant, b.record.Tenant, a.record.ID, b.record.ID)
	})
	states := make([]*recordState, 0, len(records))
	for _, kind := range []missing{{recent: true}, {exists: true}, {}} {
		var from source = s.db
		if !kind.recent {
			it, err := tables{db: s.db}.NewIter(&pebble.IterOptions{UseL6Filters: !kind.exists})
			if err != nil {
				return states
			}
			defer it.Close() //nolint:errcheck,gocritic // two of them at most; errors of reads have been returned by the reads
			from = view{it}
		}
		for _, m := range records {
			if m.recent != kind.recent || !m.recent && m.exists != kind.exists {
				continue
			}
			if r := s.prefetchRecord(from, m.record); r != nil {
				states = append(states, r)
			}
		}
	}
	return states
}

// byName compares names about as their database keys are compared: pairs of strings, of which
// the shorter one is first.
func byName(pairs ...string) int {
	for i := 0; i < len(pairs); i += 2 {
		a, b := pairs[i], pairs[i+1]
		if c := cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b)); c != 0 {
			return c
		}
	}
	return 0
}

// prefetchRecord reads the state of a record, or returns nil after an error.
func (s *Store) prefetchRecord(from source, key store.RecordKey) *recordState {
	r := &recordState{entry: &cached[store.RecordKey, *recordState]{key: key}}
	rec, num, err := s.readRecord(from, key)
	switch {
	case err == nil:
		r.num, r.version, r.status, r.name, r.ms = num, rec.Version, rec.Status, nameSum(rec.Name), rec.Time.UnixMilli()
		r.terms = termsOf(rec.Tags)
	case !errors.Is(err, pebble.ErrNotFound):
		return nil
	}
	return r
}

// prefetchKeys returns those of the keys that have nothing on disk. Most keys of a large Tx are
// new, and one iterator with filters, in the order of the keys, finds that out fastest; the
// others are left to fill.
// Keys that may be in a memtable are read with another iterator, which includes these.
func (s *Store) prefetchKeys(keys []missing) []*keyState {
	slices.SortFunc(keys, func(a, b missing) int {
		return byName(a.key.Queue, b.key.Queue, a.key.Tenant, b.key.Tenant, a.key.Name, b.key.Name)
	})
	var empty []*keyState
	for _, recent := range []bool{false, true} {
		var it *pebble.Iterator
		for _, m := range keys {
			if m.recent != recent {
				continue
			}
			if it == nil {
				var err error
				it, err = s.db.NewIter(&pebble.IterOptions{UseL6Filters: true, OnlyReadGuaranteedDurable: !recent})
				if err != nil {
					return empty
				}
			}
			if !it.SeekPrefixGE(keyPrefix(nil, m.key)) && it.Error() == nil {
				empty = append(empty, &keyState{key: m.key, complete: true})
			}
		}
		if it != nil {
			if err := it.Close(); err != nil {
				return nil
			}
		}
	}
	return empty
}

// adopt adds what was prefetched to the caches, pinned, unless it may have changed since.
func (s *Store) adopt(p *prefetched) {
	if p == nil {
		return
	}
	if s.records.retainedSince(p.recordsAt) {
		for _, r := range p.records {
			if key := r.entry.key; s.records.get(key) == nil {
				r.entry = s.records.add(key, r)
				p.pinnedRecords = append(p.pinnedRecords, r)
			}
		}
	}
	if s.keys.retainedSince(p.keysAt) {
		for _, k := range p.keys {
			if s.keys.get(k.key) == nil {
				k.entry = s.keys.add(k.key, k)
				p.pinnedKeys = append(p.pinnedKeys, k)
			}
		}
	}
}

// unpinAdopted ends the pins of adopt: what the Tx needs is pinned by its group by now.
func (s *Store) unpinAdopted(p *prefetched) {
	if p == nil {
		return
	}
	for _, r := range p.pinnedRecords {
		s.records.unpin(r.entry)
	}
	for _, k := range p.pinnedKeys {
		s.unpinKey(k)
	}
}
