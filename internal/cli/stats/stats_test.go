package stats

import (
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/store"
)

// TestWhatNobodyClaimsIsNotReady: instances that wait for a limit or a person are not work that processes leave behind.
func TestWhatNobodyClaimsIsNotReady(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := store.Stats{Now: now}
	for _, r := range [][2]string{{"turns", ""}, {"turns", ".limited"}, {"turns", ".parked"}, {"turns", "order"}, {"limits", ".limits"}, {"activities", ".limited"}} {
		s.Routes = append(s.Routes, store.RouteStats{Queue: r[0], Route: r[1], Pending: 5, Ready: 3, Oldest: now.Add(-time.Minute)})
	}
	var out strings.Builder
	if err := RouteRows(&s).WriteTable(&out, s.Routes); err != nil {
		t.Fatal(err)
	}
	want := `QUEUE       ROUTE                   PENDING  READY  LEASED  AGE
turns       (not started)           5        3      0       1m
turns       (waiting for a limit)   5        0      0
turns       (suspended or stalled)  5        0      0
turns       order                   5        3      0       1m
limits      (gates of limits)       5        3      0       1m
activities  .limited                5        3      0       1m
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}
