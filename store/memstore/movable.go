package memstore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/abidehq/abide/store"
)

var _ store.Movable = (*Store)(nil)

// Tenants calls yield with each tenant.
func (s *Store) Tenants(ctx context.Context, yield func(tenant string) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if _, err := s.lock("tenants"); err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, k := range s.allKeys() {
		seen[k.key.Tenant] = true
	}
	for key := range s.records.byKey {
		seen[key.Tenant] = true
	}
	s.mu.Unlock()
	for tenant := range seen {
		if err := yield(tenant); err != nil {
			return err
		}
	}
	return nil
}

// Outline calls yield with each key and record of the tenants. The revision of a thing is a digest of
// all that it has.
func (s *Store) Outline(ctx context.Context, tenants []string, yield func(store.Mark) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if _, err := s.lock("outline"); err != nil {
		return err
	}
	var things []store.Thing
	for _, k := range s.allKeys() {
		if slices.Contains(tenants, k.key.Tenant) {
			things = append(things, store.Thing{Key: k.key})
		}
	}
	for key := range s.records.byKey {
		if slices.Contains(tenants, key.Tenant) {
			things = append(things, store.Thing{Record: key})
		}
	}
	marks := s.marks(things)
	s.mu.Unlock()
	for _, m := range marks {
		if err := yield(m); err != nil {
			return err
		}
	}
	return nil
}

// marks returns the marks of things that exist.
func (s *Store) marks(things []store.Thing) (marks []store.Mark) {
	for _, t := range things {
		if c := s.cargo([]store.Thing{t}); len(c.Keys)+len(c.Records) > 0 {
			sum := sha256.Sum256(fmt.Appendf(nil, "%#v", c))
			marks = append(marks, store.Mark{Thing: t, Revision: hex.EncodeToString(sum[:])})
		}
	}
	return marks
}

// Take returns all that things have.
func (s *Store) Take(ctx context.Context, things []store.Thing) (store.Cargo, error) {
	if err := ctx.Err(); err != nil {
		return store.Cargo{}, err
	}
	if _, err := s.lock("take"); err != nil {
		return store.Cargo{}, err
	}
	defer s.mu.Unlock()
	return s.cargo(things), nil
}

func (s *Store) cargo(things []store.Thing) (c store.Cargo) {
	for _, t := range things {
		if r := s.records.byKey[t.Record]; r != nil && t.Key.Name == "" {
			c.Records = append(c.Records, copyRecord(r))
		}
		k := s.find(t.Key)
		if k == nil || t.Key.Name == "" {
			continue
		}
		for _, item := range k.items() {
			item.add(&c.Parcel)
		}
		if k.lease == nil {
			continue
		}
		l := store.CargoLease{Lease: store.Lease{Key: k.key, Token: k.lease.token}, Until: store.FromMillis(k.lease.untilMS)}
		for _, m := range k.lease.delivered {
			l.Delivered = append(l.Delivered, m.ID)
		}
		c.Leases = append(c.Leases, l)
	}
	return c
}

// Replace makes the store hold, of the named things, what the cargo holds.
func (s *Store) Replace(ctx context.Context, guard store.Guard, things []store.Thing, c store.Cargo) ([]store.Mark, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	nowMS, err := s.lock("replace")
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	if v := s.records.version(guard.Record); v != guard.Version {
		return nil, store.VersionConflict(guard.Record, guard.Version, v)
	}
	for _, t := range things {
		if t.Key.Name == "" {
			s.setRecord(t.Record, nil)
		} else if k := s.find(t.Key); k != nil {
			k.clear()
			k.queue.settle(k, nowMS)
		}
	}
	s.add(&c.Parcel, nowMS)
	for _, l := range c.Leases {
		s.addLease(&l, nowMS)
	}
	s.serveAll(nowMS)
	return s.marks(things), nil
}

// addLease leases a key that was added, as it was leased elsewhere. Attempts are counted already.
func (s *Store) addLease(l *store.CargoLease, nowMS int64) {
	k := s.key(l.Key)
	s.tokens++
	k.lease = &lease{number: s.tokens, token: l.Token, owner: store.TokenOwner(l.Token), untilMS: store.Millis(l.Until)}
	for _, id := range l.Delivered {
		if m := k.message(id); m != nil {
			k.lease.delivered = append(k.lease.delivered, m)
		}
	}
	k.queue.settle(k, nowMS)
}
