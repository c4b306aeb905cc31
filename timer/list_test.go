package timer_test

import (
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/internal/teststore"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/timer"
)

// list returns the names of timers along the cursors, a bar after each page.
func (r *fixture) list(f timer.Filter, limit int) string {
	r.T.Helper()
	var text strings.Builder
	f.Limit = limit
	for {
		page, err := r.List(r.T.Context(), f)
		check.OK(r.T, err)
		for _, got := range page.Timers {
			text.WriteString(got.Tenant[:1] + "/" + got.Key + " ")
		}
		if f.Cursor = page.Next; f.Cursor == "" {
			return strings.TrimSpace(text.String())
		}
		text.WriteString("| ")
	}
}

func TestListShowsWhatMatches(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.run()
		r.fill()
		r.schedule(timer.Request{Tenant: "other", Key: "a0", DueAt: r.At(30 * time.Minute), CorrelationID: "c"})
		rig.Pass(45 * time.Minute)
		r.cancel("b3") // it is listed by when it was cancelled
		rig.Pass(15 * time.Minute)
		hour := func(n int) time.Time { return r.At(time.Duration(n) * time.Hour) }
		for name, tt := range map[string]struct {
			filter timer.Filter
			want   string
		}{
			"all, by time":        {timer.Filter{}, "o/a0 a/b3 a/a1 a/b1 a/a2 a/b2 a/a3"},
			"tenant":              {timer.Filter{Tenant: "other"}, "o/a0"},
			"armed":               {timer.Filter{Statuses: []timer.Status{timer.Armed}}, "a/a2 a/b2 a/a3"},
			"fired":               {timer.Filter{Statuses: []timer.Status{timer.Fired}}, "o/a0 a/a1 a/b1"},
			"cancelled":           {timer.Filter{Statuses: []timer.Status{timer.Cancelled}}, "a/b3"},
			"fired or cancelled":  {timer.Filter{Tenant: "acme", Statuses: []timer.Status{timer.Cancelled, timer.Fired}}, "a/b3 a/a1 a/b1"},
			"from, which counts":  {timer.Filter{From: hour(2)}, "a/a2 a/b2 a/a3"},
			"to, which does not":  {timer.Filter{To: hour(1)}, "o/a0 a/b3"},
			"within a range":      {timer.Filter{From: hour(1), To: hour(3)}, "a/a1 a/b1 a/a2 a/b2"},
			"correlation ID":      {timer.Filter{CorrelationID: "c"}, "o/a0 a/a2 a/b2"},
			"prefix":              {timer.Filter{KeyPrefix: "b"}, "a/b3 a/b1 a/b2"},
			"all that can be set": {timer.Filter{Tenant: "acme", Statuses: []timer.Status{timer.Armed}, From: hour(1), To: hour(3), CorrelationID: "c", KeyPrefix: "b"}, "a/b2"},
			"nothing":             {timer.Filter{Tenant: "nobody"}, ""},
		} {
			check.Equal(t, name, r.list(tt.filter, 0), tt.want)
		}
		check.Equal(t, "pages of 3", r.list(timer.Filter{}, 3), "o/a0 a/b3 a/a1 | a/b1 a/a2 a/b2 | a/a3")
		check.Equal(t, "pages of 2 by prefix", r.list(timer.Filter{KeyPrefix: "a"}, 2), "o/a0 | a/a1 | a/a2 | a/a3")
	})
}

func TestListHasLimits(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		if _, err := r.ScheduleAll(t.Context(), many("acme", timer.MaxPage+1)); err != nil {
			t.Fatal(err)
		}
		for limit, want := range map[int]int{0: timer.DefaultPage, 1: 1, timer.MaxPage: timer.MaxPage} {
			page, err := r.List(t.Context(), timer.Filter{Limit: limit})
			check.Equal(t, "error", err, nil)
			check.Equal(t, "timers", len(page.Timers), want)
		}
		for _, limit := range []int{-1, timer.MaxPage + 1} {
			_, err := r.List(t.Context(), timer.Filter{Limit: limit})
			check.ErrorOf(t, "timer", err, timer.ErrInvalid, "1 to 1000")
		}
		_, err := r.List(t.Context(), timer.Filter{Cursor: "not a cursor"})
		check.ErrorOf(t, "timer", err, timer.ErrInvalid, "cursor")
		_, err = r.List(t.Context(), timer.Filter{Statuses: []timer.Status{"asleep"}})
		check.ErrorOf(t, "timer", err, timer.ErrInvalid, "asleep", "armed, fired and cancelled")
	})
}

// TestWhatCannotBeReadIsSaid: a record that is damaged is an error, and not a timer that
// is missing.
func TestWhatCannotBeReadIsSaid(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		s := teststore.New(t)
		t.Cleanup(func() { _ = s.Close() })
		r := newFixtureOn(t, s)
		record := store.Record{Key: store.RecordKey{Kind: "timer", Tenant: "acme", ID: "k"}, Status: "armed", Body: []byte{9}}
		check.OK(t, s.Commit(t.Context(), &store.Tx{PutRecords: []store.PutRecord{{Record: record}}}))
		_, err := r.Get(t.Context(), "acme", "k")
		check.ErrorOf(t, "timer", err, store.ErrCorrupt, "acme/k", "format 9")
		_, err = r.List(t.Context(), timer.Filter{})
		check.ErrorOf(t, "timer", err, store.ErrCorrupt, "acme/k")
		_, err = r.Schedule(t.Context(), timer.Request{Tenant: "acme", Key: "k"})
		check.ErrorOf(t, "timer", err, store.ErrCorrupt, "acme/k")
	})
}
