package redisstore

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/abidehq/abide/store"
)

var importScript = newScript("import", true, false, "head", "time", "key", "record", "hint", "import")

// Import adds what a parcel holds and the store does not have yet, in one script for each
// segment. A parcel may be imported again, after an unknown outcome. It returns
// [store.ErrInvalid] if entries would leave a gap in a log.
func (s *Store) Import(ctx context.Context, p store.Parcel) error {
	if err := validate(&p); err != nil {
		return err
	}
	done, err := s.begin(ctx, "import")
	if err != nil {
		return err
	}
	defer done()
	parts := s.splitParcel(&p)
	return s.forAll(func(i int, seg *segment) error {
		if part := parts[i]; len(part.Keys)+len(part.Entries)+len(part.Messages)+len(part.Records) > 0 {
			return s.importSegment(ctx, seg, part)
		}
		return nil
	})
}

// splitParcel returns the parts of a parcel, one for each segment. Each keeps the order.
func (s *Store) splitParcel(p *store.Parcel) []*store.Parcel {
	if !s.several() {
		return []*store.Parcel{p}
	}
	parts := make([]*store.Parcel, len(s.segments))
	for i := range parts {
		parts[i] = &store.Parcel{}
	}
	p.Divide(func(tenant string) *store.Parcel { return parts[segmentIndex(tenant, len(parts))] })
	return parts
}

// importSegment imports a parcel into one segment.
func (s *Store) importSegment(ctx context.Context, seg *segment, p *store.Parcel) error {
	m, err := s.evalDurably(ctx, seg, importScript, s.importArgs(seg, p))
	if err != nil {
		return err
	}
	a := read(m)
	if verdict := a.text(); verdict == "gap" {
		i, length := int(a.num())-1, a.num()
		if a.err != nil || i < 0 || i >= len(p.Entries) {
			return fmt.Errorf("redisstore: import: %w", errShort)
		}
		return fmt.Errorf("store: import: entries of %v begin at %d, and its log has length %d: %w", p.Entries[i].Key, p.Entries[i].At, length, store.ErrInvalid)
	}
	now := a.num()
	ready := s.parseReady(a.sub())
	s.noteExpiry(seg, now, a.num())
	s.wake(seg, now, ready)
	s.notifyEach(s.awaited(), func(*awaiter) bool { return true })
	if a.err != nil {
		return fmt.Errorf("redisstore: import: %w", a.err)
	}
	return nil
}

// validate checks each item of a parcel by the rules of commits: a parcel may come from a file.
func validate(p *store.Parcel) error {
	check := func(tx store.Tx) error {
		if err := tx.Validate(); err != nil {
			return fmt.Errorf("redisstore: import: %w", err)
		}
		return nil
	}
	for _, h := range p.Keys {
		// A route is checked with a message.
		tx := store.Tx{Put: []store.Message{{Key: h.Key, ID: "head", Route: h.Route}}, Trim: []store.Trim{{Key: h.Key, Before: h.LogFirst}}}
		if err := check(tx); err != nil {
			return err
		}
	}
	for _, a := range p.Entries {
		if len(a.Entries) == 0 {
			continue
		}
		if err := check(store.Tx{Append: []store.Append{a}}); err != nil {
			return err
		}
	}
	for i := range p.Messages {
		if err := check(store.Tx{Put: p.Messages[i : i+1]}); err != nil {
			return err
		}
	}
	for i := range p.Records {
		if err := check(store.Tx{PutRecords: []store.PutRecord{{Record: p.Records[i], Expect: p.Records[i].Version}}}); err != nil {
			return err
		}
	}
	return nil
}

// importArgs encodes a parcel; import.lua reads it.
func (s *Store) importArgs(seg *segment, p *store.Parcel) args {
	var hint []byte
	for i := range p.Records {
		hint = binary.BigEndian.AppendUint64(hint, digest(recordID(p.Records[i].Key)))
	}
	if len(p.Records) > maxHinted {
		hint = []byte(manyRecords)
	}
	a := args{s.listenArg(seg), string(hint)}
	a.len(len(p.Keys))
	for _, h := range p.Keys {
		a.add(keyID(h.Key), h.Route, fmt.Sprint(h.LogTag))
		a.len(h.LogFirst)
	}
	a.len(len(p.Entries))
	for _, e := range p.Entries {
		a.add(keyID(e.Key))
		a.len(e.At)
		a.len(len(e.Entries))
		for _, entry := range e.Entries {
			a.add(string(entry))
		}
	}
	a.len(len(p.Messages))
	for i := range p.Messages {
		m := &p.Messages[i]
		a.add(keyID(m.Key), m.ID)
		a.num(store.Millis(m.VisibleAt))
		a.num(store.Millis(m.PutAt))
		a.num(millis(m.TTL))
		a.len(m.Attempt)
		a.add(string(m.Body))
	}
	a.len(len(p.Records))
	for i := range p.Records {
		r := &p.Records[i]
		a.add(recordID(r.Key))
		a.num(r.Version)
		a.record(r)
	}
	return a
}
