package engine

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/replay"
)

// listed returns the IDs that a query finds, a page after the other.
func (r *rig) listed(q Query) []string {
	r.Helper()
	var ids []string
	for {
		page, next, err := r.client().List(r.Context(), q)
		r.must(err)
		if q.Limit > 0 && len(page) > q.Limit {
			r.Errorf("a page has %d instances", len(page))
		}
		for _, info := range page {
			ids = append(ids, info.ID)
		}
		if next == "" {
			return ids
		}
		q.Cursor = next
	}
}

// TestListByEnd: by when instances ended, a page after the other, whenever they were started.
func TestListByEnd(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", waiter)
		r.flow("fails", func(c *replay.Context, _ []byte) replay.Outcome {
			receive(c, "go")
			return failed(failure("no"))
		})
		r.serve()
		began := time.Now()
		for i := range 6 { // i5 ends first
			name := "flow"
			if i == 4 {
				name = "fails"
			}
			r.begin(fmt.Sprintf("i%d", i), name, "")
			r.pass(time.Minute)
		}
		r.begin("open", "flow", "")
		for i := range 6 {
			r.pass(time.Hour)
			r.raise(fmt.Sprintf("i%d", 5-i), "go", "")
			r.pass(0)
		}
		hour := func(n int) time.Time { return began.Add(time.Duration(n)*time.Hour + 30*time.Minute) }
		for _, tt := range []struct {
			q    Query
			want []string
		}{
			{Query{EndedFrom: hour(1), EndedTo: hour(4)}, []string{"i2", "i3", "i4"}},
			{Query{EndedFrom: hour(1), EndedTo: hour(4), Limit: 1}, []string{"i2", "i3", "i4"}},
			{Query{EndedFrom: hour(4)}, []string{"i0", "i1"}},
			{Query{EndedTo: hour(1)}, []string{"i5"}},
			{Query{EndedFrom: hour(1), EndedTo: hour(4), Statuses: []Status{Failed, Running}}, []string{"i4"}},
			{Query{EndedFrom: began, Prefix: "i", From: began.Add(150 * time.Second)}, []string{"i3", "i4", "i5"}},
			{Query{EndedTo: began}, nil},
		} {
			if got := r.listed(tt.q); !slices.Equal(got, tt.want) {
				t.Errorf("%+v: %v, want %v", tt.q, got, tt.want)
			}
		}
	})
}

// TestUpdatedAt: the time of the last turn, however many events are in it, and that of the end.
func TestUpdatedAt(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			receive(c, "many")
			for range 3 * lastTurnWithin {
				c.Timer("", c.Now().Add(time.Hour*1000))
			}
			return done(receive(c, "go"))
		})
		r.serve()
		updated := func() time.Duration {
			r.Helper()
			info := r.info("i")
			at, err := r.UpdatedAt(r.Context(), &info)
			r.must(err)
			return at.Sub(info.CreatedAt.Truncate(time.Millisecond))
		}
		r.begin("i", "flow", "", func(s *Start) { s.After = time.Minute })
		r.pass(time.Second)
		want(r, "before it began", updated(), 0)
		r.pass(time.Hour)
		want(r, "when it began", updated(), time.Minute)
		r.raise("i", "many", "")
		r.pass(time.Minute)
		want(r, "after a turn", updated(), time.Hour+time.Second)
		r.must(r.Suspend(r.Context(), Ref{ID: "i"}, ""))
		r.until("i", Suspended)
		want(r, "after it was suspended", updated(), time.Hour+time.Minute+time.Second)
		r.must(r.Resume(r.Context(), Ref{ID: "i"}))
		r.pass(time.Hour)
		r.raise("i", "go", "x")
		r.result("i")
		info := r.info("i")
		want(r, "after its end", updated(), info.EndedAt.Sub(info.CreatedAt.Truncate(time.Millisecond)))
		want(r, "timers", r.countKind("i", history.TimerCreated), 3*lastTurnWithin)
	})
}
