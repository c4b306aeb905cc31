package pebblestore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/abidehq/abide/store"
)

// formatVersion is the version of what this file lays out; docs/format.md is its
// document.
const formatVersion = 3

// The first byte of a database key says what it is. Numbers in keys are big-endian,
// so that byte order is number order.
const (
	tagMeta      byte = 1  // name → value
	tagPartition byte = 2  // partition → queue, tenant, route, count, floor
	tagKey       byte = 3  // queue, tenant, name, then one of the key* bytes below
	tagMsg       byte = 4  // partition, due, seq → message
	tagLog       byte = 5  // log, index of the first entry → entries
	tagName      byte = 6  // kind, tenant, id → number of the record
	tagRecord    byte = 7  // number → record
	tagIndex     byte = 8  // kind, tenant, status, time, number → sum of the name
	tagShared    byte = 9  // kind, status, time, number → sum of the name: records of all tenants but ""
	tagTerm      byte = 10 // kind, hash of a tag, time, number → nothing
)

// What follows a key's names in a database key.
const (
	keyHeader  byte = 0 // → log number, trimmed entries, tag, route: there if the key has a log
	keyPending byte = 1 // message ID → partition, due, seq
)

var (
	metaFormat = []byte{tagMeta, 'f'} // in decimal digits
	metaOldest = []byte{tagMeta, 'o'} // the oldest reader, likewise; missing if it is the format
	metaShared = []byte{tagMeta, 's'} // the first index key that is not in the shared index; missing if all are
	metaTerms  = []byte{tagMeta, 't'} // the first record whose tags are not in the index of terms; missing if all are
	metaIDs    = []byte{tagMeta, 'i'} // numbers below this one may be taken
)

// pos is the position of a message in its partition: by time, then by when it was put.
//
// Positions are unique within a partition: seq is never used twice. Their order
// is that of the database keys, so that a range of time is a range of keys.
type pos struct {
	due int64 // in milliseconds; of a message without a route, when it expires
	seq uint64
}

var maxPos = pos{due: math.MaxInt64, seq: math.MaxUint64}

func (p pos) less(q pos) bool {
	if p.due != q.due {
		return p.due < q.due
	}
	return p.seq < q.seq
}

func (p pos) next() pos { return pos{due: p.due, seq: p.seq + 1} }

// split tells Pebble which part of a database key its Bloom filters cover. Of the values of a
// key of the contract it is the key's names, so that one probe tells whether the key has
// anything; of all others it is the whole database key.
func split(k []byte) int {
	if len(k) == 0 || k[0] != tagKey {
		return len(k)
	}
	i := 1
	for range 3 {
		n, w := binary.Uvarint(k[i:])
		if w <= 0 || n > uint64(len(k)-i-w) {
			return len(k)
		}
		i += w + int(n)
	}
	return i
}

// comparer orders database keys by their bytes. Its name is stored: Pebble refuses to open a
// database with another one.
var comparer = func() *pebble.Comparer {
	c := *pebble.DefaultComparer
	c.Name = "abide.1"
	c.Split = split
	// Shortened separators would not split where keys do.
	c.Separator = func(dst, a, _ []byte) []byte { return append(dst, a...) }
	c.Successor = func(dst, a []byte) []byte { return append(dst, a...) }
	return &c
}()

