package store

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"time"
)

// Cargo is keys and records with all that they have, leases included.
type Cargo struct {
	Parcel

	// Leases are the live leases of the keys. The attempts of the messages that they delivered
	// are counted in the parcel.
	Leases []CargoLease
}

// CargoLease is a lease of a key.
type CargoLease struct {
	Lease
	Until     time.Time
	Delivered []string // the IDs of the messages that were delivered with it
}

// Sum returns a checksum of all that the cargo holds, which does not depend on its order: the sum of
// the SHA-256 of each key, entry, message, record and lease with all their fields. What is there
// twice counts twice.
func (c *Cargo) Sum() (sum [4]uint64) {
	add := func(fields ...any) {
		var b []byte
		for _, f := range fields {
			switch f := f.(type) {
			case string:
				b = append(binary.AppendUvarint(b, uint64(len(f))), f...)
			case []byte:
				b = append(binary.AppendUvarint(b, uint64(len(f))), f...)
			case int64:
				b = binary.BigEndian.AppendUint64(b, uint64(f)) //nolint:gosec // hashed
			case uint64:
				b = binary.BigEndian.AppendUint64(b, f)
			}
		}
		digest := sha256.Sum256(b)
		for i := range sum {
			sum[i] += binary.BigEndian.Uint64(digest[8*i:])
		}
	}
	for _, h := range c.Keys {
		add("key", h.Key.Queue, h.Key.Tenant, h.Key.Name, h.Route, h.LogTag, int64(h.LogFirst), int64(h.LogLength))
	}
	for _, a := range c.Entries {
		for i, e := range a.Entries {
			add("entry", a.Key.Queue, a.Key.Tenant, a.Key.Name, int64(a.At+i), e)
		}
	}
	for i := range c.Messages {
		m := &c.Messages[i]
		add("message", m.Key.Queue, m.Key.Tenant, m.Key.Name, m.ID, m.Route, Millis(m.VisibleAt), int64(m.TTL), int64(m.Attempt), Millis(m.PutAt), m.Body)
	}
	for i := range c.Records {
		r := &c.Records[i]
		fields := []any{"record", r.Key.Kind, r.Key.Tenant, r.Key.ID, r.Version, r.Status, r.Name, RecordMillis(r.Time), int64(len(r.Tags))}
		for _, name := range slices.Sorted(maps.Keys(r.Tags)) {
			fields = append(fields, name, r.Tags[name])
		}
		add(append(fields, r.Body)...)
	}
	for _, l := range c.Leases {
		fields := []any{"lease", l.Key.Queue, l.Key.Tenant, l.Key.Name, string(l.Token), Millis(l.Until)}
		for _, id := range slices.Sorted(slices.Values(l.Delivered)) {
			fields = append(fields, id)
		}
		add(fields...)
	}
	return sum
}
