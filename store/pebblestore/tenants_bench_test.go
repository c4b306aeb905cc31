package pebblestore

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// heapBytes returns how much memory is in use.
func heapBytes() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// BenchmarkIdleTenants measures what many tenants cost that have one timer each, which is
// not due: a record, and a message in a partition of its own.
func BenchmarkIdleTenants(b *testing.B) {
	const tenants = 200_000
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
	empty := heapBytes()
	for part := range tenants / 1000 {
		var tx store.Tx
		for i := range 1000 {
			tenant := fmt.Sprintf("tenant-%d", part*1000+i)
			tx.Put = append(tx.Put, store.Message{
				Key: store.Key{Queue: "timers", Tenant: tenant, Name: "k"}, ID: "m", Route: "timer", VisibleAt: start.Add(time.Hour),
			})
			tx.PutRecords = append(tx.PutRecords, store.PutRecord{Record: store.Record{
				Key: store.RecordKey{Kind: "timer", Tenant: tenant, ID: "k"}, Status: "armed", Time: start.Add(time.Duration(i) * time.Second),
			}})
		}
		commit(&tx)
	}
	perPartition := (heapBytes() - empty) / tenants
	b.Run("stats", func(b *testing.B) {
		for b.Loop() {
			if _, err := s.Stats(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(perPartition, "heap-B/tenant")
	})
	for name, q := range map[string]store.Query{
		"page of ten":       {Kind: "timer", Limit: 10},
		"sweep for nothing": {Kind: "timer", Statuses: []string{"fired", "cancelled"}, To: start, Limit: 1000},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := s.List(b.Context(), q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	for part := range tenants / 1000 {
		var tx store.Tx
		for i := range 1000 {
			tenant := fmt.Sprintf("tenant-%d", part*1000+i)
			tx.DeleteKeys = append(tx.DeleteKeys, store.Key{Queue: "timers", Tenant: tenant, Name: "k"})
			tx.DeleteRecords = append(tx.DeleteRecords, store.DeleteRecord{Key: store.RecordKey{Kind: "timer", Tenant: tenant, ID: "k"}, Expect: store.AnyVersion})
		}
		commit(&tx)
	}
	b.Run("stats after deletion", func(b *testing.B) {
		for b.Loop() {
			if _, err := s.Stats(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric((heapBytes()-empty)/tenants, "heap-B/tenant")
	})
}
