package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/store"
)

var errDown = errors.New("the sink is down")

func TestWhatIsAcceptedIsDone(t *testing.T) {
	bubble(t, func(t *testing.T, r *fixture) {
		r.run()
		r.put(1, 2, 3)
		rig.Pass(0)
		check.Equal(t, "envelopes", len(r.sink.Accepted()), 3)
		var got []string
		for _, c := range r.sink.Calls() {
			for _, e := range c.Envelopes {
				got = append(got, fmt.Sprintf("%+v", e))
			}
		}
		slices.Sort(got)
		for i, text := range got {
			check.Equal(t, "envelope", text, fmt.Sprintf("%+v", envelope(i+1)))
		}
		if _, waits := r.waiting(1); waits {
			t.Error("what was published is still in the outbox")
		}
		for _, o := range r.notes.list {
			check.Equal(t, "state", o.State, outbox.Published)
			check.Equal(t, "name", o.Name, "name"+string(o.Envelope.Payload))
			check.Equal(t, "note", string(o.Note[0]+'0'), string(o.Envelope.Payload))
			check.Equal(t, "attempt", o.Attempt, 1)
		}
		rig.Pass(time.Hour)
		check.Equal(t, "envelopes an hour later", len(r.sink.Accepted()), 3)
	})
}

// TestRetriesWaitLongerEachTime, up to the cap, less a fifth at most.
func TestRetriesWaitLongerEachTime(t *testing.T) {
	bubble(t, func(t *testing.T, r *fixture) {
		r.sink.Fail(errDown)
		r.run(retry(8, 10*time.Second, time.Minute))
		r.put(1)
		rig.Pass(time.Hour)
		check.Equal(t, "attempts", len(r.sink.Calls()), 8)
		waits := []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second, time.Minute, time.Minute, time.Minute, time.Minute}
		for i, want := range waits {
			got := r.sink.Calls()[i+1].At.Sub(r.sink.Calls()[i].At)
			if got > want || got < want-want/5 {
				t.Errorf("wait %d is %v, want %v less a fifth at most", i+1, got, want)
			}
			check.Equal(t, "state", r.notes.list[i].State, outbox.Retrying)
			check.Equal(t, "attempt", r.notes.list[i].Attempt, i+1)
			check.Equal(t, "next", r.notes.list[i].Next.Sub(r.Began), r.sink.Calls()[i+1].At.Sub(r.Began))
			check.Equal(t, "error", r.notes.list[i].Err, errDown)
		}
	})
}

// TestRetriesSpread: what failed together does not come back together.
func TestRetriesSpread(t *testing.T) {
	bubble(t, func(t *testing.T, r *fixture) {
		r.sink.Fail(errDown)
		r.run(retry(0, time.Hour, time.Hour))
		var numbers []int
		for n := range 100 {
			numbers = append(numbers, n)
		}
		r.put(numbers...)
		rig.Pass(0)
		times := map[time.Time]bool{}
		var early, late int
		for n := range numbers {
			m, _ := r.waiting(n)
			wait := m.VisibleAt.Sub(r.Began)
			if wait > time.Hour || wait < 48*time.Minute {
				t.Fatalf("a wait is %v, want an hour less a fifth at most", wait)
			}
			if wait < 54*time.Minute {
				early++
			} else {
				late++
			}
			times[m.VisibleAt] = true
		}
		if len(times) < 50 || early < 10 || late < 10 {
			t.Errorf("100 envelopes come back at %d times, %d of them early and %d late", len(times), early, late)
		}
	})
}

func TestASinkIsLeftAloneAsLongAsItWishes(t *testing.T) {
	bubble(t, func(t *testing.T, r *fixture) {
		r.sink.Fail(bus.RetryAfter(errDown, 17*time.Minute))
		r.run()
		r.put(1)
		rig.Pass(17*time.Minute - time.Millisecond)
		check.Equal(t, "attempts before", len(r.sink.Calls()), 1)
		r.sink.Respond(nil)
		rig.Pass(time.Millisecond)
		check.Equal(t, "attempts", len(r.sink.Calls()), 2)
		check.Equal(t, "state", r.notes.last(t).State, outbox.Published)
	})
}

func TestTheLongestWishIsAWeek(t *testing.T) {
	bubble(t, func(t *testing.T, r *fixture) {
		r.sink.Fail(bus.RetryAfter(errDown, 1000*24*time.Hour))
		r.run()
		r.put(1)
		rig.Pass(0)
		check.Equal(t, "next", r.notes.last(t).Next.Sub(r.Began), outbox.MaxWait)
	})
}

