package pgstore

import (
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/store"
)

// TestVerifyFinds: whatever is broken in the tables is found.
func TestVerifyFinds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ sql, want string }{
		"a message without its key":     {`DELETE FROM {schema}.keys WHERE name = 'order-1'`, "the key is not there"},
		"a message that is there twice": {`UPDATE {schema}.messages SET id = 'a'`, "is there twice"},
		"a message that is gone":        {`UPDATE {schema}.keys SET m_id = NULL`, "and counts"},
		"entries without their key":     {`DELETE FROM {schema}.keys WHERE name = 'order-2'`, "entries from 0 on"},
		"a wrong count":                 {`UPDATE {schema}.keys SET count = count + 1`, "and counts"},
		"a key with nothing":            {`UPDATE {schema}.keys SET log_length = 0 WHERE name = 'order-2'; DELETE FROM {schema}.entries`, "neither messages nor a log"},
		"a wrong time":                  {`UPDATE {schema}.keys SET first = first + 1 WHERE count > 0`, "its first message is due"},
		"a wrong time of a message":     {`UPDATE {schema}.keys SET m_visible = m_visible - 1 WHERE route <> ''`, "its first message is due"},
		"a wrong time of the index":     {`UPDATE {schema}.keys SET at = at + 1 WHERE token IS NULL`, "its index says"},
		"a number that comes again":     {`UPDATE {schema}.keys SET seq = 0`, "the next one is to be 0"},
		"a lease of nothing":            {`UPDATE {schema}.keys SET delivered = '{77}' WHERE token IS NOT NULL`, "is of message number 77"},
		"a lease of another message":    {`UPDATE {schema}.keys SET m_seq = 77 WHERE token IS NOT NULL`, "which is not there"},
		"a lease without a route":       {`UPDATE {schema}.keys SET token = 'x' WHERE route = ''`, "no route and a lease"},
		"delivered without a lease":     {`UPDATE {schema}.keys SET token = NULL`, "without a lease"},
		"a gap in a log":                {`UPDATE {schema}.entries SET at = at + 1`, "without a gap"},
		"entries that cannot be read":   {`UPDATE {schema}.entries SET data = substring(data FROM 1 FOR 3)`, "cut off"},
		"a record without a version":    {`UPDATE {schema}.records SET version = 0`, "has version 0"},
		"a wrong tally":                 {`INSERT INTO {schema}.tally SELECT lane, queue, route, 1 FROM {schema}.tally LIMIT 1`, "the tally says"},
		"a key in another lane":         {`UPDATE {schema}.keys SET lane = lane + 1`, "in its own lane"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, newURL(t, "connections", "3"), Options{})
			tx := put("turns", "order-1", "a", "order")
			tx.Put = append(tx.Put, put("turns", "order-1", "b", "order").Put...)
			tx.Put = append(tx.Put, put("turns", "order-3", "a", "order").Put...)
			tx.Put = append(tx.Put, put("turns", "order-4", "a", "").Put...)
			tx.Append = []store.Append{{Key: store.Key{Queue: "turns", Tenant: "acme", Name: "order-2"}, Entries: [][]byte{[]byte("one"), []byte("two")}}}
			tx.PutRecords = []store.PutRecord{{Record: store.Record{Key: store.RecordKey{Kind: "instance", ID: "order-1"}}}}
			if err := s.Commit(t.Context(), tx); err != nil {
				t.Fatal(err)
			}
			req := request(1, 0)
			req.Lease = time.Hour
			if claims, err := s.Claim(t.Context(), req); err != nil || len(claims) != 1 {
				t.Fatalf("claim: %d, %v", len(claims), err)
			}
			verifies(t, s)
			execute(t, s.db.config.conn.ConnString(), s.db.text.translate.Replace(c.sql))
			var problems []string
			if err := s.Verify(t.Context(), func(p string) { problems = append(problems, p) }); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(strings.Join(problems, "\n"), c.want) {
				t.Errorf("found %q, want one with %q", problems, c.want)
			}
		})
	}
}
