package sqlitestore

import (
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/store"
)

// TestVerify breaks a store with SQL, in one way after another, and looks whether that is
// found.
func TestVerify(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ statement, want string }{
		{`SELECT 1`, ""},
		{`DELETE FROM keys WHERE name = 'a'`, "which is not there"},
		{`DELETE FROM messages WHERE id = 'm2'`, "counts 2 messages, and has 1"},
		{`UPDATE keys SET m_id = NULL WHERE m_id = 'm1'`, "counts 2 messages, and has 1"},
		{`UPDATE keys SET count = 5 WHERE name = 'b'`, "counts 5 messages"},
		{`UPDATE keys SET seq = 0 WHERE name = 'a'`, "would give to another one"},
		{`UPDATE messages SET id = 'm1'`, "has message \"m1\" twice"},
		{`UPDATE messages SET visible = visible - 1 WHERE id = 'm2'`, "is due at"},
		{`UPDATE keys SET m_visible = m_visible - 1 WHERE m_id = 'm1'`, "is due at"},
		{`UPDATE keys SET m_seq = 7 WHERE m_id = 'm1'`, "would give to another one"},
		{`UPDATE keys SET m_seq = 7 WHERE m_id = 'm3'`, "is of message number 0, which is not there"},
		{`DELETE FROM entries WHERE place = 1`, "does not have exactly the entries from 0 to 3"},
		{`UPDATE entries SET place = 7 WHERE place = 2`, "does not have exactly the entries"},
		{`UPDATE keys SET log_length = 0 WHERE name = 'log'`, "has neither messages nor a log"},
		{`UPDATE keys SET delivered = '[9]' WHERE token IS NOT NULL`, "is of message number 9, which is not there"},
		{`UPDATE keys SET delivered = 'none' WHERE token IS NOT NULL`, "is of none"},
		{`UPDATE keys SET token = NULL WHERE token IS NOT NULL`, "parts of a lease"},
		{`UPDATE keys SET lane = lane + 1 WHERE name = 'a'`, "is in lane"},
		{`UPDATE keys SET turn = 1 WHERE name = 'a'`, "turn 1"},
		{`UPDATE tally SET pending = pending + 1 WHERE route = 'r'`, "counts 4 messages for route \"r\", and has 3"},
		{`DELETE FROM tally WHERE route = 'r'`, "does not count them"},
		{`UPDATE records SET version = 0`, "has version 0"},
		{`UPDATE records SET tags = '{'`, "cannot be read"},
		{`UPDATE records SET tags = '{"a": 1}'`, "tags"},
	} {
		t.Run(c.statement, func(t *testing.T) {
			t.Parallel()
			s := openAt(t, newPath(t))
			key := func(name string) store.Key { return store.Key{Queue: "q", Tenant: "acme", Name: name} }
			later := time.Now().Add(time.Hour)
			if err := s.Commit(t.Context(), &store.Tx{
				Put: []store.Message{
					{Key: key("a"), ID: "m1", Route: "r", VisibleAt: later}, {Key: key("a"), ID: "m2", VisibleAt: later},
					{Key: key("b"), ID: "m3", Route: "r"},
				},
				Append:     []store.Append{{Key: key("log"), Entries: [][]byte{{1}, {2}, {3}}}},
				PutRecords: []store.PutRecord{{Record: store.Record{Key: store.RecordKey{Kind: "order", ID: "1"}, Tags: map[string]string{"a": "b"}}}},
			}); err != nil {
				t.Fatal(err)
			}
			if claims, err := s.Claim(t.Context(), store.ClaimRequest{Queue: "q", Routes: []string{"r"}, Max: 1, Lease: time.Hour}); len(claims) != 1 || err != nil {
				t.Fatalf("claimed %v, %v", claims, err)
			}
			run(t, s.path, c.statement)
			var found []string
			if err := s.Verify(t.Context(), func(problem string) { found = append(found, problem) }); err != nil {
				t.Fatal(err)
			}
			all := strings.Join(found, "\n")
			if (c.want == "") != (all == "") || !strings.Contains(all, c.want) {
				t.Errorf("found %q, want %q", all, c.want)
			}
		})
	}
}
