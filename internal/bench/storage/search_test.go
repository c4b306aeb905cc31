package storage

import (
	"testing"

	"github.com/abidehq/abide/internal/bench"
	"github.com/abidehq/abide/internal/bench/benchtest"
)

// TestSearch: each kind of search finds what it should, and is reported.
func TestSearch(t *testing.T) {
	t.Parallel()
	report := benchtest.Run(t, SearchSpec(), bench.Config{URL: "memory://"}, "--records 2000 --searches 110")
	for _, q := range searchQueries {
		if report[q.name+"_p99_ms"] == nil || report[q.name+"_pages"] == nil {
			t.Errorf("there are no figures for %s: %v", q.name, report)
		}
	}
}
