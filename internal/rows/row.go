package rows

import (
	"crypto/sha256"
	"encoding/binary"
	"math"

	"github.com/abidehq/abide/store"
)

// Never is a time that does not come.
const Never = math.MaxInt64

// ID names a key: the first 16 bytes of the SHA-256 of its names. Two names with the
// same ID would take 2⁶⁴ tries to find, and harm nobody but who looked for them.
type ID [16]byte

// IDOf returns the ID of a key.
func IDOf(k store.Key) (id ID) {
	sum := digest(k.Queue, k.Tenant, k.Name)
	copy(id[:], sum[:])
	return id
}

// LaneOf returns the number of the partition of a queue and a route: what is claimed
// together. Keys without a route are in the partition of the empty one.
func PartitionOf(queue, route string) int64 { return number(digest(queue, route)) }

// TurnOf returns the number of a tenant, in whose order tenants take turns.
func TenantOf(tenant string) int64 { return number(digest(tenant)) }

// RecordIDOf returns the ID of a record, as IDOf does that of a key.
func RecordIDOf(k store.RecordKey) (id ID) {
	sum := digest(k.Kind, k.Tenant, k.ID)
	copy(id[:], sum[:])
	return id
}

// RecordOf returns the number under which the change of a record is announced.
func RecordOf(k store.RecordKey) int64 { return number(digest(k.Kind, k.Tenant, k.ID)) }

func digest(names ...string) [sha256.Size]byte {
	b := make([]byte, 0, 128)
	for _, name := range names {
		b = binary.AppendUvarint(b, uint64(len(name)))
		b = append(b, name...)
	}
	return sha256.Sum256(b)
}

func number(sum [sha256.Size]byte) int64 {
	return int64(binary.BigEndian.Uint64(sum[:]))
}

// KeyRow is all that a key has besides its messages and its entries. Times are in
// milliseconds since 1970.
type KeyRow struct {
	ID    ID
	Key   store.Key
	Route string

	// Seq is the number of the next message that is put. Numbers are of the key, and a
	// key that is deleted and made again starts again.
	Seq int64

	// Count is the number of pending messages.
	Count int

	// First is when the first message of a key with a route is visible; the earliest end
	// of a message's time to live if it has none; Never if there is no message.
	First int64

	LogFirst  int
	LogLength int
	LogTag    uint64

	// The lease, which may have ended by time: Token is empty if there is none. Delivered
	// are the numbers of the messages that were delivered with it; the attempt is not
	// counted in their rows before the lease has ended.
	Token     string
	Until     int64
	Delivered []int64

	// Inline is a message that is kept in the row, and has no row of its own: the one that
	// was put while the key had none, if it is small. Most keys never have another one
	// beside it. Nil if there is none.
	Inline *MessageRow
}

// MaxInline is the most bytes, of its ID and its body, that a message which is kept in the
// row of its key has: the row is written anew with each change of the key.
const MaxInline = 1024

// At is when the row can be claimed next, or has something that expires: the end of the
// lease if there is one, and First otherwise.
func (k *KeyRow) At() int64 {
	if k.Token != "" {
		return k.Until
	}
	return k.First
}

// Rows is how many of the pending messages have rows of their own.
func (k *KeyRow) Rows() int {
	if k.Inline != nil {
		return k.Count - 1
	}
	return k.Count
}

// Lane is the number of the row's partition.
func (k *KeyRow) Partition() int64 { return PartitionOf(k.Key.Queue, k.Route) }

// MessageRow is a pending message.
type MessageRow struct {
	Key     ID
	Seq     int64
	ID      string
	Visible int64
	Put     int64 // when it was put
	TTL     int64 // as it was given; 0 is the default
	Attempt int   // counted so far; not that of the lease that delivered it last
	Body    []byte
}

// Expires is when the message goes to quarantine if its key has no route.
func (m *MessageRow) Expires() int64 {
	if m.TTL == 0 {
		return m.Put + store.DefaultTTL.Milliseconds()
	}
	return m.Put + m.TTL
}

// fits reports whether the message can be kept in the row of its key.
func (m *MessageRow) fits() bool { return len(m.ID)+len(m.Body) <= MaxInline }

// Message returns the message as the contract has it.
func (m *MessageRow) Message(key store.Key, route string) store.Message {
	return store.Message{
		Key: key, ID: m.ID, Route: route, VisibleAt: store.FromMillis(m.Visible), TTL: milliseconds(m.TTL),
		Body: m.Body, Attempt: m.Attempt, PutAt: store.FromMillis(m.Put),
	}
}

// Ref names a message by its ID.
type Ref struct {
	Key ID
	ID  string
}
