package rows

import (
	"crypto/sha256"
	"encoding/binary"
	"math"

	"github.com/abidehq/abide/store"
)

// Never is a time after all others.
const Never = math.MaxInt64

// ID identifies a key: the first 16 bytes of the SHA-256 of its names. Finding two keys with
// the same ID takes 2⁶⁴ tries, and harms only the program that searched for them.
type ID [16]byte

// IDOf returns the ID of a key.
func IDOf(k store.Key) (id ID) {
	sum := digest(k.Queue, k.Tenant, k.Name)
	copy(id[:], sum[:])
	return id
}

// PartitionOf returns the number of the partition of a queue and a route. Keys without a route
// are in the partition of the empty route. Two partitions with the same number share a bound
// and their hints, which costs queries and nothing else.
func PartitionOf(queue, route string) int64 { return number(digest(queue, route)) }

// TenantOf returns the number of a tenant, which is its place in the round-robin of tenants.
func TenantOf(tenant string) int64 { return number(digest(tenant)) }

// RecordIDOf returns the ID of a record, which is derived as that of a key is.
func RecordIDOf(k store.RecordKey) (id ID) {
	sum := digest(k.Kind, k.Tenant, k.ID)
	copy(id[:], sum[:])
	return id
}

// RecordOf returns the number of a record, by which changes are announced and versions cached.
// Two records may have the same one: their names decide.
func RecordOf(k store.RecordKey) int64 { return number(digest(k.Kind, k.Tenant, k.ID)) }

// digest hashes names, each with its length, so that no two lists of names are the same bytes.
func digest(names ...string) [sha256.Size]byte {
	b := make([]byte, 0, 128)
	for _, name := range names {
		b = binary.AppendUvarint(b, uint64(len(name)))
		b = append(b, name...)
	}
	return sha256.Sum256(b)
}

// number returns the first 8 bytes of a digest.
func number(sum [sha256.Size]byte) int64 {
	return int64(binary.BigEndian.Uint64(sum[:]))
}

// KeyRow is the row of a key: everything but its messages and its log entries. Times are in
// milliseconds since 1970. A key with neither messages nor a log has no row.
type KeyRow struct {
	ID    ID
	Key   store.Key
	Route string

	// Seq is the number of the next message that is put. A key that is deleted and created
	// again starts again at 0.
	Seq int64

	// Count is the number of pending messages.
	Count int

	// First is when the first message of a key with a route is visible; the earliest end
	// of a message's time to live if it has none; Never if there is no message.
	First int64

	LogFirst  int
	LogLength int
	LogTag    uint64

	// The lease: Token is empty if there is none, and carries the owner. It is live until Until; a lease that has
	// expired stays in the row until the key is leased again or changed. Delivered are the
	// numbers of the messages that were delivered with it; the attempt is counted in their
	// rows when the lease ends.
	Token     string
	Until     int64
	Delivered []int64

	// Holder is the number of the process that appended to the log last; 0 if there is no log, or
	// none of a process with a number. A key that is reserved for it has the token ReservedFor.
	Holder int64

	// Inline is a message that is kept in this row instead of one of its own: one that was
	// put while the key had no messages, if it is small. Most keys never have a second
	// message beside it, and then one row is written instead of two. Nil if there is none.
	Inline *MessageRow
}

// MaxInline is the largest size, of ID and body, of a message that is kept in the row of its
// key: that row is written anew with each change of the key.
const MaxInline = 1024

// At returns when the key can be claimed next, or has a message that expires: the end of its
// lease if there is one, and First otherwise.
func (k *KeyRow) At() int64 {
	if k.Token != "" {
		return k.Until
	}
	return k.First
}

// Rows returns how many of the pending messages have rows of their own.
func (k *KeyRow) Rows() int {
	if k.Inline != nil {
		return k.Count - 1
	}
	return k.Count
}

// Take counts a message that is imported, with the number Seq of the row, and reports whether it is
// kept in the row: otherwise it needs a row of its own.
func (k *KeyRow) Take(m *MessageRow) (inline bool) {
	if inline = k.Count == 0 && m.fits(); inline {
		k.Inline = m
	}
	k.Seq++
	k.Count++
	if k.Route == "" {
		k.First = min(k.First, m.Expires())
	} else {
		k.First = min(k.First, m.Visible)
	}
	return inline
}

// Partition returns the number of the partition of the key.
func (k *KeyRow) Partition() int64 { return PartitionOf(k.Key.Queue, k.Route) }

// MessageRow is a pending message. Visible, Put and TTL are in milliseconds.
type MessageRow struct {
	Key     ID
	Seq     int64
	ID      string
	Visible int64
	Put     int64 // when it was put
	TTL     int64 // 0 means store.DefaultTTL
	Attempt int   // deliveries whose leases have ended
	Body    []byte
}

// Expires returns when the message goes to quarantine if its key has no route by then.
func (m *MessageRow) Expires() int64 {
	if m.TTL == 0 {
		return m.Put + store.DefaultTTL.Milliseconds()
	}
	return m.Put + m.TTL
}

// fits reports whether the message can be kept in the row of its key.
func (m *MessageRow) fits() bool { return len(m.ID)+len(m.Body) <= MaxInline }

// Message returns the message of the contract. It shares the body.
func (m *MessageRow) Message(key store.Key, route string) store.Message {
	return store.Message{
		Key: key, ID: m.ID, Route: route, VisibleAt: store.FromMillis(m.Visible), TTL: milliseconds(m.TTL),
		Body: m.Body, Attempt: m.Attempt, PutAt: store.FromMillis(m.Put),
	}
}

// Ref identifies a message by its ID.
type Ref struct {
	Key ID
	ID  string
}