func TestPermanentErrorsAreNotRepeated(t *testing.T) {
	for name, err := range map[string]error{
		"permanent": fmt.Errorf("no such topic: %w", bus.ErrPermanent), "invalid": fmt.Errorf("no: %w", bus.ErrInvalid),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *fixture) {
				r.sink.Fail(err)
				r.run()
				r.put(1)
				rig.Pass(time.Hour)
				check.Equal(t, "attempts", len(r.sink.Calls()), 1)
				check.Equal(t, "state", r.notes.last(t).State, outbox.Failed)
				kept := r.Quarantine()
				if len(kept) != 1 {
					t.Fatalf("%d messages are in quarantine, want 1", len(kept))
				}
				check.Equal(t, "reason", kept[0].Status, outbox.ReasonRefused)
				check.Equal(t, "error", kept[0].Tags[store.TagError], err.Error())
				if _, waits := r.waiting(1); waits {
					t.Error("it is still in the outbox")
				}
			})
		})
	}
}

// TestEachEnvelopeOfABatchCountsForItself.
func TestEachEnvelopeOfABatchCountsForItself(t *testing.T) {
	bubble(t, func(t *testing.T, r *fixture) {
		r.sink.Respond(func(_ context.Context, list []bus.Envelope) error {
			outcomes := make([]error, len(list))
			for i, e := range list {
				switch string(e.Payload) {
				case "2":
					outcomes[i] = bus.ErrPermanent
				case "3":
					outcomes[i] = errDown
				}
			}
			return bus.Join(outcomes)
		})
		r.put(1, 2, 3, 4)
		r.run(retry(2, time.Minute, time.Minute))
		rig.Pass(0)
		states := map[string]outbox.State{}
		for _, o := range r.notes.list {
			states[string(o.Envelope.Payload)] = o.State
		}
		check.Equal(t, "states", fmt.Sprint(states), "map[1:published 2:failed 3:retrying 4:published]")
		r.sink.Respond(nil)
		rig.Pass(time.Minute)
		check.Equal(t, "envelopes of the second call", len(r.sink.Calls()[len(r.sink.Calls())-1].Envelopes), 1)
		check.Equal(t, "messages in quarantine", len(r.Quarantine()), 1)
	})
}

func TestAttemptsAreLimited(t *testing.T) {
	bubble(t, func(t *testing.T, r *fixture) {
		r.sink.Fail(errDown)
		r.run(retry(3, time.Second, time.Second))
		r.put(1)
		rig.Pass(time.Hour)
		check.Equal(t, "attempts", len(r.sink.Calls()), 3)
		last := r.notes.last(t)
		check.Equal(t, "state", last.State, outbox.Failed)
		check.Equal(t, "attempt", last.Attempt, 3)
		check.Equal(t, "next", last.Next, time.Time{})
		kept := r.Quarantine()
		if len(kept) != 1 {
			t.Fatalf("%d messages are in quarantine, want 1", len(kept))
		}
		check.Equal(t, "reason", kept[0].Status, store.ReasonAttempts)
		check.Equal(t, "tenant", kept[0].Key.Tenant, "acme")
	})
}

// TestACrashIsAnAttempt: one whose outcome nobody knows counts, and after the last one the
// envelope is not tried again.
func TestACrashIsAnAttempt(t *testing.T) {
	bubble(t, func(t *testing.T, r *fixture) {
		r.put(1)
		for range 3 {
			claims, err := r.Store.Claim(t.Context(), store.ClaimRequest{
				Queue: outbox.Queue, Routes: []string{"sink"}, Max: 1, Lease: time.Second,
			})
			if err != nil || len(claims) != 1 {
				t.Fatalf("claimed %d, %v", len(claims), err)
			}
			rig.Pass(time.Second) // and nobody comes back
		}
		r.run(retry(3, time.Second, time.Second))
		rig.Pass(0)
		check.Equal(t, "attempts to publish", len(r.sink.Calls()), 0)
		check.Equal(t, "state", r.notes.last(t).State, outbox.Failed)
		kept := r.Quarantine()
		if len(kept) != 1 {
			t.Fatalf("%d messages are in quarantine, want 1", len(kept))
		}
		check.Equal(t, "reason", kept[0].Status, store.ReasonAttempts)
		if text := kept[0].Tags[store.TagError]; !strings.Contains(text, "without an outcome") {
			t.Errorf("quarantine says %q", text)
		}
	})
}
