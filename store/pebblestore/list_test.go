package pebblestore

import (
	"fmt"
	"testing"

	"github.com/abidehq/abide/store"
)

// TestListsDoNotKeepAnybodyWaiting: a query that few records match returns what it has found
// among so many, and the next page continues there.
func TestListsDoNotKeepAnybodyWaiting(t *testing.T) {
	t.Parallel()
	s := openUnwritten(t)
	const n = 2*maxScanned + 10
	for i := 0; i < n; i += 1000 {
		tx := &store.Tx{}
		for j := i; j < min(i+1000, n); j++ {
			name := "order"
			if j == n-1 || j == 5 {
				name = "refund"
			}
			tx.PutRecords = append(tx.PutRecords, store.PutRecord{Record: store.Record{
				Key: store.RecordKey{Kind: "k", ID: fmt.Sprintf("%06d", j)}, Name: name, Time: store.FromMillis(int64(1000 + j)),
			}})
		}
		commitTo(t, s, tx)
	}
	for _, descending := range []bool{false, true} {
		q := store.Query{Kind: "k", Names: []string{"refund"}, Descending: descending}
		var found []string
		pages := 0
		for {
			page, err := s.List(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			pages++
			for i := range page.Records {
				found = append(found, page.Records[i].Key.ID)
			}
			if q.Cursor = page.Next; q.Cursor == "" {
				break
			}
		}
		want := []string{"000005", fmt.Sprintf("%06d", n-1)}
		if descending {
			want[0], want[1] = want[1], want[0]
		}
		if fmt.Sprint(found) != fmt.Sprint(want) || pages < 2 || pages > 4 {
			t.Errorf("descending %v: found %v on %d pages, want %v on 3", descending, found, pages, want)
		}
	}
}
