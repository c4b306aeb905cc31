package pebblestore

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/abidehq/abide/store"
)

var _ store.Portable = (*Store)(nil)

// Exclude stops the quarantine of expired messages until release is called, so that a copy is
// exact. It may be called several times; the last release ends it. Other processes are kept
// out by the lock of the directory anyway.
func (s *Store) Exclude(ctx context.Context) (release func() error, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if _, err := s.lock("exclude"); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	s.excluded++
	s.sweepFrom(math.MaxInt64)
	released := false
	return func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if released || s.closed || s.failure != nil {
			return nil
		}
		released = true
		if s.excluded--; s.excluded == 0 {
			s.sweepFrom(s.firstSweep())
			s.setAlarm(s.now())
		}
		return nil
	}, nil
}

// firstSweep returns from when on expired messages are quarantined: never, if the store is
// opened for inspection.
func (s *Store) firstSweep() int64 {
	if s.inspecting {
		return math.MaxInt64
	}
	return 0
}

// sweepFrom stops the quarantine of expired messages, in all queues, until a time.
func (s *Store) sweepFrom(ms int64) {
	s.sweepAt = ms
	for _, q := range s.queues {
		q.sweepAt = ms
	}
}

// Import adds what a parcel holds and the store does not have yet, in a group with others, and
// waits until the group is durable. A parcel may be imported again after an unknown outcome.
// It returns [store.ErrInvalid] if entries would leave a gap in a log; then nothing has
// changed.
func (s *Store) Import(ctx context.Context, p store.Parcel) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.inspecting {
		return store.ReadOnly("import")
	}
	now, err := s.lock("import")
	if err != nil {
		return err
	}
	if err := s.checkRoom(false); err != nil {
		s.mu.Unlock()
		return err
	}
	g, err := s.joinGroup(ctx)
	if err == nil {
		err = s.importParcel(g, &p, max(now, s.lastNow))
	}
	if err != nil {
		s.mu.Unlock()
		return err
	}
	s.kick()
	s.mu.Unlock()
	return s.wait(ctx, g)
}

// importParcel checks a parcel and adds it to the group, in the steps of a commit: pin, check,
// apply. It shares pinAll by means of a Tx that names the same keys and records, and is not
// applied.
func (s *Store) importParcel(g *group, p *store.Parcel, now int64) error {
	tx := &store.Tx{Append: p.Entries, Put: p.Messages}
	for _, h := range p.Keys {
		tx.Trim = append(tx.Trim, store.Trim{Key: h.Key})
	}
	for i := range p.Records {
		tx.PutRecords = append(tx.PutRecords, store.PutRecord{Record: p.Records[i], Expect: store.AnyVersion})
	}
	keys, records := len(g.keys), len(g.records)
	defer func() { s.lastPinned = nil }()
	err := s.pinAll(g, tx)
	if err == nil {
		err = s.checkParcel(p)
	}
	if err != nil {
		for _, k := range g.keys[keys:] {
			s.unpinKey(k)
		}
		for _, r := range g.records[records:] {
			s.records.unpin(r.entry)
		}
		g.keys, g.records = g.keys[:keys], g.records[:records]
		return err
	}
	if err := s.applyParcel(g, p); err != nil {
		// Half of it is in the batch and in memory: there is no way on from here.
		s.failLocked(err)
		return s.failure
	}
	for _, k := range g.keys[keys:] {
		s.endOfTx(g, k, now)
	}
	return nil
}

// checkParcel returns [store.ErrInvalid] if the entries of a parcel do not follow those of the
// store and of the parcel itself. It changes nothing.
func (s *Store) checkParcel(p *store.Parcel) error {
	lengths := map[store.Key]int{}
	for _, h := range p.Keys {
		lengths[h.Key] = h.LogFirst
	}
	for i := range p.Entries {
		a := &p.Entries[i]
		length := max(s.pinned(a.Key).logLen, lengths[a.Key])
		if a.At > length {
			return fmt.Errorf("store: import: entries of %v begin at %d, and its log has length %d: %w", a.Key, a.At, length, store.ErrInvalid)
		}
		lengths[a.Key] = max(length, a.At+len(a.Entries))
	}
	return nil
}

// applyParcel adds what the store does not have: heads, the entries behind the end of each log,
// messages whose ID is free, and records with another version.
func (s *Store) applyParcel(g *group, p *store.Parcel) error {
	for i := range p.Keys {
		s.importHead(g, &p.Keys[i])
	}
	for i := range p.Entries {
		a := p.Entries[i]
		k := s.pinned(a.Key)
		if have := k.logLen - a.At; have < len(a.Entries) {
			a.Entries, a.Tag = a.Entries[have:], k.logTag
			s.append(g, &a)
		}
	}
	for i := range p.Messages {
		if err := s.importMessage(g, &p.Messages[i]); err != nil {
			return err
		}
	}
	for i := range p.Records {
		rec := &p.Records[i]
		if s.pinnedRecord(rec.Key).version != rec.Version { // it was not imported before
			s.putRecordAt(g, rec, rec.Version)
		}
	}
	return nil
}

// importHead gives a key the route, and the log without its entries, that it had in the store
// it was exported from. A key that has a log already keeps it.
func (s *Store) importHead(g *group, h *store.KeyHead) {
	k := s.pinned(h.Key)
	if k.route == "" {
		k.route = h.Route
		k.headerDirty = k.headerDirty || k.hasLog
	}
	if h.LogLength == 0 || k.hasLog {
		return
	}
	k.hasLog, k.log, k.logTag, k.logBase, k.headerDirty = true, s.newID(g), h.LogTag, h.LogFirst, true
	k.changed = g
	if h.LogFirst > 0 {
		// The length of a log follows from its last value, so a log whose entries are all
		// trimmed has one, empty, before its first entry.
		k.logLen = h.LogFirst - 1
		s.append(g, &store.Append{Key: h.Key, Entries: [][]byte{nil}})
	}
}

// importMessage puts a message with the times and the attempts that it had, unless its ID is
// taken.
func (s *Store) importMessage(g *group, m *store.Message) error {
	k := s.pinned(m.Key)
	if r, err := s.lookup(k, m.ID); r != nil || err != nil {
		return err
	}
	if k.route == "" {
		k.route = m.Route // its head was in an earlier parcel, and a route alone is not stored
	}
	if k.partition == nil {
		k.partition = s.partition(g, k.key, k.route)
	}
	r := &ref{
		id: m.ID, size: len(m.Body), attempt: m.Attempt,
		data: &msgData{putMS: store.Millis(m.PutAt), ttlMS: millis(m.TTL), body: slices.Clone(m.Body)},
	}
	p := pos{due: store.Millis(m.VisibleAt), seq: s.newID(g)}
	if k.route == "" {
		r.data.hidden, r.data.visibleMS = true, p.due
		ttl := r.data.ttlMS
		if ttl == 0 {
			ttl = millis(store.DefaultTTL)
		}
		p.due = r.data.putMS + ttl
	}
	k.count++
	s.occupy(g, k, r, p)
	return nil
}
