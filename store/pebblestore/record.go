package pebblestore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/abidehq/abide/internal/waitlist"
	"github.com/abidehq/abide/store"
)

// recordState is what a commit needs to know about a record: its version, and what an update
// must remove from the indexes. The body is on disk only.
//
// Await calls hold a pin each: if there are no other pins, no group in flight
// changes the record, and what the disk shows is durable.
type recordState struct {
	entry   *cached[store.RecordKey, *recordState]
	num     uint64 // of the database key; 0 if it does not exist
	version int64  // 0 if it does not exist
	status  string
	name    uint32                          // nameSum of its name
	ms      int64                           // its time
	terms   []uint64                        // of its tags; see termsOf
	readers waitlist.Readers[*recordReader] // each pins the record once
}

// recordReader is an Await call. Its news is the record, or one of version 0: then it reads
// the record from disk.
//
//	joined, version not past after     waits
//	group with a put is durable        given the record (notify)
//	group with a delete is durable,    made to read, when no group in flight
//	or a later put is in flight        changes the record (notifyRead, durable)
//	store closed or failed             ends with the error
type recordReader struct {
	waitlist.Reader[store.Record]
	after int64 // the version that it has seen
}

// pinRecord returns the state of a record, pinned. It reads it if it is not in the cache: then
// no group in flight changes it, and the disk has its latest version.
func (s *Store) pinRecord(key store.RecordKey) (*recordState, error) {
	if e := s.records.get(key); e != nil {
		s.records.pin(e)
		return e.value, nil
	}
	r := &recordState{}
	rec, num, err := s.readRecord(s.latest(key), key)
	switch {
	case err == nil:
		r.num, r.version, r.status, r.name, r.ms = num, rec.Version, rec.Status, nameSum(rec.Name), rec.Time.UnixMilli()
		r.terms = termsOf(rec.Tags)
	case !errors.Is(err, pebble.ErrNotFound):
		return nil, err
	}
	r.entry = s.records.add(key, r)
	return r, nil
}

// pinRecordOf is pinRecord of a record that may be vouched for as new: then it is not read.
func (s *Store) pinRecordOf(key store.RecordKey, isNew bool) (*recordState, error) {
	if !isNew || s.records.get(key) != nil {
		return s.pinRecord(key)
	}
	s.checkNewRecord(key)
	r := &recordState{}
	r.entry = s.records.add(key, r)
	return r, nil
}

// latest returns where to read a record that is not in the cache: tables alone, if no memtable
// can have it.
func (s *Store) latest(key store.RecordKey) source {
	if s.recent.hasRecord(key) {
		return s.db
	}
	return tables{db: s.db}
}

// pinnedRecord returns a record that is pinned.
func (s *Store) pinnedRecord(key store.RecordKey) *recordState { return s.records.get(key).value }

// readRecord reads a record from disk, with its number.
func (s *Store) readRecord(from source, key store.RecordKey) (store.Record, uint64, error) {
	v, closer, err := from.Get(nameKey(nil, key))
	if err != nil {
		return store.Record{}, 0, s.readError("read record", err)
	}
	num := uint64(0)
	if len(v) == 8 {
		num = binary.BigEndian.Uint64(v)
	}
	_ = closer.Close()
	if t, ok := from.(tables); ok {
		t.exists = true // what has a name has a record
		from = t
	}
	rec, err := s.readRecordAt(from, num)
	if errors.Is(err, pebble.ErrNotFound) {
		err = fmt.Errorf("pebblestore: record %v has a name and is not there: %w", key, store.ErrCorrupt)
	}
	return rec, num, err
}

// readRecordAt reads the record with a number. The result is a copy.
func (s *Store) readRecordAt(from source, num uint64) (store.Record, error) {
	key := recordKey(nil, num)
	v, closer, err := from.Get(key)
	if err != nil {
		return store.Record{}, s.readError("read record", err)
	}
	rec, err := parseRecord(key, v)
	_ = closer.Close()
	return rec, err
}

// putRecord puts a record at its next version. A record that was deleted begins at 1 again.
func (s *Store) putRecord(g *group, rec *store.Record) {
	s.putRecordAt(g, rec, s.pinnedRecord(rec.Key).version+1)
}

