package memstore_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/abidehq/abide/store"
	_ "github.com/abidehq/abide/store/memstore" // for memory: in Open
)

// Messages are put in a commit, leased by a claim, and consumed in the commit of what came of
// them.
func ExampleStore() {
	ctx := context.Background()
	s, err := store.Open(ctx, "memory:")
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	key := store.Key{Queue: "orders", Tenant: "acme", Name: "order-1"}
	err = s.Commit(ctx, &store.Tx{Put: []store.Message{{Key: key, ID: "start", Route: "order", Body: []byte("4200")}}})
	if err != nil {
		log.Fatal(err)
	}
	claims, err := s.Claim(ctx, store.ClaimRequest{Queue: "orders", Routes: []string{"order"}, Max: 1, Lease: time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	done := store.Record{Key: store.RecordKey{Kind: "order", Tenant: "acme", ID: "order-1"}, Status: "paid", Body: claims[0].Messages[0].Body}
	err = s.Commit(ctx, &store.Tx{
		Finish:     []store.Finish{{Lease: claims[0].Lease()}},
		PutRecords: []store.PutRecord{{Record: done}},
	})
	if err != nil {
		log.Fatal(err)
	}
	record, err := s.Get(ctx, done.Key)
	fmt.Println(record.Status, string(record.Body), record.Version, err)
	// Output: paid 4200 1 <nil>
}

// A record is replaced only if it has the expected version.
func ExampleStore_records() {
	ctx := context.Background()
	s, err := store.Open(ctx, "memory:")
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	record := store.Record{Key: store.RecordKey{Kind: "order", Tenant: "acme", ID: "order-1"}}
	for range 2 { // version 0: the record must not exist
		err = s.Commit(ctx, &store.Tx{PutRecords: []store.PutRecord{{Record: record, Expect: 0}}})
		fmt.Println(errors.Is(err, store.ErrConflict))
	}
	// Output:
	// false
	// true
}
