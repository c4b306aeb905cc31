package cursor_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/abidehq/abide/internal/cursor"
	"github.com/abidehq/abide/store"
)

// TestFormat holds cursors that have been given out: they stay valid.
func TestFormat(t *testing.T) {
	t.Parallel()
	tenant := "acme"
	for _, c := range []struct {
		name string
		q    store.Query
		at   cursor.Position
		want string
	}{
		{"of one tenant, by number", store.Query{Kind: "instance", Tenant: &tenant, Descending: true}, cursor.Numbered(1_800_000_000_000, 77), "AAABoxhcUAAAAAAAAAAATfXyAPg"},
		{"of all tenants, by text", store.Query{Kind: "timer"}, cursor.Position{Millis: 12, Tie: []byte("a/b")}, "AAAAAAAAAAxhL2Kktt1S"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := cursor.Format(&c.q, c.at)
			if got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			c.q.Cursor = c.want
			p, ok, err := cursor.Parse(&c.q, len(c.at.Tie))
			if err != nil || !ok || p.Millis != c.at.Millis || !bytes.Equal(p.Tie, c.at.Tie) {
				t.Errorf("parsed %v, %v, %v; want %v", p, ok, err, c.at)
			}
		})
	}
}

func TestParseRefusesOtherQueries(t *testing.T) {
	t.Parallel()
	tenant, other := "acme", "other"
	q := store.Query{Kind: "instance", Tenant: &tenant}
	good := cursor.Format(&q, cursor.Numbered(5, 6))
	for name, change := range map[string]func(*store.Query){
		"another kind":   func(q *store.Query) { q.Kind = "timer" },
		"another tenant": func(q *store.Query) { q.Tenant = &other },
		"all tenants":    func(q *store.Query) { q.Tenant = nil },
		"another order":  func(q *store.Query) { q.Descending = true },
		"not base64":     func(q *store.Query) { q.Cursor = "!" },
		"too short":      func(q *store.Query) { q.Cursor = "AAAA" },
		"damaged":        func(q *store.Query) { q.Cursor = "B" + good[1:] },
		"another length": func(q *store.Query) { q.Cursor = cursor.Format(q, cursor.Position{Millis: 5, Tie: []byte("x")}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changed := q
			changed.Cursor = good
			change(&changed)
			if _, _, err := cursor.Parse(&changed, 8); !errors.Is(err, store.ErrInvalid) {
				t.Errorf("got %v, want that it is invalid", err)
			}
		})
	}
	if _, ok, err := cursor.Parse(&q, 8); ok || err != nil {
		t.Errorf("a query without a cursor: %v, %v", ok, err)
	}
}
