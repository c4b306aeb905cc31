package sqlitetools

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// event returns an event of a history in its wire format: the fields are numbers or text.
func event(fields ...any) []byte {
	b := []byte{1}
	for i := 0; i < len(fields); i += 2 {
		number := uint64(fields[i].(int))
		switch v := fields[i+1].(type) {
		case int:
			b = binary.AppendUvarint(b, number<<3)
			b = binary.AppendUvarint(b, uint64(v))
		case string:
			b = binary.AppendUvarint(b, number<<3|2)
			b = binary.AppendUvarint(b, uint64(len(v)))
			b = append(b, v...)
		case uint64:
			b = binary.AppendUvarint(b, number<<3|1)
			b = binary.LittleEndian.AppendUint64(b, v)
		}
	}
	return b
}

// TestViews looks at a store the way people do, while it is open.
func TestViews(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	clock := base.NewManual(begin)
	s := openStore(t, path, clock, quiet())
	long := strings.Repeat("long ", 60)
	key := store.Key{Queue: "turns", Tenant: "acme", Name: "order-1"}
	if err := s.Commit(t.Context(), &store.Tx{
		Append: []store.Append{{Key: key, Entries: [][]byte{
			event(1, 1, 2, 1, 6, int(beginMS), 12, uint64(1<<63)),
			event(1, 2, 2, 2, 4, "order", 7, `{"id":1}`, 9, "ignored"),
			event(1, 300, 2, 3, 4, "charge", 7, long),
			event(1, 70_000, 2, 5, 3, 300, 8, "ignored", 6, int(beginMS+1)),
			event(2, 99),
			{9, 9, 9},
			{},
		}}},
		Put: []store.Message{
			{Key: key, ID: "t/1", Route: "order@2", VisibleAt: begin.Add(1500 * time.Millisecond), Body: []byte("later")},
			{Key: key, ID: "now", Body: []byte("abc")},
			{Key: store.Key{Queue: "turns", Name: "early"}, ID: "event"},
			{Key: store.Key{Queue: "q", Name: "old"}, ID: "gone", TTL: time.Millisecond},
		},
		PutRecords: []store.PutRecord{{Record: store.Record{
			Key: store.RecordKey{Kind: "instance", Tenant: "acme", ID: "order-1"}, Status: "running", Name: "order", Time: begin,
			Tags: map[string]string{"customer": "7"}, Body: []byte("\x01\x03v12rest"),
		}}},
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Claim(t.Context(), store.ClaimRequest{Queue: "turns", Routes: []string{"order@2"}, Max: 1, Lease: time.Minute}); err != nil {
		t.Fatal(err)
	}
	clock.Advance(time.Second)
	if _, err := s.Claim(t.Context(), store.ClaimRequest{Queue: "q", Routes: []string{"r"}, Max: 1, Lease: time.Minute}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ query, want string }{
		{"SELECT * FROM instances", `acme|order-1|order|v12|running|2027-01-15T08:00:00.000Z|{"customer":"7"}|1` + "\n"},
		{"SELECT * FROM history ORDER BY place", strings.Join([]string{
			"acme|order-1|0|TurnStarted|1|-|-|-|2027-01-15T08:00:00.000Z|-",
			`acme|order-1|1|ExecutionStarted|2|-|order|-|-|{"id":1}`,
			"acme|order-1|2|ActivityScheduled|300|-|charge|-|-|" + long,
			"acme|order-1|3|ActivityFailed|70000|300|-|-|2027-01-15T08:00:00.001Z|-",
			"acme|order-1|4|99|-|-|-|-|-|-",
			"acme|order-1|5|-|-|-|-|-|-|-",
			"acme|order-1|6|-|-|-|-|-|-|-",
		}, "\n") + "\n"},
		{"SELECT queue, tenant, key, id, route, visible_at, put_at, expires_at, attempt, leased_until, bytes, body FROM pending_messages ORDER BY id",
			"turns||early|event||2027-01-15T08:00:00.000Z|2027-01-15T08:00:00.000Z|2027-01-22T08:00:00.000Z|0|-|0|\n" +
				"turns|acme|order-1|now|order@2|2027-01-15T08:00:00.000Z|2027-01-15T08:00:00.000Z|-|1|2027-01-15T08:01:00.000Z|3|abc\n" +
				"turns|acme|order-1|t/1|order@2|2027-01-15T08:00:01.500Z|2027-01-15T08:00:00.000Z|-|0|2027-01-15T08:01:00.000Z|5|later\n"},
		{"SELECT tenant, since, reason, queue, key, message, route, error, attempt, put_at FROM quarantine",
			"|2027-01-15T08:00:01.000Z|expired|q|old|gone||-|0|2027-01-15T08:00:00.000Z\n"},
	} {
		if got := table(t, path, c.query); got != c.want {
			t.Errorf("%s:\n%swant\n%s", c.query, got, c.want)
		}
	}
}

// TestViewsAreRenewed: a file with older views gets those of this version.
func TestViewsAreRenewed(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	s := openStore(t, path, nil, quiet())
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	run(t, path, "DROP VIEW instances", "CREATE VIEW instances AS SELECT 1 AS old", "DROP VIEW quarantine", "PRAGMA user_version = 0")
	openStore(t, path, nil, quiet())
	if got := table(t, path, "SELECT count(*) FROM instances, quarantine WHERE orchestration IS NULL"); got != "0\n" {
		t.Errorf("the views are not those of this version: %s", got)
	}
}

// TestViewsUseIndexes: to look at one instance, or one key, nobody reads all of the file.
func TestViewsUseIndexes(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	openStore(t, path, nil, quiet())
	for _, query := range []string{
		"SELECT * FROM history WHERE tenant = 'acme' AND instance = 'order-1'",
		"SELECT * FROM pending_messages WHERE queue = 'turns' AND tenant = 'acme' AND key = 'order-1'",
		"SELECT * FROM instances WHERE tenant = 'acme' AND id = 'order-1'",
		"SELECT * FROM instances WHERE status = 'stalled' AND tenant = 'acme'",
	} {
		for line := range strings.Lines(table(t, path, "EXPLAIN QUERY PLAN "+query)) {
			if strings.Contains(line, "SCAN ") && !strings.Contains(line, "walk") && !strings.Contains(line, "CONSTANT") && !strings.Contains(line, "VIRTUAL TABLE") {
				t.Errorf("%s: %s", query, fmt.Sprint(line))
			}
		}
	}
}
