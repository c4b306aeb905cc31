package memstore

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/abidehq/abide/store"
)

// Commit applies tx.
func (s *Store) Commit(ctx context.Context, tx *store.Tx) error {
	if err := tx.Validate(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	nowMS, err := s.lock("commit")
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	if err := s.check(tx, nowMS); err != nil {
		return err
	}
	s.apply(tx, nowMS)
	s.serveAll(nowMS)
	return nil
}

// check reports whether tx can be applied. It changes nothing.
func (s *Store) check(tx *store.Tx, nowMS int64) error {
	for _, f := range tx.Finish {
		if k := s.find(f.Lease.Key); k == nil || !k.live(f.Lease.Token, nowMS) {
			return store.ClaimLost("commit", f.Lease)
		}
	}
	length := func(key store.Key) int {
		if k := s.find(key); k != nil && !slices.Contains(tx.DeleteKeys, key) {
			return k.logLength()
		}
		return 0
	}
	for _, t := range tx.Trim {
		if n := length(t.Key); t.Before > n {
			return store.LengthConflict(t.Key, t.Before, n)
		}
	}
	for _, a := range tx.Append {
		if n := length(a.Key); a.At != n {
			return store.LengthConflict(a.Key, a.At, n)
		}
	}
	for i := range tx.PutRecords {
		p := &tx.PutRecords[i]
		if v := s.records[p.Record.Key].Version; p.Expect != store.AnyVersion && p.Expect != v {
			return store.VersionConflict(p.Record.Key, p.Expect, v)
		}
	}
	for _, d := range tx.DeleteRecords {
		if v := s.records[d.Key].Version; d.Expect != store.AnyVersion && d.Expect != v {
			return store.VersionConflict(d.Key, d.Expect, v)
		}
	}
	return nil
}

// apply applies a checked tx, in the order that the contract gives.
func (s *Store) apply(tx *store.Tx, nowMS int64) {
	for _, f := range tx.Finish {
		k := s.find(f.Lease.Key)
		delivered := k.lease.delivered
		k.lease = nil
		for id := range delivered {
			if !slices.Contains(f.Keep, id) {
				k.remove(id)
			}
		}
	}
	for _, key := range tx.DeleteKeys {
		delete(s.queue(key.Queue).keys, key)
	}
	for _, t := range tx.Trim {
		if k := s.find(t.Key); k != nil && t.Before > k.logBase {
			k.log = k.log[t.Before-k.logBase:]
			k.logBase = t.Before
		}
	}
	for _, a := range tx.Append {
		k := s.key(a.Key)
		if k.logLength() == 0 {
			k.logTag = a.Tag
		}
		for _, e := range a.Entries {
			k.log = append(k.log, bytes.Clone(e))
		}
	}
	for i := range tx.Put {
		s.put(&tx.Put[i], nowMS)
	}
	for _, r := range tx.Retime {
		if k := s.find(r.Ref.Key); k != nil {
			if m := k.remove(r.Ref.ID); m != nil {
				m.visibleMS = max(nowMS, store.Millis(r.VisibleAt))
				k.insert(m)
			}
		}
	}
	for _, ref := range tx.Delete {
		if k := s.find(ref.Key); k != nil {
			k.remove(ref.ID)
		}
	}
	for i := range tx.PutRecords {
		s.putRecord(tx.PutRecords[i].Record)
	}
	for _, d := range tx.DeleteRecords {
		delete(s.records, d.Key)
		s.announceRecords()
	}
	s.forgetGone(tx)
}

func (s *Store) put(p *store.Message, nowMS int64) {
	if k := s.find(p.Key); p.IfRouted && (k == nil || k.route == "") {
		return
	}
	k := s.key(p.Key)
	if p.Route != "" && p.Route != k.route {
		k.setRoute(p.Route, nowMS)
	}
	if k.index(p.ID) >= 0 {
		return
	}
	ttl := p.TTL
	if ttl == 0 {
		ttl = store.DefaultTTL
	}
	s.seq++
	m := &message{
		Message:   *p,
		visibleMS: max(nowMS, store.Millis(p.VisibleAt)),
		seq:       s.seq,
		expiresMS: nowMS + millis(ttl),
	}
	m.Body = bytes.Clone(p.Body)
	m.TTL = time.Duration(millis(p.TTL)) * time.Millisecond
	m.IfRouted = false
	m.Attempt = 0
	m.PutAt = store.FromMillis(nowMS)
	k.insert(m)
}

// setRoute gives the key a route. No message is visible under it any earlier.
func (k *keyState) setRoute(route string, nowMS int64) {
	k.route = route
	for _, m := range slices.Clone(k.messages) {
		if m.visibleMS < nowMS {
			k.messages = slices.DeleteFunc(k.messages, func(x *message) bool { return x == m })
			m.visibleMS = nowMS
			k.insert(m)
		}
	}
}

func (s *Store) putRecord(r store.Record) {
	r.Version = s.records[r.Key].Version + 1
	r.Time = store.FromMillis(store.RecordMillis(r.Time))
	r.Tags = maps.Clone(r.Tags)
	r.Body = bytes.Clone(r.Body)
	s.records[r.Key] = r
	s.announceRecords()
}

func (s *Store) announceRecords() {
	close(s.recordsChanged)
	s.recordsChanged = make(chan struct{})
}

// forgetGone removes the keys which tx left with neither messages nor a log.
func (s *Store) forgetGone(tx *store.Tx) {
	forget := func(key store.Key) {
		if k := s.find(key); k != nil {
			s.queue(key.Queue).forgetIfGone(k)
		}
	}
	for _, f := range tx.Finish {
		forget(f.Lease.Key)
	}
	for i := range tx.Put {
		forget(tx.Put[i].Key)
	}
	for _, ref := range tx.Delete {
		forget(ref.Key)
	}
}

// Renew makes leases last longer.
func (s *Store) Renew(ctx context.Context, d time.Duration, leases []store.Lease) (lost []store.Lease, err error) {
	if err := store.ValidateRenew(d, leases); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	nowMS, err := s.lock("renew")
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	for _, l := range leases {
		k := s.find(l.Key)
		if k == nil || !k.live(l.Token, nowMS) {
			lost = append(lost, l)
			continue
		}
		k.lease.untilMS = max(k.lease.untilMS, nowMS+millis(d))
	}
	return lost, nil
}

// Release gives up a lease.
func (s *Store) Release(ctx context.Context, r store.Release) error {
	if err := r.Validate(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	nowMS, err := s.lock("release")
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	k := s.find(r.Lease.Key)
	if k == nil || !k.live(r.Lease.Token, nowMS) {
		return store.ClaimLost("release", r.Lease)
	}
	delivered := k.lease.delivered
	k.lease = nil
	for id := range delivered {
		m := k.remove(id)
		if r.After > 0 {
			m.visibleMS = nowMS + millis(r.After)
		}
		if r.Uncounted {
			m.Attempt--
		}
		k.insert(m)
	}
	s.serveAll(nowMS)
	return nil
}
