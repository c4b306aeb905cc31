package pgstore

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/abidehq/abide/store"
)

// TestListPassesOverALot: a list of few among many returns what it has after having passed
// over some, and the next page continues there.
func TestListPassesOverALot(t *testing.T) {
	t.Parallel()
	s := open(t, newURL(t), Options{})
	const records = 25_000
	execute(t, s.db.config.conn.ConnString(), fmt.Sprintf(`
INSERT INTO %s.records (key, kind, tenant, id, version, time, status, name, tags, body)
SELECT md5(i::text)::uuid, 'instance', 'acme', int8send(i), 1, i, CASE i %% 3 WHEN 0 THEN 'running' WHEN 1 THEN 'failed' ELSE 'completed' END::bytea,
	CASE WHEN i = 1 OR i = 24000 THEN 'rare' ELSE 'common' END::bytea, CASE WHEN i = 13 THEN ARRAY['\x0001'::bytea || 'kv'] ELSE '{}' END, ''
FROM generate_series(1, %d) i`, s.db.config.quoted(), records))
	for _, descending := range []bool{false, true} {
		var found []int64
		pages := 0
		q := store.Query{Kind: "instance", Names: []string{"rare"}, Descending: descending, Limit: 10}
		for {
			page, err := s.List(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range page.Records {
				found = append(found, r.Time.UnixMilli())
			}
			pages++
			if q.Cursor = page.Next; q.Cursor == "" {
				break
			}
		}
		want := []int64{1, 24000}
		if descending {
			want = []int64{24000, 1}
		}
		if fmt.Sprint(found) != fmt.Sprint(want) || pages != 3 {
			t.Errorf("found %v in %d pages, want %v in 3", found, pages, want)
		}
	}
	for name, c := range map[string]struct {
		q    store.Query
		want int
	}{
		"all":             {store.Query{}, records},
		"names":           {store.Query{Names: []string{"rare", "unknown"}}, 2},
		"a tag":           {store.Query{Tags: map[string]string{"k": "v"}}, 1},
		"another tag":     {store.Query{Tags: map[string]string{"": "kv"}}, 0},
		"a status, twice": {store.Query{Statuses: []string{"running", "running"}}, records / 3},
	} {
		c.q.Kind = "instance"
		if n, err := s.Count(t.Context(), c.q, store.MaxCount); n != c.want || err != nil {
			t.Errorf("count of %s: %d, %v; want %d", name, n, err, c.want)
		}
	}
}

// TestLogOfManyRows: a page of a log is as full as it may be, however small the appends
// were.
func TestLogOfManyRows(t *testing.T) {
	t.Parallel()
	s := open(t, newURL(t), Options{})
	key := store.Key{Queue: "turns", Tenant: "acme", Name: "order-1"}
	entry := bytes.Repeat([]byte("x"), 30)
	if err := s.Commit(t.Context(), &store.Tx{Append: []store.Append{{Key: key, Entries: [][]byte{entry}}}}); err != nil {
		t.Fatal(err)
	}
	const length = 3*logRows + 17
	execute(t, s.db.config.conn.ConnString(), fmt.Sprintf(`
INSERT INTO %[1]s.entries (key, at, n, data) SELECT e.key, i, 1, e.data FROM %[1]s.entries e, generate_series(1, %[2]d - 1) i;
UPDATE %[1]s.keys SET log_length = %[2]d`, s.db.config.quoted(), length))
	verifies(t, s)
	page, err := s.ReadLog(t.Context(), key, 5)
	if err != nil || page.First != 5 || page.Length != length || len(page.Entries) != length-5 {
		t.Fatalf("page of %d entries from %d on, length %d, %v", len(page.Entries), page.First, page.Length, err)
	}
	for i, e := range page.Entries {
		if !bytes.Equal(e, entry) {
			t.Fatalf("entry %d is %q", i, e)
		}
	}
}

// TestReadableViews: people see names and times, whatever bytes the names have.
func TestReadableViews(t *testing.T) {
	t.Parallel()
	s := open(t, newURL(t), Options{})
	tx := &store.Tx{
		Put: []store.Message{{Key: store.Key{Queue: "turns", Tenant: "acmé", Name: "order\x00\xff"}, ID: "a", Route: "order", VisibleAt: noon.AddDate(50, 0, 0)}},
		PutRecords: []store.PutRecord{{Record: store.Record{
			Key: store.RecordKey{Kind: "instance", Tenant: "acmé", ID: "order-1"}, Time: noon, Tags: map[string]string{"city": "Málaga"},
		}}},
	}
	if err := s.Commit(t.Context(), tx); err != nil {
		t.Fatal(err)
	}
	for sql, want := range map[string]string{
		`SELECT tenant || ' ' || name || ' ' || route || ' ' || (visible AT TIME ZONE 'UTC')::text FROM {schema}.pending_messages`:           `acmé order\000\377 order 2076-03-01 12:00:00`,
		`SELECT tenant || ' ' || pending || ' ' || (first_visible AT TIME ZONE 'UTC')::text FROM {schema}.queued_keys`:                       `acmé 1 2076-03-01 12:00:00`,
		`SELECT id || ' ' || version || ' ' || (tags ->> 'city') || ' ' || ("time" AT TIME ZONE 'UTC')::text FROM {schema}.readable_records`: `order-1 1 Málaga 2026-03-01 12:00:00`,
		`SELECT queue || ' ' || route || ' ' || pending FROM {schema}.pending_by_route`:                                                      `turns order 1`,
	} {
		var got string
		if err := s.db.readOne(t.Context(), s.db.text.translate.Replace(sql), nil, &got); err != nil || got != want {
			t.Errorf("%s:\n got %q, %v\nwant %q", sql, got, err, want)
		}
	}
}
