package pebblestore

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// broken is a healthy store with one of everything, for a test to break.
type broken struct {
	*Store
	t *testing.T

	partition uint32 // of the message "due" of order-1
	pos       pos
	log       uint64 // of order-1
	record    uint64 // number of the record
	recordKey store.RecordKey
}

var brokenKey = store.Key{Queue: "turns", Tenant: "acme", Name: "order-1"}

func newBroken(t *testing.T) *broken {
	t.Helper()
	s, err := Open(t.Context(), "data", Options{Clock: base.NewManual(start), Logger: quiet(), fs: vfs.NewMem(), tune: roomy})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	b := &broken{Store: s, t: t, recordKey: store.RecordKey{Kind: "instance", Tenant: "acme", ID: "order-1"}}
	other := store.Key{Queue: "turns", Tenant: "acme", Name: "order-2"}
	err = s.Commit(t.Context(), &store.Tx{
		Put: []store.Message{
			{Key: brokenKey, ID: "due", Route: "order"}, {Key: brokenKey, ID: "later", VisibleAt: start.Add(time.Hour)},
			{Key: other, ID: "hidden"},
		},
		Append:     []store.Append{{Key: brokenKey, Entries: [][]byte{{1}, {2}}}, {Key: other, Entries: [][]byte{{1}}}},
		PutRecords: []store.PutRecord{{Record: store.Record{Key: b.recordKey, Status: "running", Name: "order", Time: start}}},
	})
	if err == nil {
		err = s.Commit(t.Context(), &store.Tx{Append: []store.Append{{Key: brokenKey, At: 2, Entries: [][]byte{{3}}}}})
	}
	if err != nil {
		t.Fatal(err)
	}
	b.partition, b.pos, err = parsePending(nil, b.value(pendingKey(nil, brokenKey, "due")))
	if err != nil {
		t.Fatal(err)
	}
	h, err := parseHeader(nil, b.value(headerKey(nil, brokenKey)))
	if err != nil {
		t.Fatal(err)
	}
	b.log, b.record = h.log, binary.BigEndian.Uint64(b.value(nameKey(nil, b.recordKey)))
	return b
}

// value returns what is on disk at a key.
func (b *broken) value(key []byte) []byte {
	b.t.Helper()
	v, closer, err := b.db.Get(key)
	if err != nil {
		b.t.Fatalf("%x: %v", key, err)
	}
	defer closer.Close()
	return slices.Clone(v)
}

func (b *broken) set(key, value []byte) {
	b.t.Helper()
	if err := b.db.Set(key, value, pebble.NoSync); err != nil {
		b.t.Fatal(err)
	}
}

func (b *broken) del(key []byte) {
	b.t.Helper()
	b.value(key) // it must be there
	if err := b.db.Delete(key, pebble.NoSync); err != nil {
		b.t.Fatal(err)
	}
}

func (b *broken) index() []byte {
	return indexKey(nil, b.recordKey, "running", start.UnixMilli(), b.record)
}

func (b *broken) shared() []byte {
	return sharedIndexKey(nil, b.recordKey, "running", start.UnixMilli(), b.record)
}

// problems returns what Verify finds.
func (b *broken) problems() (found []string) {
	b.t.Helper()
	if err := b.Verify(b.t.Context(), func(problem string) { found = append(found, problem) }); err != nil {
		b.t.Fatal(err)
	}
	return found
}

