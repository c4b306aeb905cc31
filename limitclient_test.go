package abide_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/store/memstore"
)

// TestChangeOfARevision: two operators who have seen the same limit do not overwrite each other's change.
func TestChangeOfARevision(t *testing.T) {
	t.Parallel()
	s := memstore.New(memstore.Options{})
	t.Cleanup(func() { _ = s.Close() })
	c := abide.NewClient(s, nil)
	seen, err := c.ChangeLimit(t.Context(), "", "stripe", abide.LimitChange{Set: &abide.LimitRule{Rate: 100, Per: time.Second}})
	if err != nil || seen.Revision == 0 || seen.Rule() != (abide.LimitRule{Rate: 100, Per: time.Second, Burst: 10}) {
		t.Fatalf("%+v, %v", seen, err)
	}
	first, err := c.ChangeLimit(t.Context(), "", "stripe", abide.LimitChange{Paused: new(true), Revision: seen.Revision})
	if err != nil || !first.Paused || first.Revision == seen.Revision {
		t.Fatalf("%+v, %v", first, err)
	}
	_, err = c.ChangeLimit(t.Context(), "", "stripe", abide.LimitChange{Unset: true, Revision: seen.Revision})
	if !errors.Is(err, abide.ErrConflict) || !strings.Contains(err.Error(), "revision") {
		t.Errorf("a change of what has changed: %v", err)
	}
	_, err = c.ChangeLimit(t.Context(), "", "other", abide.LimitChange{Set: &abide.LimitRule{Concurrency: 1}, Revision: 1})
	if !errors.Is(err, abide.ErrConflict) {
		t.Errorf("a change of what is not there: %v", err)
	}
	now, err := c.Limit(t.Context(), "", "stripe")
	if err != nil || now.Revision != first.Revision || now.Set == nil {
		t.Errorf("%+v, %v", now, err)
	}
}