// appendString appends a string with its length before it, so that strings may hold any bytes
// and no name is a prefix of another.
func appendString(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

func partitionKey(b []byte, partition uint32) []byte {
	return binary.BigEndian.AppendUint32(append(b, tagPartition), partition)
}

// keyPrefix returns what all database keys of a key begin with.
func keyPrefix(b []byte, k store.Key) []byte {
	b = append(b, tagKey)
	b = appendString(b, k.Queue)
	b = appendString(b, k.Tenant)
	return appendString(b, k.Name)
}

func headerKey(b []byte, k store.Key) []byte { return append(keyPrefix(b, k), keyHeader) }

// pendingKey returns the database key under which the location of a message is found by its
// key and ID: how a put finds out that an ID is taken, and a delete what to delete.
func pendingKey(b []byte, k store.Key, id string) []byte {
	return append(append(keyPrefix(b, k), keyPending), id...)
}

// msgKey returns the database key of a location. The messages of a partition are one range, in
// the order in which they become due.
func msgKey(b []byte, partition uint32, p pos) []byte {
	b = binary.BigEndian.AppendUint32(append(b, tagMsg), partition)
	b = binary.BigEndian.AppendUint64(b, uint64(p.due))
	return binary.BigEndian.AppendUint64(b, p.seq)
}

// parseMsgKey returns the position in the database key of a message.
func parseMsgKey(k []byte) pos {
	return pos{due: int64(binary.BigEndian.Uint64(k[5:])), seq: binary.BigEndian.Uint64(k[13:])}
}

// logKey returns the database key of the value whose first entry has an index.
func logKey(b []byte, log uint64, index int) []byte {
	b = binary.BigEndian.AppendUint64(append(b, tagLog), log)
	return binary.BigEndian.AppendUint64(b, uint64(index))
}

// nameKey returns the database key of a record's number. Bodies are under the number, so that
// the indexes, which have the number, find them without the names.
func nameKey(b []byte, k store.RecordKey) []byte {
	b = appendString(append(b, tagName), k.Kind)
	b = appendString(b, k.Tenant)
	return appendString(b, k.ID)
}

func recordKey(b []byte, num uint64) []byte {
	return binary.BigEndian.AppendUint64(append(b, tagRecord), num)
}

// indexPrefix returns the part of an index key that is before the time.
func indexPrefix(b []byte, kind, tenant, status string) []byte {
	b = appendString(append(b, tagIndex), kind)
	b = appendString(b, tenant)
	return appendString(b, status)
}

// nameSum returns the checksum of a record's name that the index has. With it a list by name
// skips nearly all other records without reading them.
func nameSum(name string) uint32 { return crc32.ChecksumIEEE([]byte(name)) }

func indexKey(b []byte, k store.RecordKey, status string, ms int64, num uint64) []byte {
	b = indexPrefix(b, k.Kind, k.Tenant, status)
	b = binary.BigEndian.AppendUint64(b, uint64(ms))
	return binary.BigEndian.AppendUint64(b, num)
}

// sharedIndexKey returns the key of a record in the shared index.
//
// A query over all tenants would read as many ranges of the index as there are tenants:
// the shared index has them all in one. The empty tenant, which is the only one of most
// stores, is not in it: its records are one range already, and are not written twice.
func sharedIndexKey(b []byte, k store.RecordKey, status string, ms int64, num uint64) []byte {
	b = appendString(append(b, tagShared), k.Kind)
	b = appendString(b, status)
	b = binary.BigEndian.AppendUint64(b, uint64(ms))
	return binary.BigEndian.AppendUint64(b, num)
}

// isShared reports whether records of a tenant are in the shared index.
func isShared(tenant string) bool { return tenant != "" }

// upper returns the first database key after all those with the prefix.
func upper(prefix []byte) []byte {
	end := slices.Clone(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}

var errShort = errors.New("value is cut short")

// reader decodes a value. After an error it returns zero values, so that only
// the end needs a check.
type reader struct {
	b   []byte
	err error
}

func (r *reader) uvarint() uint64 {
	n, w := binary.Uvarint(r.b)
	if w <= 0 {
		r.err = errShort
		r.b = nil
		return 0
	}
	r.b = r.b[w:]
	return n
}

func (r *reader) bytes() []byte {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.err = errShort
		r.b = nil
		return nil
	}
	b := r.b[:n:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) string() string { return string(r.bytes()) }

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.err = errShort
		return 0
	}
	b := r.b[0]
	r.b = r.b[1:]
	return b
}

// check returns [store.ErrCorrupt] for a value that could not be decoded.
func (r *reader) check(what string, key []byte) error {
	if r.err != nil {
		return fmt.Errorf("pebblestore: %s at %x: %w: %w", what, key, r.err, store.ErrCorrupt)
	}
	return nil
}

// msgFlagHidden marks a message without a route: its position is its expiry, so its value has
// the time at which it is visible.
const msgFlagHidden byte = 1

// msgData is the value of a message, without the names that refs and keys have.
type msgData struct {
	attempt   int // when it was put at its location; the journal may have a later number
	putMS     int64
	ttlMS     int64 // 0 means store.DefaultTTL, while it has no route
	visibleMS int64 // only if hidden
	hidden    bool  // its key has no route
	body      []byte
}

// appendMsg encodes the value of a message. It has the name of the key and the ID, so that load
// needs no other value: queue and tenant are those of the partition.
func appendMsg(b []byte, name, id string, d *msgData) []byte {
	flags := byte(0)
	if d.hidden {
		flags |= msgFlagHidden
	}
	b = append(b, flags)
	b = binary.AppendUvarint(b, uint64(d.attempt))
	b = binary.AppendUvarint(b, uint64(d.putMS))
	b = binary.AppendUvarint(b, uint64(d.ttlMS))
	if d.hidden {
		b = binary.AppendUvarint(b, uint64(d.visibleMS))
	}
	b = appendString(b, name)
	b = appendString(b, id)
	return append(b, d.body...)
}