// TestVerifyFindsWhatIsBroken breaks what is on disk in each way that Verify knows.
func TestVerifyFindsWhatIsBroken(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what   string
		breaks func(b *broken)
		found  []string // parts of what is found, in any order
	}{
		{"nothing", func(*broken) {}, nil},
		{"a message is lost", func(b *broken) { b.del(msgKey(nil, b.partition, b.pos)) }, []string{"counts 2 messages and has 1", "turns/acme/order-1#due is not where its key says"}},
		{"a message is not known to its key", func(b *broken) { b.del(pendingKey(nil, brokenKey, "due")) }, []string{"turns/acme/order-1#due is not among the messages of its key"}},
		{"a message is in two locations", func(b *broken) {
			b.set(msgKey(nil, b.partition, pos{b.pos.due + 1, b.pos.seq}), b.value(msgKey(nil, b.partition, b.pos)))
		}, []string{"counts 2 messages and has 3", "turns/acme/order-1#due is in two locations"}},
		{"a message is another one", func(b *broken) {
			b.set(msgKey(nil, b.partition, b.pos), appendMsg(nil, "order-3", "x", &msgData{}))
		}, []string{`turns/acme/order-3#x is not among`, `where message turns/acme/order-1#due should be is message "x" of "order-3"`}},
		{"a message is hidden", func(b *broken) {
			b.set(msgKey(nil, b.partition, b.pos), appendMsg(nil, "order-1", "due", &msgData{hidden: true}))
		}, []string{`turns/acme/order-1#due has route "order", and is kept as if`}},
		{"a message is cut short", func(b *broken) { b.set(msgKey(nil, b.partition, b.pos), []byte{0}) }, []string{"value is cut short", "counts 2 messages and has 1", "value is cut short"}},
		{"a count is wrong", func(b *broken) {
			b.set(partitionKey(nil, b.partition), appendPartition(nil, &partition{queue: &queue{name: "turns"}, tenant: "acme", route: "order", count: 7}, pos{}))
		}, []string{`counts 7 messages and has 2`}},
		{"a floor is too high", func(b *broken) {
			b.set(partitionKey(nil, b.partition), appendPartition(nil, &partition{queue: &queue{name: "turns"}, tenant: "acme", route: "order", count: 2}, b.pos.next()))
		}, []string{"turns/acme/order-1#due is below the floor"}},
		{"a partition is lost", func(b *broken) { b.del(partitionKey(nil, b.partition)) }, []string{
			`message "due" of "order-1" is in partition 1, which is not there`, `message "later" of "order-1" is in partition 1`,
			"order-1#due should be in partition 1", "order-1#later should be in partition 1",
		}},
		{"a partition is of another tenant", func(b *broken) {
			b.set(partitionKey(nil, b.partition), appendPartition(nil, &partition{queue: &queue{name: "turns"}, tenant: "other", route: "order", count: 2}, pos{}))
		}, []string{
			"turns/other/order-1#due is not among", "turns/other/order-1#later is not among",
			`order-1#due is in the partition of queue "turns" and tenant "other"`, `order-1#later is in the partition of`,
		}},
		{"a route is another one", func(b *broken) {
			b.set(headerKey(nil, brokenKey), appendHeader(nil, header{log: b.log, route: "other"}))
		}, []string{`order-1#due has route "order", and its key "other"`, `order-1#later has route "order", and its key "other"`}},
		{"a key is in two partitions", func(b *broken) {
			key := store.Key{Queue: "turns", Tenant: "acme", Name: "order-2"}
			p := pos{b.pos.due, b.nextID - 1}
			b.set(msgKey(nil, b.partition, p), appendMsg(nil, "order-2", "x", &msgData{}))
			b.set(pendingKey(nil, key, "x"), appendPending(nil, b.partition, p))
		}, []string{"counts 2 messages and has 3", `order-2#x has route "order", and its key ""`, "order-2#x is in another partition"}},
		{"a number will be used again", func(b *broken) { b.set(metaIDs, binary.BigEndian.AppendUint64(nil, b.record)) }, []string{
			"record instance/acme/order-1 has number",
		}},
		{"a log has a hole", func(b *broken) { b.set(logKey(nil, b.log, 4), appendEntries(nil, [][]byte{{5}})) }, []string{"the log of turns/acme/order-1 continues with entry 4 after 3"}},
		{"a log has lost its beginning", func(b *broken) { b.del(logKey(nil, b.log, 0)) }, []string{"the log of turns/acme/order-1 begins at entry 2, and should at 0"}},
		{"a log is lost", func(b *broken) {
			b.del(logKey(nil, b.log, 0))
			b.del(logKey(nil, b.log, 2))
		}, []string{"the log of turns/acme/order-1 has 0 entries"}},
		{"a log is trimmed beyond its end", func(b *broken) {
			b.set(headerKey(nil, brokenKey), appendHeader(nil, header{log: b.log, base: 4, route: "order"}))
		}, []string{"the log of turns/acme/order-1 has 3 entries, and 4 of them are trimmed"}},
		{"a log is of no key", func(b *broken) { b.set(logKey(nil, b.record, 0), appendEntries(nil, [][]byte{{1}})) }, []string{"is of no key"}},
		{"a log is of two keys", func(b *broken) {
			b.set(headerKey(nil, store.Key{Queue: "turns", Tenant: "acme", Name: "order-3"}), appendHeader(nil, header{log: b.log}))
		}, []string{"2 keys have the same log"}},
		{"a record is lost", func(b *broken) { b.del(recordKey(nil, b.record)) }, []string{"has the name", "the index has record number", "the index has record number"}},
		{"a record has no name", func(b *broken) { b.del(nameKey(nil, b.recordKey)) }, []string{"instance/acme/order-1, number"}},
		{"a record has two names", func(b *broken) {
			b.set(nameKey(nil, store.RecordKey{Kind: "instance", ID: "x"}), binary.BigEndian.AppendUint64(nil, b.record))
		}, []string{"instance/acme/order-1 can be found by the name of another one"}},
		{"a record is not in the index", func(b *broken) { b.del(b.index()) }, []string{"instance/acme/order-1 is not in the index as it is"}},
		{"the index has another name", func(b *broken) { b.set(b.index(), []byte{0, 0, 0, 0}) }, []string{"instance/acme/order-1 is not in the index as it is"}},
		{"the index has another status", func(b *broken) {
			b.set(indexKey(nil, b.recordKey, "other", start.UnixMilli(), b.record), nil)
		}, []string{"the index has record instance/acme/order-1 with another status"}},
		{"a record is not in the shared index", func(b *broken) { b.del(b.shared()) }, []string{"instance/acme/order-1 is not in the index as it is"}},
		{"the shared index has another name", func(b *broken) { b.set(b.shared(), []byte{0, 0, 0, 0}) }, []string{"instance/acme/order-1 is not in the index as it is"}},
		{"the shared index has another time", func(b *broken) {
			b.set(sharedIndexKey(nil, b.recordKey, "running", start.UnixMilli()+1, b.record), nil)
		}, []string{"the index has record instance/acme/order-1 with another status or time"}},
		{"the shared index has a record of the empty tenant", func(b *broken) {
			key := store.RecordKey{Kind: "instance", ID: "order-9"}
			commitTo(b.t, b.Store, &store.Tx{PutRecords: []store.PutRecord{{Record: store.Record{Key: key, Status: "running", Time: start}}}})
			num := binary.BigEndian.Uint64(b.value(nameKey(nil, key)))
			b.set(sharedIndexKey(nil, key, "running", start.UnixMilli(), num), []byte{0, 0, 0, 0})
		}, []string{"the index has record instance//order-9 with another status or time"}},
		{"a record has no version", func(b *broken) {
			b.set(recordKey(nil, b.record), appendRecord(nil, &store.Record{Key: b.recordKey, Status: "running", Name: "order"}, 0, start.UnixMilli()))
		}, []string{"instance/acme/order-1 has version 0"}},
		{"a record is cut short", func(b *broken) { b.set(recordKey(nil, b.record), []byte{1}) }, []string{"value is cut short", "value is cut short", "value is cut short", "value is cut short"}},
		{"a key is no key", func(b *broken) { b.set([]byte{tagKey, 200}, nil) }, []string{"03c8 is not the key of anything"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			b := newBroken(t)
			c.breaks(b)
			found := b.problems()
			if len(found) != len(c.found) {
				t.Errorf("found %q, want %d problems", found, len(c.found))
			}
			for _, part := range c.found {
				i := slices.IndexFunc(found, func(problem string) bool { return strings.Contains(problem, part) })
				if i < 0 {
					t.Errorf("did not find %q, but %q", part, found)
					continue
				}
				found = slices.Delete(found, i, i+1)
			}
		})
	}
}

