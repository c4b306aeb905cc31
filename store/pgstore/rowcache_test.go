package pgstore

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/abidehq/abide/internal/rows"
	"github.com/abidehq/abide/store"
)

// elsewhere commits what the core does not know of: in a transaction of its caller.
func elsewhere(t *testing.T, s *Store, change *store.Tx) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), s.db.others, func(tx pgx.Tx) error { return s.Commit(WithTx(t.Context(), tx), change) })
	if err != nil {
		t.Fatal(err)
	}
}

// TestWhatIsRememberedDecidesNothing: what this process remembers of a row, and is not so
// any more, changes nothing about what becomes of a commit.
func TestWhatIsRememberedDecidesNothing(t *testing.T) {
	t.Parallel()
	key := store.Key{Queue: "turns", Tenant: "acme", Name: "order-1"}
	record := store.RecordKey{Kind: "instance", Tenant: "acme", ID: "order-1"}
	version := func(n int64) *store.Tx {
		return &store.Tx{PutRecords: []store.PutRecord{{Record: store.Record{Key: record}, Expect: n}}}
	}
	message := func(id string) *store.Tx { return put("turns", "order-1", id, "order") }
	entries := func(at int) *store.Tx {
		return &store.Tx{Append: []store.Append{{Key: key, At: at, Entries: [][]byte{[]byte("entry")}}}}
	}
	for name, c := range map[string]struct {
		before, elsewhere, then *store.Tx
		want                    error
		pending, length         int
	}{
		"a version that is right now":      {version(0), version(1), version(2), nil, 0, 0},
		"a version that was right":         {version(0), version(1), version(1), store.ErrConflict, 0, 0},
		"a record that is gone":            {version(0), &store.Tx{DeleteRecords: []store.DeleteRecord{{Key: record, Expect: 1}}}, version(0), nil, 0, 0},
		"a message that is gone":           {message("a"), &store.Tx{Delete: []store.MessageRef{{Key: key, ID: "a"}}}, message("a"), nil, 1, 0},
		"a message that came":              {message("a"), message("b"), message("b"), nil, 2, 0},
		"a message beside one that came":   {message("a"), message("b"), message("c"), nil, 3, 0},
		"a message of a key that is gone":  {message("a"), &store.Tx{DeleteKeys: []store.Key{key}}, message("b"), nil, 1, 0},
		"a length that is right now":       {entries(0), entries(1), entries(2), nil, 0, 3},
		"a length that was right":          {entries(0), entries(1), entries(1), store.ErrConflict, 0, 2},
		"a log that is gone":               {entries(0), &store.Tx{DeleteKeys: []store.Key{key}}, entries(0), nil, 0, 1},
		"a log whose key is deleted twice": {entries(0), &store.Tx{DeleteKeys: []store.Key{key}}, &store.Tx{DeleteKeys: []store.Key{key}}, nil, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, newURL(t, "connections", "5"), Options{})
			for range 2 { // the first one tells that nobody else is there
				if err := s.Commit(t.Context(), put("other", "order-2", "a", "order")); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Commit(t.Context(), c.before); err != nil {
				t.Fatal(err)
			}
			elsewhere(t, s, c.elsewhere)
			if err := s.Commit(t.Context(), c.then); !errors.Is(err, c.want) {
				t.Errorf("commit: %v, want %v", err, c.want)
			}
			pending, err := s.Pending(t.Context(), key, 0)
			if err != nil || len(pending) != c.pending {
				t.Errorf("%d messages, %v, want %d", len(pending), err, c.pending)
			}
			if page, err := s.ReadLog(t.Context(), key, 0); err != nil || page.Length != c.length {
				t.Errorf("%d entries, %v, want %d", page.Length, err, c.length)
			}
			verifies(t, s)
		})
	}
}

