package pgstore

import (
	"bytes"
	"maps"
	"slices"
	"sync"

	"github.com/abidehq/abide/internal/rows"
	"github.com/abidehq/abide/store"
)

// rowCache has the rows of keys and the versions of records that this process wrote last, so that
// they need not be loaded: a key is written several times within moments, by this process each time,
// since what is put to a key that it holds is reserved for it. It saves a round trip's worth of rows
// per update, not the round trip itself, which also reads the clock. Keys that other processes hold
// are not cached.
//
// A cached row may be out of date, and that must cost time only. Two rules see to it:
//
//   - A row that an update writes is compared with its revision by the statement that writes it.
//     The revision of a row that was deleted and made again is another one (newRevision).
//     If it has changed, the transaction ends, the rows are evicted, and the update is tried
//     again with ReadSet.Fresh, which loads everything.
//   - A row that an update only reads is loaded after all (database.decide), so that no caller is
//     refused, or told anything, because of a cached row.
//
// It is two generations of at most maxCached keys and records: when the young one is full, the
// old one is dropped. Its mutex is held for map operations only.
type rowCache struct {
	process int64 // our number

	mu         sync.Mutex
	young, old generation
}

// generation is the rows that were written at about the same time.
type generation struct {
	keys    map[rows.ID]cachedRow
	records map[store.RecordKey]int64
}

type cachedRow struct {
	row *rows.KeyRow
	rev int64
}

// maxCached is how many keys and records a generation has.
const maxCached = 4096

func newGeneration() generation {
	return generation{keys: map[rows.ID]cachedRow{}, records: map[store.RecordKey]int64{}}
}

// lookup adds cached rows to l, and returns those of the keys and records that are still to be
// loaded.
func (m *rowCache) lookup(wantKeys []rows.ID, wantRecords []store.RecordKey, l *loaded) (keys []rows.ID, records []store.RecordKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range wantKeys {
		k, ok := m.young.keys[id]
		if !ok {
			if k, ok = m.old.keys[id]; !ok {
				keys = append(keys, id)
				continue
			}
		}
		l.state.Keys[id], l.revs[id] = k.row, k.rev
		l.cachedKeys = append(l.cachedKeys, id)
	}
	for _, key := range wantRecords {
		version, ok := m.young.records[key]
		if !ok {
			if version, ok = m.old.records[key]; !ok {
				records = append(records, key)
				continue
			}
		}
		l.state.Records[key] = version
		l.cachedRecords = append(l.cachedRecords, key)
	}
	return keys, records
}

// written caches the rows of a transaction that was committed.
func (m *rowCache) written(c *rows.Changes, l *loaded) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.young.keys) > maxCached || len(m.young.records) > maxCached || m.young.keys == nil {
		m.old, m.young = m.young, newGeneration()
	}
	refreshed := make(map[rows.ID]bool, len(c.Refresh)) // their rows are not as they were given
	for _, id := range c.Refresh {
		refreshed[id] = true
	}
	for _, row := range c.Insert {
		m.keep(row, l.first, refreshed[row.ID])
	}
	for _, row := range c.Update {
		m.keep(row, l.revs[row.ID]+1, refreshed[row.ID] || row.Holder != 0 && row.Holder != m.process)
	}
	for _, id := range c.Delete {
		m.drop(id)
	}
	for i := range c.InsertRecords {
		m.young.records[c.InsertRecords[i].Key] = c.InsertRecords[i].Version
	}
	for i := range c.UpdateRecords {
		m.young.records[c.UpdateRecords[i].Key] = c.UpdateRecords[i].Version
	}
	for _, key := range c.DeleteRecords {
		m.dropRecord(key)
	}
	for i := range c.UpsertRecords {
		m.dropRecord(c.UpsertRecords[i].Key)
	}
}

// keep caches a row, with a copy of the body of its inline message, which belongs to the caller
// of a Claim from now on. A row whose First the database has computed is not known, and one that
// another process holds will be written by that: such rows are dropped.
func (m *rowCache) keep(row *rows.KeyRow, rev int64, drop bool) {
	if drop {
		m.drop(row.ID)
		return
	}
	kept := *row
	if row.Inline != nil {
		inline := *row.Inline
		inline.Body = bytes.Clone(inline.Body)
		kept.Inline = &inline
	}
	m.young.keys[row.ID] = cachedRow{&kept, rev}
}

func (m *rowCache) drop(id rows.ID) {
	delete(m.young.keys, id)
	delete(m.old.keys, id)
}

func (m *rowCache) dropRecord(key store.RecordKey) {
	delete(m.young.records, key)
	delete(m.old.records, key)
}

// picked evicts keys that were leased by a pick.
func (m *rowCache) picked(keys []rows.LeasedKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range keys {
		m.drop(keys[i].Row.ID)
	}
}

// evict drops the cached rows that an update which failed had used.
func (m *rowCache) evict(l *loaded) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range l.cachedKeys {
		m.drop(id)
	}
	for _, key := range l.cachedRecords {
		m.dropRecord(key)
	}
}

// clear drops everything: it is not known whether an update was written.
func (m *rowCache) clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.young, m.old = newGeneration(), generation{}
}

// unverified returns the cached rows that the changes do not write, or nil if there are none:
// only a row that is written is compared with the database.
func (l *loaded) unverified(need *rows.ReadSet, c *rows.Changes) *rows.ReadSet {
	if len(l.cachedKeys)+len(l.cachedRecords) == 0 {
		return nil
	}
	keys := make(map[rows.ID]bool, len(c.Update)+len(c.Delete))
	for _, row := range c.Update {
		keys[row.ID] = true
	}
	for _, id := range c.Delete {
		keys[id] = true
	}
	records := make(map[store.RecordKey]bool, len(c.UpdateRecords)+len(c.DeleteRecords))
	for i := range c.UpdateRecords {
		records[c.UpdateRecords[i].Key] = true
	}
	for _, key := range c.DeleteRecords {
		records[key] = true
	}
	n := &rows.ReadSet{Bodies: need.Bodies}
	again := map[rows.ID]bool{}
	for _, id := range l.cachedKeys {
		if !keys[id] {
			n.Keys = append(n.Keys, id)
			again[id] = true
		}
	}
	for _, key := range l.cachedRecords {
		if !records[key] {
			n.Records = append(n.Records, key)
		}
	}
	if len(n.Keys)+len(n.Records) == 0 {
		return nil
	}
	for _, ref := range need.Messages {
		if again[ref.Key] {
			n.Messages = append(n.Messages, ref)
		}
	}
	return n
}

// replace replaces cached rows by loaded ones.
func (l *loaded) replace(n *rows.ReadSet, more *loaded) {
	l.now = more.now
	keys, records := map[rows.ID]bool{}, map[store.RecordKey]bool{}
	for _, id := range n.Keys {
		delete(l.state.Keys, id)
		delete(l.revs, id)
		keys[id] = true
	}
	for _, ref := range n.Messages {
		delete(l.state.Messages, ref)
	}
	for _, key := range n.Records {
		delete(l.state.Records, key)
		records[key] = true
	}
	maps.Copy(l.state.Keys, more.state.Keys)
	maps.Copy(l.revs, more.revs)
	maps.Copy(l.state.Messages, more.state.Messages)
	maps.Copy(l.state.Records, more.state.Records)
	l.cachedKeys = slices.DeleteFunc(l.cachedKeys, func(id rows.ID) bool { return keys[id] })
	l.cachedRecords = slices.DeleteFunc(l.cachedRecords, func(key store.RecordKey) bool { return records[key] })
}
