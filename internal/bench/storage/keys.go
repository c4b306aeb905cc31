package storage

import (
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/abidehq/abide/internal/bench"
	"github.com/abidehq/abide/store"
)

// Orders of keys: by the time at which they were made, as UUIDs of version 7 are, or not at
// all, as those of version 4.
const (
	keysOrdered = "ordered"
	keysRandom  = "random"
)

// Where everything lives, so that nothing else in the store is touched.
const (
	queue  = bench.Name
	tenant = bench.Name
	kind   = bench.Name
)

// turnRoutes are those of the instances. Messages that are not visible yet have
// these and idleRoute, which is never ready: the idle process waits for it.
var turnRoutes = []string{"order@1", "payment@1", "shipping@1", "invoice@1"}

const idleRoute = "idle@1"

var allRoutes = append([]string{idleRoute}, turnRoutes...)

// stream is a sequence of names. It is the time at which the first of them was made,
// which keeps the streams apart.
type stream time.Time

var (
	pendingKeys  = stream(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	instanceKeys = stream(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC))
	consumedKeys = stream(time.Date(2028, 1, 1, 0, 0, 0, 0, time.UTC))
	probeKeys    = stream(time.Date(2029, 1, 1, 0, 0, 0, 0, time.UTC))
)

// key returns the key with number i, which is always the same one.
func (s stream) key(order string, i int) store.Key {
	return store.Key{Queue: queue, Tenant: tenant, Name: s.name(order, i)}
}

// name returns a UUID: with a time that grows by a millisecond from number to
// number, or without.
func (s stream) name(order string, i int) string {
	start := uint64(time.Time(s).UnixMilli())
	at := start + uint64(i)
	high, low := bench.Scramble(at), bench.Scramble(at^0x5bf0_3635)
	version := uint64(4)
	if order == keysOrdered {
		high, version = at<<16|high&0xffff, 7
	}
	high = high&^0xf000 | version<<12
	low = low&^(3<<62) | 2<<62

	var raw [16]byte
	binary.BigEndian.PutUint64(raw[:8], high)
	binary.BigEndian.PutUint64(raw[8:], low)
	text := make([]byte, 0, 36)
	for _, part := range [][]byte{raw[:4], raw[4:6], raw[6:8], raw[8:10], raw[10:]} {
		if len(text) > 0 {
			text = append(text, '-')
		}
		text = hex.AppendEncode(text, part)
	}
	return string(text)
}

// Sizes of what a turn commits. They are those of the measurements that the design rests on.
const (
	entriesPerTurn = 3
	entryBytes     = 200
	recordBytes    = 200
	messageBytes   = 100
)

// turn builds the commit of a turn. It is used again and again, since a store keeps
// nothing of what it is given: what is measured is the store and not the making of
// transactions.
type turn struct {
	tx      store.Tx
	entries [entriesPerTurn][]byte
}

// startedAt is the Time of all instances' records. It stays the same from turn to
// turn, as the time at which an instance started does.
var startedAt = time.Time(instanceKeys)

func newTurn() *turn {
	t := &turn{}
	t.tx = store.Tx{
		Finish:     make([]store.Finish, 1),
		Append:     make([]store.Append, 1),
		Put:        make([]store.Message, 1),
		PutRecords: make([]store.PutRecord, 1),
	}
	return t
}

// of returns the commit of a claimed instance's turn. It is good until the next call.
func (t *turn) of(c *store.Claim) *store.Tx {
	next := c.LogLength + entriesPerTurn
	for i := range t.entries {
		t.entries[i] = bench.Bytes(uint64(c.LogLength+i), entryBytes)
	}
	t.tx.Finish[0] = store.Finish{Lease: c.Lease()}
	t.tx.Append[0] = store.Append{Key: c.Key, At: c.LogLength, Entries: t.entries[:]}
	t.tx.Put[0] = store.Message{Key: c.Key, ID: strconv.Itoa(next), Body: bench.Bytes(uint64(next), messageBytes)}
	t.tx.PutRecords[0] = store.PutRecord{
		// A turn puts the record once, so its version is the number of turns.
		Expect: int64(c.LogLength / entriesPerTurn),
		Record: store.Record{
			Key:    store.RecordKey{Kind: kind, Tenant: tenant, ID: c.Key.Name},
			Status: "running",
			Name:   c.Route,
			Time:   startedAt,
			Body:   bench.Bytes(uint64(next), recordBytes),
		},
	}
	return &t.tx
}

// firstMessage returns the message that makes the first turn of instance i.
func firstMessage(order string, i int) store.Message {
	return store.Message{
		Key:   instanceKeys.key(order, i),
		ID:    "0",
		Route: turnRoutes[i%len(turnRoutes)],
		Body:  bench.Bytes(uint64(i), messageBytes),
	}
}

// finish returns the commit that consumes what was claimed and does nothing else.
func finish(claims ...store.Claim) *store.Tx {
	tx := &store.Tx{Finish: make([]store.Finish, len(claims))}
	for i := range claims {
		tx.Finish[i].Lease = claims[i].Lease()
	}
	return tx
}
