package sqlitestore

import (
	"encoding/base64"
	"fmt"
	"testing"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/cursor"
	"github.com/abidehq/abide/store"
)

// TestOldCursorsStayValid continues from a cursor of the form that this store returned at
// first.
func TestOldCursorsStayValid(t *testing.T) {
	t.Parallel()
	s := openWith(t, newPath(t), base.NewManual(begin), quiet())
	for _, id := range []string{"a", "b"} {
		err := s.Commit(t.Context(), &store.Tx{PutRecords: []store.PutRecord{{Record: store.Record{Key: store.RecordKey{Kind: "kind", ID: id}, Time: begin}}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	q := store.Query{Kind: "kind", Limit: 1}
	page, err := s.List(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	q.Cursor = page.Next
	at, _, err := cursor.Parse(&q, 8)
	if err != nil {
		t.Fatal(err)
	}
	old := fmt.Sprintf(`{"ms":%d,"num":%d,"kind":"a2luZA"}`, at.Millis, at.Number())
	for _, q.Cursor = range []string{page.Next, base64.RawURLEncoding.EncodeToString([]byte(old))} {
		next, err := s.List(t.Context(), q)
		if err != nil || len(next.Records) != 1 || next.Records[0].Key.ID != "b" {
			t.Errorf("from %s: got %v, %v", q.Cursor, next.Records, err)
		}
		other := q
		other.Descending = true
		if _, err := s.List(t.Context(), other); err == nil {
			t.Errorf("cursor %s is taken for a list in another order", q.Cursor)
		}
	}
}