// putRecordAt puts a record at a version. The indexes are written only if status, time or name
// have changed. If Await calls wait, a copy goes into the group for them.
func (s *Store) putRecordAt(g *group, rec *store.Record, version int64) {
	r := s.pinnedRecord(rec.Key)
	before := r.ms
	ms, name := store.RecordMillis(rec.Time), nameSum(rec.Name)
	if r.version == 0 {
		r.num = s.newID(g)
		s.keyBuf = nameKey(s.keyBuf[:0], rec.Key)
		s.valBuf = binary.BigEndian.AppendUint64(s.valBuf[:0], r.num)
		_ = g.batch.Set(s.keyBuf, s.valBuf, nil)
	}
	if r.version == 0 || r.status != rec.Status || r.ms != ms || r.name != name {
		if r.version > 0 {
			s.deleteIndex(g, rec.Key, r)
		}
		r.status, r.name, r.ms = rec.Status, name, ms
		s.setIndex(g, rec.Key, r)
	}
	s.setTerms(g, rec.Key.Kind, r, before, termsOf(rec.Tags))
	r.version = version
	s.keyBuf = recordKey(s.keyBuf[:0], r.num)
	s.valBuf = appendRecord(s.valBuf[:0], rec, r.version, ms)
	_ = g.batch.Set(s.keyBuf, s.valBuf, nil)
	if r.readers.Len() > 0 {
		awaited, err := parseRecord(s.keyBuf, s.valBuf)
		if err != nil {
			panic(err) // it was written just now
		}
		g.awaited = append(g.awaited, &awaited)
	}
}

// deleteRecord deletes a record, its name and its index entries. One that does not exist is not
// an error. The number is not used again.
func (s *Store) deleteRecord(g *group, key store.RecordKey) {
	r := s.pinnedRecord(key)
	if r.version == 0 {
		return
	}
	s.keyBuf = nameKey(s.keyBuf[:0], key)
	_ = g.batch.Delete(s.keyBuf, nil)
	s.keyBuf = recordKey(s.keyBuf[:0], r.num)
	_ = g.batch.Delete(s.keyBuf, nil)
	s.deleteIndex(g, key, r)
	s.setTerms(g, key.Kind, r, r.ms, nil)
	r.num, r.version = 0, 0
}

// setIndex adds a record, as it is now, to the indexes.
func (s *Store) setIndex(g *group, key store.RecordKey, r *recordState) {
	s.valBuf = binary.BigEndian.AppendUint32(s.valBuf[:0], r.name)
	s.keyBuf = indexKey(s.keyBuf[:0], key, r.status, r.ms, r.num)
	_ = g.batch.Set(s.keyBuf, s.valBuf, nil)
	if isShared(key.Tenant) {
		s.keyBuf = sharedIndexKey(s.keyBuf[:0], key, r.status, r.ms, r.num)
		_ = g.batch.Set(s.keyBuf, s.valBuf, nil)
	}
}

// deleteIndex takes a record, as it is now, out of the indexes.
func (s *Store) deleteIndex(g *group, key store.RecordKey, r *recordState) {
	s.keyBuf = indexKey(s.keyBuf[:0], key, r.status, r.ms, r.num)
	_ = g.batch.Delete(s.keyBuf, nil)
	if isShared(key.Tenant) {
		s.keyBuf = sharedIndexKey(s.keyBuf[:0], key, r.status, r.ms, r.num)
		_ = g.batch.Delete(s.keyBuf, nil)
	}
}

// acknowledgeRecords notifies the Await calls for records of a durable group, and releases the
// pins of the group. seq is the sequence number of its batch.
//
// A reader is given the record as its commit wrote it, which saves a read. If
// the record was deleted, or the version that was put is no longer the latest,
// the reader is made to read when nothing of the record is in flight any more:
// only then is it certain that the disk shows what is durable.
func (s *Store) acknowledgeRecords(g *group, seq uint64) {
	for _, rec := range g.awaited {
		r := s.pinnedRecord(rec.Key)
		r.notify(*rec)
	}
	for _, r := range g.records {
		s.recent.addRecord(r.entry.key, seq)
		s.records.unpin(r.entry)
		if r.readers.Len() > 0 && r.entry.pins == r.readers.Len() {
			// No group in flight changes it: what the disk shows is durable.
			r.notifyRead()
		}
	}
}

