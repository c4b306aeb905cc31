package memstore_test

import (
	"context"
	"fmt"
	"log"

	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
)

// A store in memory serves tests, and programs that need nothing after they end.
func ExampleNew() {
	ctx := context.Background()
	s := memstore.New(memstore.Options{})
	defer s.Close()
	for _, id := range []string{"a", "b"} {
		record := store.Record{Key: store.RecordKey{Kind: "order", ID: id}, Status: "new"}
		if err := s.Commit(ctx, &store.Tx{PutRecords: []store.PutRecord{{Record: record}}}); err != nil {
			log.Fatal(err)
		}
	}
	n, err := s.Count(ctx, store.Query{Kind: "order", Statuses: []string{"new"}}, 10)
	fmt.Println(n, err)
	// Output: 2 <nil>
}
