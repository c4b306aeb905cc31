package timer_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/teststore"
	"github.com/abidehq/abide/store/storetest"
	"github.com/abidehq/abide/timer"
)

// keys returns the keys of timers of acme with that status, in the order of their names.
func (r *rig) keys(status timer.Status) string {
	r.t.Helper()
	page, err := r.List(r.t.Context(), timer.Filter{Tenant: "acme", Statuses: []timer.Status{status}}, timer.MaxPage, "")
	check.OK(r.t, err)
	var keys []string
	for _, got := range page.Timers {
		keys = append(keys, got.Key)
	}
	slices.Sort(keys)
	return strings.Join(keys, " ")
}

// fill schedules a1 to a3 and b1 to b3, due after as many hours, of which those with the
// number 2 are correlated.
func (r *rig) fill() {
	r.t.Helper()
	for _, prefix := range []string{"a", "b"} {
		for n := 1; n <= 3; n++ {
			req := timer.Request{Key: fmt.Sprint(prefix, n), DueAt: r.at(time.Duration(n) * time.Hour)}
			if n == 2 {
				req.CorrelationID = "c"
			}
			r.schedule(req)
		}
	}
}

func TestCancelAllCancelsWhatMatches(t *testing.T) {
	for name, tt := range map[string]struct {
		filter func(*rig) timer.Filter
		want   string // is cancelled
	}{
		"tenant":         {func(*rig) timer.Filter { return timer.Filter{} }, "a1 a2 a3 b1 b2 b3"},
		"from":           {func(r *rig) timer.Filter { return timer.Filter{From: r.at(2 * time.Hour)} }, "a2 a3 b2 b3"},
		"to":             {func(r *rig) timer.Filter { return timer.Filter{To: r.at(2 * time.Hour)} }, "a1 b1"},
		"from and to":    {func(r *rig) timer.Filter { return timer.Filter{From: r.at(2 * time.Hour), To: r.at(3 * time.Hour)} }, "a2 b2"},
		"correlation ID": {func(*rig) timer.Filter { return timer.Filter{CorrelationID: "c"} }, "a2 b2"},
		"prefix":         {func(*rig) timer.Filter { return timer.Filter{KeyPrefix: "b"} }, "b1 b2 b3"},
		"all":            {func(r *rig) timer.Filter { return timer.Filter{KeyPrefix: "b", CorrelationID: "c", From: r.begun} }, "b2"},
		"nothing":        {func(*rig) timer.Filter { return timer.Filter{CorrelationID: "d"} }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t)
				r.run()
				r.fill()
				r.schedule(timer.Request{Tenant: "other", Key: "a1", DueAt: r.at(time.Hour), CorrelationID: "c"})
				filter := tt.filter(r)
				filter.Tenant = "acme"
				n, err := r.CancelAll(t.Context(), filter)
				check.OK(t, err)
				wantEqual(t, "number", n, len(strings.Fields(tt.want)))
				wantEqual(t, "cancelled", r.keys(timer.Cancelled), tt.want)
				r.pass(24 * time.Hour)
				wantEqual(t, "envelopes", r.sink.count(), 7-n)
			})
		})
	}
}

// TestCancelAllLeavesWhatIsNotArmed, which it can see and not change.
func TestCancelAllLeavesWhatIsNotArmed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.run()
		r.fill()
		r.cancel("b3")
		cancelled := r.get("b3").Version
		r.pass(time.Hour)
		n, err := r.CancelAll(t.Context(), timer.Filter{Tenant: "acme"})
		wantEqual(t, "error", err, nil)
		wantEqual(t, "number", n, 3)
		wantEqual(t, "fired", r.keys(timer.Fired), "a1 b1")
		wantEqual(t, "version of one that was cancelled before", r.get("b3").Version, cancelled)
	})
}

// TestCancelAllLooksAgainAtWhatWasChanged: a timer that was moved meanwhile is cancelled if
// it is still one of those that are meant.
func TestCancelAllLooksAgainAtWhatWasChanged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := teststore.New(t)
		t.Cleanup(func() { _ = s.Close() })
		other := newRigOn(t, s)
		commits := 0
		r := newRigOn(t, storetest.NewFaulty(s, func(c storetest.Call) storetest.Fault {
			if c.Method != "Commit" {
				return storetest.NoFault
			}
			if commits++; commits == 1 {
				other.schedule(timer.Request{Key: "moved out", DueAt: other.at(5 * time.Hour), CorrelationID: "c"})
				other.schedule(timer.Request{Key: "moved within", DueAt: other.at(2 * time.Hour), CorrelationID: "c"})
				other.schedule(timer.Request{Key: "of another", DueAt: other.at(time.Hour), CorrelationID: "d"})
				other.cancel("cancelled")
			}
			return storetest.NoFault
		}))
		for _, key := range []string{"cancelled", "left alone", "moved out", "moved within", "of another"} {
			other.schedule(timer.Request{Key: key, DueAt: r.at(time.Hour), CorrelationID: "c"})
		}
		n, err := r.CancelAll(t.Context(), timer.Filter{Tenant: "acme", To: r.at(3 * time.Hour), CorrelationID: "c"})
		wantEqual(t, "error", err, nil)
		wantEqual(t, "number", n, 2)
		wantEqual(t, "armed", r.keys(timer.Armed), "moved out of another")
		wantEqual(t, "cancelled", r.keys(timer.Cancelled), "cancelled left alone moved within")
	})
}

// TestCancelAllGoesOnInSmallCommits, and from where it came to after an error.
func TestCancelAllGoesOnInSmallCommits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := teststore.New(t)
		t.Cleanup(func() { _ = s.Close() })
		commits, broken := 0, 3
		r := newRigOn(t, storetest.NewFaulty(s, func(c storetest.Call) storetest.Fault {
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
		wantError(t, err, storetest.ErrFault, "cancel all")
		wantEqual(t, "number before the error", n, 500)
		n, err = r.CancelAll(t.Context(), timer.Filter{Tenant: "acme"})
		wantEqual(t, "error", err, nil)
		wantEqual(t, "number after the error", n, 700)
		wantEqual(t, "commits", commits, 5)
	})
}

func TestCancelAllIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		_, err := r.CancelAll(t.Context(), timer.Filter{})
		wantError(t, err, timer.ErrInvalid, "tenant")
		_, err = r.CancelAll(t.Context(), timer.Filter{Tenant: "acme", Statuses: []timer.Status{timer.Armed}})
		wantError(t, err, timer.ErrInvalid, "statuses")
	})
}
