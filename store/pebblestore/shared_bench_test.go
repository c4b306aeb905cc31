package pebblestore

import (
	"strconv"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// BenchmarkHelloCommits measures the commits of an instance with one activity, of the empty
// tenant and of another one: whose records are in one index, or in two.
func BenchmarkHelloCommits(b *testing.B) {
	for _, tenant := range []string{"", "acme"} {
		b.Run("tenant="+tenant, func(b *testing.B) {
			s, err := Open(b.Context(), "data", Options{Clock: base.NewManual(start), Logger: quiet(), fs: vfs.NewMem()})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			commit := func(tx *store.Tx) {
				if err := s.Commit(b.Context(), tx); err != nil {
					b.Fatal(err)
				}
			}
			body := make([]byte, 100)
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				n++
				id := "hello-" + strconv.Itoa(n)
				key, task := store.Key{Queue: "turns", Tenant: tenant, Name: id}, store.Key{Queue: "tasks", Tenant: tenant, Name: id}
				record := func(status string, version int64) []store.PutRecord {
					return []store.PutRecord{{Expect: version, Record: store.Record{
						Key: store.RecordKey{Kind: "instance", Tenant: tenant, ID: id}, Status: status, Name: "hello", Time: start.Add(time.Duration(n) * time.Millisecond), Body: body,
					}}}
				}
				commit(&store.Tx{Put: []store.Message{{Key: key, ID: "start", Route: "hello@1", Body: body}}, PutRecords: record("running", 0)})
				commit(&store.Tx{
					Delete: []store.MessageRef{{Key: key, ID: "start"}}, Append: []store.Append{{Key: key, Entries: [][]byte{body, body}}},
					Put: []store.Message{{Key: task, ID: "1", Route: "greet", Body: body}},
				})
				commit(&store.Tx{Delete: []store.MessageRef{{Key: task, ID: "1"}}, Put: []store.Message{{Key: key, ID: "1", Route: "hello@1", Body: body}}})
				commit(&store.Tx{
					Delete: []store.MessageRef{{Key: key, ID: "1"}}, Append: []store.Append{{Key: key, At: 2, Entries: [][]byte{body, body}}},
					PutRecords: record("completed", 1),
				})
			}
			b.ReportMetric(float64(s.db.Metrics().WAL.BytesIn)/float64(n), "wal-B/op")
		})
	}
}
