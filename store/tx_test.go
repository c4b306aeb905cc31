package store_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/abidehq/abide/store"
)

func TestAnEmptyTxIsValid(t *testing.T) {
	t.Parallel()
	tx := &store.Tx{}
	if !tx.Empty() {
		t.Error("a new Tx is not empty")
	}
	if err := tx.Validate(); err != nil {
		t.Error(err)
	}
}

func TestATxWithAnythingInItIsNotEmpty(t *testing.T) {
	t.Parallel()
	for i, tx := range []store.Tx{
		{Finish: make([]store.Finish, 1)},
		{DeleteKeys: make([]store.Key, 1)},
		{Trim: make([]store.Trim, 1)},
		{Append: make([]store.Append, 1)},
		{Put: make([]store.Message, 1)},
		{Retime: make([]store.Retime, 1)},
		{Delete: make([]store.MessageRef, 1)},
		{PutRecords: make([]store.PutRecord, 1)},
		{DeleteRecords: make([]store.DeleteRecord, 1)},
	} {
		if tx.Empty() {
			t.Errorf("Tx %d is empty", i)
		}
	}
}

// Few things and many are compared in different ways, so both are tried.
func TestATxDoesNothingTwice(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 3, 8, 9, 100} {
		key := func(i int) store.Key { return store.Key{Queue: "q", Name: fmt.Sprint(i % (n - 1))} }
		recordKey := func(i int) store.RecordKey { return store.RecordKey{Kind: "k", ID: fmt.Sprint(i % (n - 1))} }
		finish, appends, puts, deletes, mixed := &store.Tx{}, &store.Tx{}, &store.Tx{}, &store.Tx{}, &store.Tx{}
		for i := range n {
			lease := store.Lease{Key: key(i), Token: store.Token(fmt.Sprint(i))}
			finish.Finish = append(finish.Finish, store.Finish{Lease: lease})
			appends.Append = append(appends.Append, store.Append{Key: key(i), At: i, Entries: [][]byte{nil}})
			put := store.PutRecord{Record: store.Record{Key: recordKey(i)}}
			puts.PutRecords = append(puts.PutRecords, put)
			drop := store.DeleteRecord{Key: recordKey(i), Expect: 1}
			deletes.DeleteRecords = append(deletes.DeleteRecords, drop)
			if i < n-1 {
				mixed.PutRecords = append(mixed.PutRecords, put)
			} else {
				mixed.DeleteRecords = append(mixed.DeleteRecords, drop)
			}
		}
		for name, tx := range map[string]*store.Tx{
			"finish a lease": finish, "append to a log": appends,
			"put a record": puts, "delete a record": deletes, "put and delete a record": mixed,
		} {
			err := tx.Validate()
			if !errors.Is(err, store.ErrInvalid) {
				t.Errorf("%s twice among %d: %v, want ErrInvalid", name, n, err)
				continue
			}
			wantText(t, err, "twice", "/0")
		}
	}
}

func TestATxMayNameAKeyInEveryWay(t *testing.T) {
	t.Parallel()
	key := store.Key{Queue: "q", Tenant: "t", Name: "k"}
	ref := store.MessageRef{Key: key, ID: "m"}
	tx := &store.Tx{
		Finish:     []store.Finish{{Lease: store.Lease{Key: key}}},
		DeleteKeys: []store.Key{key, key},
		Trim:       []store.Trim{{Key: key}, {Key: key, Before: 1}},
		Append:     []store.Append{{Key: key, Entries: [][]byte{nil}}},
		Put:        []store.Message{{Key: key, ID: "m"}, {Key: key, ID: "m"}},
		Retime:     []store.Retime{{Ref: ref}, {Ref: ref, VisibleAt: time.Unix(1, 0)}},
		Delete:     []store.MessageRef{ref, ref},
	}
	if err := tx.Validate(); err != nil {
		t.Error(err)
	}
}

func TestAttemptOfAClaimIsTheHighestOfItsMessages(t *testing.T) {
	t.Parallel()
	c := store.Claim{Messages: []store.Message{{Attempt: 1}, {Attempt: 3}, {Attempt: 2}}}
	if got := c.Attempt(); got != 3 {
		t.Errorf("Attempt = %d, want 3", got)
	}
	if got := (&store.Claim{}).Attempt(); got != 0 {
		t.Errorf("Attempt of no messages = %d, want 0", got)
	}
}