// parseMsg decodes the value of a message. The body is part of v.
func parseMsg(key, v []byte) (name, id string, d msgData, err error) {
	r := reader{b: v}
	flags := r.byte()
	d.hidden = flags&msgFlagHidden != 0
	d.attempt = int(r.uvarint())
	d.putMS = int64(r.uvarint())
	d.ttlMS = int64(r.uvarint())
	if d.hidden {
		d.visibleMS = int64(r.uvarint())
	}
	name = r.string()
	id = r.string()
	d.body = r.b
	return name, id, d, r.check("message", key)
}

func appendPending(b []byte, partition uint32, p pos) []byte {
	b = binary.AppendUvarint(b, uint64(partition))
	b = binary.AppendUvarint(b, uint64(p.due))
	return binary.AppendUvarint(b, p.seq)
}

func parsePending(key, v []byte) (partition uint32, p pos, err error) {
	r := reader{b: v}
	partition = uint32(r.uvarint())
	p.due = int64(r.uvarint())
	p.seq = r.uvarint()
	return partition, p, r.check("pending message", key)
}

// header is the value of a key that has a log. A key without a log has no header: its route is
// that of the partition of its messages.
type header struct {
	log   uint64 // its number
	base  int    // how many entries were trimmed
	tag   uint64 // that it was begun with
	route string
}

func appendHeader(b []byte, h header) []byte {
	b = binary.AppendUvarint(b, h.log)
	b = binary.AppendUvarint(b, uint64(h.base))
	b = binary.AppendUvarint(b, h.tag)
	return append(b, h.route...)
}

func parseHeader(key, v []byte) (h header, err error) {
	r := reader{b: v}
	h.log = r.uvarint()
	h.base = int(r.uvarint())
	h.tag = r.uvarint()
	h.route = string(r.b)
	return h, r.check("header", key)
}

// appendPartition encodes the header of a partition. It is written with each group that
// touches the partition, so that count and floor are always those of the same batch.
func appendPartition(b []byte, l *partition, floor pos) []byte {
	b = appendString(b, l.queue.name)
	b = appendString(b, l.tenant)
	b = appendString(b, l.route)
	b = binary.AppendUvarint(b, uint64(l.count))
	b = binary.AppendUvarint(b, uint64(floor.due))
	return binary.AppendUvarint(b, floor.seq)
}

// appendEntries packs the entries of one append into one value.
func appendEntries(b []byte, entries [][]byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(entries)))
	for _, e := range entries {
		b = binary.AppendUvarint(b, uint64(len(e)))
		b = append(b, e...)
	}
	return b
}

// parseEntries calls yield with each entry of a packed value, until it returns
// false. The entries are parts of v.
func parseEntries(key, v []byte, yield func(i int, entry []byte) bool) error {
	r := reader{b: v}
	n := int(r.uvarint())
	for i := 0; i < n && r.err == nil; i++ {
		if e := r.bytes(); r.err == nil && !yield(i, e) {
			return nil
		}
	}
	return r.check("log entries", key)
}

// countEntries returns how many entries a packed value has.
func countEntries(key, v []byte) (int, error) {
	r := reader{b: v}
	n := int(r.uvarint())
	return n, r.check("log entries", key)
}

// appendRecord encodes the value of a record, with its key, so that a list needs no other value.
// Tags are sorted: the same record always has the same bytes.
func appendRecord(b []byte, r *store.Record, version, ms int64) []byte {
	b = binary.AppendUvarint(b, uint64(version))
	b = binary.AppendUvarint(b, uint64(ms))
	b = appendString(b, r.Key.Kind)
	b = appendString(b, r.Key.Tenant)
	b = appendString(b, r.Key.ID)
	b = appendString(b, r.Status)
	b = appendString(b, r.Name)
	b = binary.AppendUvarint(b, uint64(len(r.Tags)))
	if len(r.Tags) > 0 {
		for _, name := range slices.Sorted(maps.Keys(r.Tags)) {
			b = appendString(b, name)
			b = appendString(b, r.Tags[name])
		}
	}
	return append(b, r.Body...)
}

// parseRecord decodes the value of a record. The result is a copy.
func parseRecord(key, v []byte) (store.Record, error) {
	r := reader{b: v}
	rec := store.Record{Version: int64(r.uvarint()), Time: store.FromMillis(int64(r.uvarint()))}
	rec.Key = store.RecordKey{Kind: r.string(), Tenant: r.string(), ID: r.string()}
	rec.Status = r.string()
	rec.Name = r.string()
	if n := int(r.uvarint()); n > 0 && r.err == nil {
		rec.Tags = make(map[string]string, min(n, store.MaxTags))
		for range n {
			name := r.string()
			rec.Tags[name] = r.string()
			if r.err != nil {
				break
			}
		}
	}
	rec.Body = slices.Clone(r.b)
	return rec, r.check("record", key)
}
