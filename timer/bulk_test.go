package timer_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
	"github.com/abidehq/abide/store/pebblestore"
	"github.com/abidehq/abide/store/storetest"
	"github.com/abidehq/abide/timer"
)

// many returns requests for that many timers of a tenant.
func many(tenant string, n int) []timer.Request {
	requests := make([]timer.Request, n)
	for i := range requests {
		requests[i] = timer.Request{Tenant: tenant, Key: fmt.Sprintf("k%05d", i), Delay: time.Hour}
	}
	return requests
}

// armed returns how many timers are armed.
func (r *fixture) armed() int {
	r.T.Helper()
	n, err := r.Store.Count(r.T.Context(), store.Query{Kind: "timer", Statuses: []string{"armed"}}, store.MaxCount)
	check.OK(r.T, err)
	return n
}

func TestThousandsOfTimersAreOneCommit(t *testing.T) {
	t.Parallel()
	open := map[string]func(*testing.T) store.Store{
		"in memory": func(*testing.T) store.Store { return memstore.New(memstore.Options{}) },
		"on disk": func(t *testing.T) store.Store {
			s, err := pebblestore.Open(t.Context(), t.TempDir(), pebblestore.Options{})
			check.OK(t, err)
			return s
		},
	}
	for name, open := range open {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			t.Cleanup(func() { _ = s.Close() })
			commits := 0
			r := newFixtureOn(t, storetest.NewFaulty(s, func(c storetest.Call) storetest.Fault {
				if c.Method == "Commit" {
					commits++
				}
				return storetest.NoFault
			}))
			told, err := r.ScheduleAll(t.Context(), many("acme", timer.MaxBulk))
			check.OK(t, err)
			check.Equal(t, "commits", commits, 1)
			check.Equal(t, "armed", r.armed(), timer.MaxBulk)
			check.Equal(t, "timers that it tells of", len(told), timer.MaxBulk)
			check.Equal(t, "the last of them", told[timer.MaxBulk-1].Key, "k09999")
			check.Equal(t, "the last of them", r.get("k09999").Version, 1)

			_, err = r.ScheduleAll(t.Context(), many("acme", timer.MaxBulk+1))
			check.ErrorOf(t, "timer", err, timer.ErrInvalid, "10001 timers", "at most 10000")
			if told, err := r.ScheduleAll(t.Context(), nil); err != nil || len(told) != 0 {
				t.Errorf("no requests make %d timers, %v", len(told), err)
			}
			check.Equal(t, "commits", commits, 1)
		})
	}
}

// TestBulkMovesAndArmsAgainAsSingleRequestsDo.
func TestBulkMovesAndArmsAgainAsSingleRequestsDo(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t)
		r.run()
		r.schedule(timer.Request{Key: "k00000", Delay: time.Minute})
		r.schedule(timer.Request{Key: "k00001", Delay: 2 * time.Hour})
		rig.Pass(time.Minute)
		told, err := r.ScheduleAll(t.Context(), many("acme", 3))
		check.OK(t, err)
		check.Equal(t, "arming of one that had fired", told[0].Arming, 2)
		check.Equal(t, "arming of one that is moved", told[1].Arming, 1)
		check.Equal(t, "version of one that is moved", told[1].Version, 2)
		check.Equal(t, "version of a new one", told[2].Version, 1)
		rig.Pass(time.Hour)
		check.Equal(t, "envelopes", len(r.sink.Accepted()), 4)
	})
}

// TestBulkIsAllOrNothing: what is wrong with one request is wrong with all of them.
func TestBulkIsAllOrNothing(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t, func(c *timer.Config) { c.Quota = 5 })
		r.schedule(timer.Request{Key: "k00001", Delay: 2 * time.Hour})
		for name, tt := range map[string]struct {
			spoil  func([]timer.Request)
			target error
			says   []string
		}{
			"a duplicate": {func(q []timer.Request) { q[2].Key = "k00000" }, timer.ErrInvalid, []string{"requests 0 and 2", "acme/k00000"}},
			"a bad name":  {func(q []timer.Request) { q[2].Key = "" }, timer.ErrInvalid, []string{"request 2", "key is empty"}},
			"bad JSON":    {func(q []timer.Request) { q[2].Payload = []byte("{") }, timer.ErrInvalid, []string{"request 2", "acme/k00002", "not JSON"}},
			"a version":   {func(q []timer.Request) { q[1].IfVersion = 7 }, timer.ErrConflict, []string{"acme/k00001", "version 1, expected 7"}},
			"existence":   {func(q []timer.Request) { q[1].IfAbsent = true }, timer.ErrExists, []string{"acme/k00001"}},
		} {
			requests := many("acme", 3)
			tt.spoil(requests)
			told, err := r.ScheduleAll(t.Context(), requests)
			check.ErrorOf(t, "timer", err, tt.target, tt.says...)
			check.Equal(t, name+": timers", len(told), 0)
			check.Equal(t, name+": armed", r.keys(timer.Armed), "k00001")
			check.Equal(t, name+": due", r.get("k00001").DueAt, r.At(2*time.Hour))
		}
	})
}

// TestBulkThatIsTooLargeIsInvalid, so that nobody tries it again.
func TestBulkThatIsTooLargeIsInvalid(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t, func(c *timer.Config) { c.MaxPayload = timer.MaxPayload })
		requests := many("acme", 65) // each of which is kept twice
		payload := append(append([]byte{'"'}, make([]byte, timer.MaxPayload-2)...), '"')
		for i := range payload[1 : len(payload)-1] {
			payload[i+1] = 'x'
		}
		for i := range requests {
			requests[i].Payload = payload
		}
		_, err := r.ScheduleAll(t.Context(), requests)
		check.ErrorOf(t, "timer", err, timer.ErrInvalid, "schedule all", "too large")
		check.Equal(t, "armed", r.armed(), 0)
	})
}