func TestVerifyFindsALeaseOfNothing(t *testing.T) {
	t.Parallel()
	b := newBroken(t)
	claims, err := b.Claim(t.Context(), store.ClaimRequest{Queue: "turns", Routes: []string{"order"}, Max: 1, Lease: time.Minute})
	if err != nil || len(claims) != 1 {
		t.Fatalf("%d claims, %v", len(claims), err)
	}
	if found := b.problems(); len(found) > 0 {
		t.Fatalf("found %q", found)
	}
	b.mu.Lock()
	l := b.leases.items[0]
	l.delivered[0].gone = true
	b.mu.Unlock()
	if found := b.problems(); len(found) != 1 || !strings.Contains(found[0], `the lease of turns/acme/order-1 is of message "due"`) {
		t.Errorf("found %q", found)
	}
	b.mu.Lock()
	l.delivered[0].gone, l.key.lease = false, nil
	b.mu.Unlock()
	if found := b.problems(); len(found) != 1 || !strings.Contains(found[0], "there is a lease of turns/acme/order-1, which is not leased") {
		t.Errorf("found %q", found)
	}
	b.mu.Lock()
	l.key.lease = l
	b.mu.Unlock()
}

// TestExportOfAKeyWithManyMessages has more messages than are put in order at a time, put
// in another order than that of their IDs and times.
func TestExportOfAKeyWithManyMessages(t *testing.T) {
	t.Parallel()
	const locations = 500
	lim := defaultLimits
	lim.locations = locations
	b := newHouse(t, lim)
	const n = 5*locations + 10
	key := store.Key{Queue: "turns", Tenant: "acme", Name: "many"}
	var want []string
	for i := 0; i < n; {
		tx := &store.Tx{}
		for ; i < n && len(tx.Put) < 1000; i++ {
			id := fmt.Sprintf("%08d", i*7919%n)
			want = append(want, id)
			tx.Put = append(tx.Put, store.Message{Key: key, ID: id, Route: "order", VisibleAt: start.Add(time.Duration(i*104729%n) * time.Millisecond)})
		}
		if err := b.Commit(t.Context(), tx); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for cursor := ""; ; {
		p, err := b.Export(t.Context(), cursor)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range p.Messages {
			if m.Key == key {
				got = append(got, m.ID)
			}
		}
		if cursor = p.Next; cursor == "" {
			break
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d messages came, in another order than that in which %d were put", len(got), len(want))
	}
}

func TestImportRefusesWhatDoesNotFollow(t *testing.T) {
	t.Parallel()
	b := newBroken(t)
	err := b.Import(t.Context(), store.Parcel{
		Entries: []store.Append{{Key: brokenKey, At: 4, Entries: [][]byte{{5}}}},
		Records: []store.Record{{Key: store.RecordKey{Kind: "k", ID: "r"}, Version: 1}},
	})
	if err == nil || !strings.Contains(err.Error(), "begin at 4, and its log has length 3") {
		t.Errorf("error %v", err)
	}
	if _, err := b.Get(t.Context(), store.RecordKey{Kind: "k", ID: "r"}); err == nil {
		t.Error("a part of it was imported")
	}
	if found := b.problems(); len(found) > 0 {
		t.Errorf("found %q", found)
	}
}
