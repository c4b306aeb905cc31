package memstore

import (
	"bytes"
	"context"
	"time"

	"github.com/abidehq/abide/store"
)

// Commit applies tx.
func (s *Store) Commit(ctx context.Context, tx *store.Tx) error { return s.commit(ctx, nil, tx) }

// commit applies tx for a process, or for the only one.
func (s *Store) commit(ctx context.Context, p *Process, tx *store.Tx) error {
	if err := tx.ValidateWithin(s.limits); err != nil {
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
	if p.fenced() {
		return store.Fenced("commit")
	}
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
		if k := s.find(f.Lease.Key); k == nil || !k.holds(f.Lease.Token) {
			return store.ClaimLost("commit", f.Lease)
		}
	}
	deleted := set(tx.DeleteKeys)
	length := func(key store.Key) int {
		if k := s.find(key); k != nil && !deleted[key] {
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
		if k := s.find(a.Key); a.Idle && k != nil && !deleted[a.Key] && !k.idle(nowMS) {
			return store.BusyConflict(a.Key)
		}
	}
	for i := range tx.PutRecords {
		p := &tx.PutRecords[i]
		if v := s.records.version(p.Record.Key); p.Expect != store.AnyVersion && p.Expect != v {
			return store.VersionConflict(p.Record.Key, p.Expect, v)
		}
	}
	for _, d := range tx.DeleteRecords {
		if v := s.records.version(d.Key); d.Expect != store.AnyVersion && d.Expect != v {
			return store.VersionConflict(d.Key, d.Expect, v)
		}
	}
	return nil
}

// apply applies a checked tx, in the order that the contract gives.
func (s *Store) apply(tx *store.Tx, nowMS int64) {
	for _, f := range tx.Finish {
		k := s.find(f.Lease.Key)
		delivered, keep := k.lease.delivered, set(f.Keep)
		k.lease = nil
		for _, m := range delivered {
			if !keep[m.ID] {
				k.remove(m)
			}
		}
	}
	for _, key := range tx.DeleteKeys {
		if k := s.find(key); k != nil {
			k.clear()
			k.queue.settle(k, nowMS)
		}
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
		if a.Route != "" && a.Route != k.route {
			k.setRoute(a.Route, nowMS)
		}
		for _, e := range a.Entries {
			k.log = append(k.log, bytes.Clone(e))
		}
	}
	for i := range tx.Put {
		s.put(&tx.Put[i], nowMS)
	}
	for _, r := range tx.Retime {
		if m := s.message(r.Ref); m != nil {
			m.owner.remove(m)
			m.visibleMS = max(nowMS, store.Millis(r.VisibleAt))
			m.owner.insert(m)
		}
	}
	for _, ref := range tx.Delete {
		if m := s.message(ref); m != nil {
			m.owner.remove(m)
		}
	}
	for i := range tx.PutRecords {
		s.putRecord(tx.PutRecords[i].Record)
	}
	for _, d := range tx.DeleteRecords {
		s.setRecord(d.Key, nil)
	}
	s.settle(tx, nowMS)
}

func (s *Store) put(p *store.Message, nowMS int64) {
	if k := s.find(p.Key); p.IfRouted && (k == nil || k.route == "") {
		return
	}
	k := s.key(p.Key)
	if p.Route != "" && p.Route != k.route {
		k.setRoute(p.Route, nowMS)
	}
	if k.message(p.ID) != nil {
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

// settle brings the indexes up to date with what tx did to keys, and forgets keys that
// it left with neither messages nor a log.
func (s *Store) settle(tx *store.Tx, nowMS int64) {
	settle := func(key store.Key) {
		if k := s.find(key); k != nil {
			k.queue.settle(k, nowMS)
		}
	}
	for _, f := range tx.Finish {
		settle(f.Lease.Key)
	}
	for i := range tx.Append {
		settle(tx.Append[i].Key)
	}
	for i := range tx.Put {
		settle(tx.Put[i].Key)
	}
	for _, r := range tx.Retime {
		settle(r.Ref.Key)
	}
	for _, ref := range tx.Delete {
		settle(ref.Key)
	}
}

func set[T comparable](items []T) map[T]bool {
	if len(items) == 0 {
		return nil
	}
	m := make(map[T]bool, len(items))
	for _, item := range items {
		m[item] = true
	}
	return m
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
		if k == nil || !k.holds(l.Token) {
			lost = append(lost, l)
			continue
		}
		k.lease.untilMS = max(k.lease.untilMS, nowMS+millis(d))
		k.queue.settle(k, nowMS)
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
	if k == nil || !k.holds(r.Lease.Token) {
		return store.ClaimLost("release", r.Lease)
	}
	delivered := k.lease.delivered
	k.lease = nil
	for _, m := range delivered {
		k.remove(m)
		if r.After > 0 {
			m.visibleMS = nowMS + millis(r.After)
		}
		if r.Uncounted {
			m.Attempt--
		}
		k.insert(m)
	}
	k.queue.settle(k, nowMS)
	s.serve(k.queue, nowMS)
	return nil
}
