package transfer

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"maps"
	"slices"

	"github.com/abidehq/abide/store"
)

// Sum is how much of everything there is, and a checksum of it that does not depend on
// the order in which it was counted.
type Sum struct {
	Keys     int
	Messages int
	Entries  int
	Records  int

	// The sum of the hashes of all things, in two halves. A thing that is there twice
	// counts twice, and so does not hide one that is missing.
	High, Low uint64
}

// Checksum returns the checksum as people and programs read it.
func (s Sum) Checksum() string {
	b := binary.BigEndian.AppendUint64(nil, s.High)
	return hex.EncodeToString(binary.BigEndian.AppendUint64(b, s.Low))
}

// Things returns how many messages and records there are: what can be counted in advance.
func (s Sum) Things() int { return s.Messages + s.Records }

// tally is the sums of all tenants, and of all together.
type tally struct {
	tenants map[string]*Sum
	total   Sum
	hash    hash.Hash
	buf     []byte
}

func newTally() *tally { return &tally{tenants: map[string]*Sum{}, hash: sha256.New()} }

// add counts all that a parcel holds, but for the mark of a copy.
func (t *tally) add(p *store.Parcel) {
	for i := range p.Keys {
		h := &p.Keys[i]
		t.begin("key")
		t.key(h.Key)
		t.text(h.Route)
		t.number(h.LogTag)
		t.number(uint64(h.LogFirst))
		t.number(uint64(h.LogLength))
		t.end(h.Key.Tenant, func(s *Sum) { s.Keys++ })
	}
	for i := range p.Entries {
		a := &p.Entries[i]
		for n, entry := range a.Entries {
			t.begin("entry")
			t.key(a.Key)
			t.number(uint64(a.At + n))
			t.bytes(entry)
			t.end(a.Key.Tenant, func(s *Sum) { s.Entries++ })
		}
	}
	for i := range p.Messages {
		m := &p.Messages[i]
		t.begin("message")
		t.key(m.Key)
		t.text(m.ID)
		t.text(m.Route)
		t.number(uint64(store.Millis(m.VisibleAt)))
		t.number(uint64(m.TTL))
		t.number(uint64(m.Attempt))
		t.number(uint64(store.Millis(m.PutAt)))
		t.bytes(m.Body)
		t.end(m.Key.Tenant, func(s *Sum) { s.Messages++ })
	}
	for i := range p.Records {
		if p.Records[i].Key != store.CopyMark {
			t.record(&p.Records[i])
		}
	}
}

func (t *tally) record(r *store.Record) {
	t.begin("record")
	t.text(r.Key.Kind)
	t.text(r.Key.Tenant)
	t.text(r.Key.ID)
	t.number(uint64(r.Version))
	t.text(r.Status)
	t.text(r.Name)
	t.number(uint64(store.RecordMillis(r.Time)))
	t.number(uint64(len(r.Tags)))
	for _, name := range slices.Sorted(maps.Keys(r.Tags)) {
		t.text(name)
		t.text(r.Tags[name])
	}
	t.bytes(r.Body)
	t.end(r.Key.Tenant, func(s *Sum) { s.Records++ })
}

// begin begins to hash a thing. Each field has its length before it, so that no two
// things look alike.
func (t *tally) begin(what string) {
	t.hash.Reset()
	t.buf = t.buf[:0]
	t.text(what)
}

func (t *tally) number(n uint64) { t.buf = binary.BigEndian.AppendUint64(t.buf, n) }

func (t *tally) text(s string) {
	t.number(uint64(len(s)))
	t.buf = append(t.buf, s...)
}

func (t *tally) key(k store.Key) {
	t.text(k.Queue)
	t.text(k.Tenant)
	t.text(k.Name)
}

// bytes hashes a body, which may be large, without a copy of it.
func (t *tally) bytes(b []byte) {
	t.number(uint64(len(b)))
	_, _ = t.hash.Write(t.buf) // it never fails
	_, _ = t.hash.Write(b)
	t.buf = t.buf[:0]
}

// end adds the thing to the sums.
func (t *tally) end(tenant string, count func(*Sum)) {
	_, _ = t.hash.Write(t.buf)
	digest := t.hash.Sum(t.buf[:0])
	high, low := binary.BigEndian.Uint64(digest), binary.BigEndian.Uint64(digest[8:])
	of := t.tenants[tenant]
	if of == nil {
		of = &Sum{}
		t.tenants[tenant] = of
	}
	for _, s := range []*Sum{of, &t.total} {
		s.High += high
		s.Low += low
		count(s)
	}
}