// TestKeyThatIsThereAgain: the row of a key that was deleted and made anew elsewhere is not taken for the one that
// this process remembers, whose messages were other ones.
func TestKeyThatIsThereAgain(t *testing.T) {
	t.Parallel()
	s := open(t, newURL(t, "connections", "5"), Options{})
	key := store.Key{Queue: "limits", Tenant: "acme", Name: "gate"}
	if err := s.Commit(t.Context(), put("limits", "gate", "a", "gate")); err != nil {
		t.Fatal(err)
	}
	elsewhere(t, s, &store.Tx{Delete: []store.MessageRef{{Key: key, ID: "a"}}})
	elsewhere(t, s, put("limits", "gate", "b", "gate"))
	if err := s.Commit(t.Context(), put("limits", "gate", "c", "gate")); err != nil {
		t.Fatal(err)
	}
	pending, err := s.Pending(t.Context(), key, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for i := range pending {
		ids = append(ids, pending[i].ID)
	}
	if got := fmt.Sprint(ids); got != "[b c]" {
		t.Errorf("messages %s are pending, want [b c]", got)
	}
	verifies(t, s)
}

// TestWhatWasWrittenIsNotLoaded: what this process has written is known to it, unless
// another process has the store open.
func TestWhatWasWrittenIsNotLoaded(t *testing.T) {
	t.Parallel()
	u := newURL(t, "connections", "5")
	s := open(t, u, Options{})
	key := store.Key{Queue: "turns", Tenant: "acme", Name: "order-1"}
	append1 := func(s *Store, at int) {
		t.Helper()
		if err := s.Commit(t.Context(), &store.Tx{Append: []store.Append{{Key: key, At: at, Entries: [][]byte{[]byte("entry")}}}}); err != nil {
			t.Fatal(err)
		}
	}
	recalls := func(s *Store) bool {
		t.Helper()
		l := &loaded{revs: map[rows.ID]int64{}, state: &rows.State{Keys: map[rows.ID]*rows.KeyRow{}}}
		left, _ := s.db.cache.lookup([]rows.ID{rows.IDOf(key)}, nil, l)
		return len(left) == 0 && s.db.Alone()
	}
	append1(s, 0)
	append1(s, 1)
	if !recalls(s) {
		t.Error("what was written is not remembered")
	}
	for i := range 2*maxCached + 2 {
		s.db.cache.written(&rows.Changes{Insert: []*rows.KeyRow{{ID: rows.IDOf(store.Key{Name: fmt.Sprint(i)})}}}, &loaded{})
	}
	if recalls(s) {
		t.Error("more is remembered than there is room for")
	}
	append1(s, 2)
	other := open(t, u, Options{})
	append1(other, 3)
	append1(s, 4) // learns of the other process
	append1(other, 5)
	append1(s, 6)
	if recalls(s) {
		t.Error("cached rows are used while another process has the store open")
	}
}

// TestRememberedKeysWithRows: of a key that is remembered, messages with rows of their own
// are not.
func TestRememberedKeysWithRows(t *testing.T) {
	t.Parallel()
	s := open(t, newURL(t, "connections", "5"), Options{})
	hour := time.Now().Add(time.Hour)
	tx := put("turns", "order-1", "a", "order")
	tx.Put = append(tx.Put, put("turns", "order-1", "b", "order").Put...)
	tx.Put = append(tx.Put, put("turns", "order-1", "c", "order").Put...)
	tx.Put[2].VisibleAt = hour
	for range 2 { // the first one tells that nobody else is there
		if err := s.Commit(t.Context(), put("other", "order-2", "a", "order")); err != nil {
			t.Fatal(err)
		}
	}
	claimed := make(chan []store.Claim, 1)
	go func() {
		claims, err := s.Claim(t.Context(), request(1, time.Minute))
		if err != nil {
			t.Error(err)
		}
		claimed <- claims
	}()
	eventually(t, "a call waits", func() bool {
		stats, err := s.Stats(t.Context())
		return err == nil && stats.Waiting == 1
	})
	if err := s.Commit(t.Context(), tx); err != nil {
		t.Fatal(err)
	}
	claims := <-claimed
	if len(claims) != 1 || len(claims[0].Messages) != 2 {
		t.Fatalf("claimed %v, want two messages", claims)
	}
	finish := &store.Tx{Finish: []store.Finish{{Lease: claims[0].Lease(), Keep: []string{"b"}}}}
	if err := s.Commit(t.Context(), finish); err != nil {
		t.Fatal(err)
	}
	verifies(t, s)
	later := put("turns", "order-1", "d", "order")
	later.Put[0].VisibleAt = hour.Add(time.Hour)
	if err := s.Commit(t.Context(), later); err != nil {
		t.Fatal(err)
	}
	pending, err := s.Pending(t.Context(), tx.Put[0].Key, 0)
	if err != nil || len(pending) != 3 || pending[0].ID != "b" {
		t.Errorf("pending: %v, %v, want b, c and d", pending, err)
	}
	verifies(t, s)
}
