package redisstore

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"

	"github.com/abidehq/abide/store"
)

// Names may hold any bytes, so each is written with its length before it: that of a queue,
// a kind or a process in one byte, that of others in two. The last one of several needs
// none.

func short(b []byte, s string) []byte { return append(append(b, byte(len(s))), s...) }

func long(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...) //nolint:gosec // names have 1024 bytes at most
}

// triple is the ID of a key or of a record.
func triple(first, tenant, last string) string {
	b := make([]byte, 0, 3+len(first)+len(tenant)+len(last))
	return string(append(long(short(b, first), tenant), last...))
}

// keyID is the name of a key on the server, after the letter of its kind. Keys of a queue and
// of a tenant share a prefix, which no script relies on.
func keyID(k store.Key) string { return triple(k.Queue, k.Tenant, k.Name) }

func recordID(k store.RecordKey) string { return triple(k.Kind, k.Tenant, k.ID) }

func parseKey(id string) (store.Key, error) {
	r := reader{s: id}
	k := store.Key{Queue: r.short(), Tenant: r.long(), Name: r.rest()}
	return k, r.check("key", id)
}

func parseRecordKey(id string) (store.RecordKey, error) {
	r := reader{s: id}
	k := store.RecordKey{Kind: r.short(), Tenant: r.long(), ID: r.rest()}
	return k, r.check("record", id)
}

// parsePartition returns the queue and the route that a partition is of.
func parsePartition(partition string) (queue, route string, err error) {
	r := reader{s: partition}
	queue, route = r.short(), r.long()
	return queue, route, r.check("partition", partition)
}

// digest is how hints name a record. If two records share one, a change of either makes the
// Await calls of the other read in vain.
func digest(rid string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(rid)) // it never fails
	return h.Sum64()
}

// A record is its version, time and status, then the length of its name and tags, these,
// and the body.

// restOf returns what follows the status of a record.
func restOf(r *store.Record) string {
	size := 2 + len(r.Name) + 2
	for name, value := range r.Tags {
		size += 4 + len(name) + len(value)
	}
	b := make([]byte, 0, 4+size+len(r.Body))
	b = binary.BigEndian.AppendUint32(b, uint32(size)) //nolint:gosec // 64 tags at most
	b = long(b, r.Name)
	b = binary.BigEndian.AppendUint16(b, uint16(len(r.Tags))) //nolint:gosec // 64 tags at most
	for _, name := range slices.Sorted(maps.Keys(r.Tags)) {
		b = long(long(b, name), r.Tags[name])
	}
	return string(append(b, r.Body...))
}

func parseRecord(rid, raw string) (store.Record, error) {
	key, err := parseRecordKey(rid)
	if err != nil {
		return store.Record{}, err
	}
	r := reader{s: raw}
	rec := store.Record{Key: key, Version: r.int64(), Time: store.FromMillis(r.int64()), Status: r.long()}
	_ = r.take(4)
	rec.Name = r.long()
	if n := r.uint16(); n > 0 {
		rec.Tags = make(map[string]string, n)
		for range n {
			name := r.long()
			rec.Tags[name] = r.long()
		}
	}
	rec.Body = []byte(r.rest())
	return rec, r.check("record", rid)
}

// parseMessage returns a message from what is stored of it.
func parseMessage(key store.Key, route, id, raw string, visible, attempt int64) (store.Message, error) {
	r := reader{s: raw}
	m := store.Message{Key: key, ID: id, Route: route, VisibleAt: store.FromMillis(visible), Attempt: int(attempt)}
	m.PutAt = store.FromMillis(r.int64())
	m.TTL = durationMS(r.int64())
	m.Body = []byte(r.rest())
	return m, r.check("message", id)
}

// reader decodes names, records and messages. Input that is too short reads as empty, and
// check reports it at the end as [store.ErrCorrupt].
type reader struct {
	s        string
	tooShort bool
}

func (r *reader) take(n int) string {
	if n > len(r.s) {
		r.tooShort = true
		n = len(r.s)
	}
	taken := r.s[:n]
	r.s = r.s[n:]
	return taken
}

func (r *reader) uint16() int {
	b := r.take(2)
	if len(b) < 2 {
		return 0
	}
	return int(b[0])<<8 | int(b[1])
}

func (r *reader) uint32() int {
	b := r.take(4)
	if len(b) < 4 {
		return 0
	}
	return int(binary.BigEndian.Uint32([]byte(b)))
}

func (r *reader) int64() int64 {
	b := r.take(8)
	if len(b) < 8 {
		return 0
	}
	return int64(binary.BigEndian.Uint64([]byte(b))) //nolint:gosec // times and versions, never negative
}

func (r *reader) short() string {
	b := r.take(1)
	if b == "" {
		return ""
	}
	return r.take(int(b[0]))
}

func (r *reader) long() string { return r.take(r.uint16()) }

func (r *reader) rest() string { return r.take(len(r.s)) }

func (r *reader) check(what, of string) error {
	if r.tooShort {
		return fmt.Errorf("redisstore: what is stored of %s %q is too short: %w", what, of, store.ErrCorrupt)
	}
	return nil
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

func yesNo(set bool) string {
	if set {
		return "1"
	}
	return "0"
}
