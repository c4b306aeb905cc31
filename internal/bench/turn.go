package bench

import (
	"strconv"
	"time"

	"github.com/abidehq/abide/store"
)

// turn builds the commit of a turn. It is used again and again, since a store keeps
// nothing of what it is given: what is measured is the store and not the making of
// transactions.
type turn struct {
	tx      store.Tx
	entries [EntriesPerTurn][]byte
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
	next := c.LogLength + EntriesPerTurn
	for i := range t.entries {
		t.entries[i] = payload(uint64(c.LogLength+i), EntryBytes)
	}
	t.tx.Finish[0] = store.Finish{Lease: c.Lease()}
	t.tx.Append[0] = store.Append{Key: c.Key, At: c.LogLength, Entries: t.entries[:]}
	t.tx.Put[0] = store.Message{Key: c.Key, ID: strconv.Itoa(next), Body: payload(uint64(next), MessageBytes)}
	t.tx.PutRecords[0] = store.PutRecord{
		// A turn puts the record once, so its version is the number of turns.
		Expect: int64(c.LogLength / EntriesPerTurn),
		Record: store.Record{
			Key:    store.RecordKey{Kind: kind, Tenant: tenant, ID: c.Key.Name},
			Status: "running",
			Name:   c.Route,
			Time:   startedAt,
			Body:   payload(uint64(next), RecordBytes),
		},
	}
	return &t.tx
}

// firstMessage returns the message that makes the first turn of instance i.
func firstMessage(order KeyOrder, i int) store.Message {
	return store.Message{
		Key:   instanceKeys.key(order, i),
		ID:    "0",
		Route: turnRoutes[i%len(turnRoutes)],
		Body:  payload(uint64(i), MessageBytes),
	}
}