// notify gives each reader its own copy of the record, if it is past the version that the
// reader has seen.
func (r *recordState) notify(news store.Record) {
	for _, w := range r.readers.All() {
		if news.Version > w.after {
			news.Body, news.Tags = slices.Clone(news.Body), maps.Clone(news.Tags)
			w.Tell(news)
		}
	}
}

// notifyRead makes those readers read the disk whose wait ends with the current version, and
// that have not been given it.
func (r *recordState) notifyRead() {
	for _, w := range r.readers.All() {
		if !w.satisfied(r.version) {
			continue
		}
		news, told := w.Untold()
		if told && news.Version != r.version {
			news = store.Record{}
		}
		w.Tell(news)
	}
}

// satisfied reports whether the wait is over when the record has that version.
func (w *recordReader) satisfied(version int64) bool {
	return version > w.after || (version == 0 && w.after > 0)
}

// Get returns a record, or [store.ErrNotFound]. It reads the disk, so it may return a version
// whose group is applied and not yet durable.
func (s *Store) Get(ctx context.Context, key store.RecordKey) (store.Record, error) {
	if err := store.ValidateGet(key); err != nil {
		return store.Record{}, err
	}
	release, err := s.read(ctx, "get")
	if err != nil {
		return store.Record{}, err
	}
	defer release()
	view, err := s.view()
	if err != nil {
		return store.Record{}, s.readError("get", err)
	}
	defer view.close()
	rec, _, err := s.readRecord(view, key)
	if errors.Is(err, pebble.ErrNotFound) {
		return store.Record{}, store.NotFound("get", key)
	}
	return rec, err
}

// Await returns a record when it is past a version, or [store.ErrNotFound] when it does not
// exist and after is above zero. Unlike Get it returns only what is durable: its caller may
// act on it as on a message.
func (s *Store) Await(ctx context.Context, key store.RecordKey, after int64) (store.Record, error) {
	if err := store.ValidateAwait(key, after); err != nil {
		return store.Record{}, err
	}
	if err := ctx.Err(); err != nil {
		return store.Record{}, err
	}
	if _, err := s.lock("await"); err != nil {
		return store.Record{}, err
	}
	r, err := s.pinRecord(key)
	if err != nil {
		s.mu.Unlock()
		return store.Record{}, err
	}
	w := &recordReader{waitlist.NewReader[store.Record](), after}
	r.readers.Join(w)
	if r.entry.pins == r.readers.Len() && w.satisfied(r.version) { // and no group in flight changes it
		w.Tell(store.Record{})
	}
	s.mu.Unlock()
	defer s.stopAwaiting(r, w)
	for {
		var rec store.Record
		select {
		case rec = <-w.News:
		case <-s.closing:
			return store.Record{}, s.closedError("await")
		case <-ctx.Done():
			return store.Record{}, ctx.Err()
		}
		if rec.Version == 0 {
			if rec, err = s.durable(r, key); err != nil {
				return store.Record{}, err
			}
		}
		switch {
		case rec.Version > after:
			return rec, nil
		case rec.Version == 0 && after > 0:
			return store.Record{}, store.NotFound("await", key)
		}
	}
}

// durable returns what the disk shows of a record, if that is durable, and a record
// of version 0 if it does not exist. If a group in flight changes the record it returns
// version -1, which ends no wait: acknowledgeRecords will notify the reader.
func (s *Store) durable(r *recordState, key store.RecordKey) (store.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.failure != nil {
		return store.Record{}, s.closedErrorLocked("await")
	}
	if r.entry.pins > r.readers.Len() {
		return store.Record{Version: -1}, nil
	}
	rec, _, err := s.readRecord(s.db, key)
	if errors.Is(err, pebble.ErrNotFound) {
		return store.Record{}, nil
	}
	return rec, err
}

// stopAwaiting removes a reader and its pin.
func (s *Store) stopAwaiting(r *recordState, w *recordReader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.readers.Leave(w)
	s.records.unpin(r.entry)
}
