package timer_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/internal/teststore"
	"github.com/abidehq/abide/store/storetest"
	"github.com/abidehq/abide/timer"
)

// keys returns the keys of timers of acme with that status, in the order of their names.
func (r *fixture) keys(status timer.Status) string {
	r.T.Helper()
	page, err := r.List(r.T.Context(), timer.Filter{Tenant: "acme", Statuses: []timer.Status{status}, Limit: timer.MaxPage})
	check.OK(r.T, err)
	var keys []string
	for _, got := range page.Timers {
		keys = append(keys, got.Key)
	}
	slices.Sort(keys)
	return strings.Join(keys, " ")
}

// fill schedules a1 to a3 and b1 to b3, due after as many hours, of which those with the
// number 2 are correlated.
func (r *fixture) fill() {
	r.T.Helper()
	for _, prefix := range []string{"a", "b"} {
		for n := 1; n <= 3; n++ {
			req := timer.Request{Key: fmt.Sprint(prefix, n), DueAt: r.At(time.Duration(n) * time.Hour)}
			if n == 2 {
				req.CorrelationID = "c"
			}
			r.schedule(req)
		}
	}
}

func TestCancelAllCancelsWhatMatches(t *testing.T) {
	for name, tt := range map[string]struct {
		filter func(*fixture) timer.Filter
		want   string // is cancelled
	}{
		"tenant":         {func(*fixture) timer.Filter { return timer.Filter{} }, "a1 a2 a3 b1 b2 b3"},
		"from":           {func(r *fixture) timer.Filter { return timer.Filter{From: r.At(2 * time.Hour)} }, "a2 a3 b2 b3"},
		"to":             {func(r *fixture) timer.Filter { return timer.Filter{To: r.At(2 * time.Hour)} }, "a1 b1"},
		"from and to":    {func(r *fixture) timer.Filter { return timer.Filter{From: r.At(2 * time.Hour), To: r.At(3 * time.Hour)} }, "a2 b2"},
		"correlation ID": {func(*fixture) timer.Filter { return timer.Filter{CorrelationID: "c"} }, "a2 b2"},
		"prefix":         {func(*fixture) timer.Filter { return timer.Filter{KeyPrefix: "b"} }, "b1 b2 b3"},
		"all":            {func(r *fixture) timer.Filter { return timer.Filter{KeyPrefix: "b", CorrelationID: "c", From: r.Began} }, "b2"},
		"nothing":        {func(*fixture) timer.Filter { return timer.Filter{CorrelationID: "d"} }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				r := newFixture(t)
				r.run()
				r.fill()
				r.schedule(timer.Request{Tenant: "other", Key: "a1", DueAt: r.At(time.Hour), CorrelationID: "c"})
				filter := tt.filter(r)
				filter.Tenant = "acme"
				n, err := r.CancelAll(t.Context(), filter)
				check.OK(t, err)
				check.Equal(t, "number", n, len(strings.Fields(tt.want)))
				check.Equal(t, "cancelled", r.keys(timer.Cancelled), tt.want)
				rig.Pass(24 * time.Hour)
				check.Equal(t, "envelopes", len(r.sink.Accepted()), 7-n)
			})
		})
	}
}

// TestCancelAllLeavesWhatIsNotArmed, which it can see and not change.
func TestCancelAllLeavesWhatIsNotArmed(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.run()
		r.fill()
		r.cancel("b3")
		cancelled := r.get("b3").Version
		rig.Pass(time.Hour)
		n, err := r.CancelAll(t.Context(), timer.Filter{Tenant: "acme"})
		check.Equal(t, "error", err, nil)
		check.Equal(t, "number", n, 3)
		check.Equal(t, "fired", r.keys(timer.Fired), "a1 b1")
		check.Equal(t, "version of one that was cancelled before", r.get("b3").Version, cancelled)
	})
}

// TestCancelAllLooksAgainAtWhatWasChanged: a timer that was moved meanwhile is cancelled if
// it is still one of those that are meant.
func TestCancelAllLooksAgainAtWhatWasChanged(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		s := teststore.New(t)
		t.Cleanup(func() { _ = s.Close() })
		other := newFixtureOn(t, s)
		commits := 0
		r := newFixtureOn(t, storetest.NewFaulty(s, func(c storetest.Call) storetest.Fault {
			if c.Method != "Commit" {
				return storetest.NoFault
			}
			if commits++; commits == 1 {
				other.schedule(timer.Request{Key: "moved out", DueAt: other.At(5 * time.Hour), CorrelationID: "c"})
				other.schedule(timer.Request{Key: "moved within", DueAt: other.At(2 * time.Hour), CorrelationID: "c"})
				other.schedule(timer.Request{Key: "of another", DueAt: other.At(time.Hour), CorrelationID: "d"})
				other.cancel("cancelled")
			}
			return storetest.NoFault
		}))
		for _, key := range []string{"cancelled", "left alone", "moved out", "moved within", "of another"} {
			other.schedule(timer.Request{Key: key, DueAt: r.At(time.Hour), CorrelationID: "c"})
		}
		n, err := r.CancelAll(t.Context(), timer.Filter{Tenant: "acme", To: r.At(3 * time.Hour), CorrelationID: "c"})
		check.Equal(t, "error", err, nil)
		check.Equal(t, "number", n, 2)
		check.Equal(t, "armed", r.keys(timer.Armed), "moved out of another")
		check.Equal(t, "cancelled", r.keys(timer.Cancelled), "cancelled left alone moved within")
	})
}

// TestCancelAllGoesOnInSmallCommits, and from where it came to after an error.
func TestCancelAllGoesOnInSmallCommits(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		s := teststore.New(t)
		t.Cleanup(func() { _ = s.Close() })
		commits, broken := 0, 3
		r := newFixtureOn(t, storetest.NewFaulty(s, func(c storetest.Call) storetest.Fault {
			if c.Method == "Commit" {
				if commits++; commits == broken {
					return storetest.FailBefore
				}
			}
			return storetest.NoFault
		}))
		if _, err := r.ScheduleAll(t.Context(), many("acme", 1200)); err != nil {
			t.Fatal(err)
		}
		n, err := r.CancelAll(t.Context(), timer.Filter{Tenant: "acme"})
		check.ErrorOf(t, "timer", err, storetest.ErrFault, "cancel all")
		check.Equal(t, "number before the error", n, 500)
		n, err = r.CancelAll(t.Context(), timer.Filter{Tenant: "acme"})
		check.Equal(t, "error", err, nil)
		check.Equal(t, "number after the error", n, 700)
		check.Equal(t, "commits", commits, 5)
	})
}

func TestCancelAllIsRefused(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		_, err := r.CancelAll(t.Context(), timer.Filter{})
		check.ErrorOf(t, "timer", err, timer.ErrInvalid, "tenant")
		_, err = r.CancelAll(t.Context(), timer.Filter{Tenant: "acme", Statuses: []timer.Status{timer.Armed}})
		check.ErrorOf(t, "timer", err, timer.ErrInvalid, "statuses")
		for _, f := range []timer.Filter{{Tenant: "acme", Limit: 5}, {Tenant: "acme", Cursor: "x"}} {
			_, err = r.CancelAll(t.Context(), f)
			check.ErrorOf(t, "timer", err, timer.ErrInvalid, "a limit or a cursor")
		}
	})
}
