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
	"github.com/abidehq/abide/store"
)

var errDown = errors.New("the sink is down")

func TestWhatIsAcceptedIsDone(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.run()
		r.put(1, 2, 3)
		r.pass(0)
		accepted, _ := r.sink.published()
		wantEqual(t, "envelopes", accepted, 3)
		var got []string
		for _, c := range r.sink.calls {
			for _, e := range c.envelopes {
				got = append(got, fmt.Sprintf("%+v", e))
			}
		}
		slices.Sort(got)
		for i, text := range got {
			wantEqual(t, "envelope", text, fmt.Sprintf("%+v", envelope(i+1)))
		}
		if _, waits := r.waiting(1); waits {
			t.Error("what was published is still in the outbox")
		}
		for _, o := range r.notes.list {
			wantEqual(t, "state", o.State, outbox.Published)
			wantEqual(t, "name", o.Name, "name"+string(o.Envelope.Payload))
			wantEqual(t, "note", string(o.Note[0]+'0'), string(o.Envelope.Payload))
			wantEqual(t, "attempt", o.Attempt, 1)
		}
		r.pass(time.Hour)
		accepted, _ = r.sink.published()
		wantEqual(t, "envelopes an hour later", accepted, 3)
	})
}

// TestRetriesWaitLongerEachTime, up to the cap, less a fifth at most.
func TestRetriesWaitLongerEachTime(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.sink.fail(errDown)
		r.run(retry(8, 10*time.Second, time.Minute))
		r.put(1)
		r.pass(time.Hour)
		wantEqual(t, "attempts", len(r.sink.calls), 8)
		waits := []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second, time.Minute, time.Minute, time.Minute, time.Minute}
		for i, want := range waits {
			got := r.sink.calls[i+1].at.Sub(r.sink.calls[i].at)
			if got > want || got < want-want/5 {
				t.Errorf("wait %d is %v, want %v less a fifth at most", i+1, got, want)
			}
			wantEqual(t, "state", r.notes.list[i].State, outbox.Retrying)
			wantEqual(t, "attempt", r.notes.list[i].Attempt, i+1)
			wantEqual(t, "next", r.notes.list[i].Next.Sub(r.begun), r.sink.calls[i+1].at.Sub(r.begun))
			wantEqual(t, "error", r.notes.list[i].Err, errDown)
		}
	})
}

// TestRetriesSpread: what failed together does not come back together.
func TestRetriesSpread(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.sink.fail(errDown)
		r.run(retry(0, time.Hour, time.Hour))
		var numbers []int
		for n := range 100 {
			numbers = append(numbers, n)
		}
		r.put(numbers...)
		r.pass(0)
		times := map[time.Time]bool{}
		var early, late int
		for n := range numbers {
			m, _ := r.waiting(n)
			wait := m.VisibleAt.Sub(r.begun)
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
	bubble(t, func(t *testing.T, r *rig) {
		r.sink.fail(bus.RetryAfter(errDown, 17*time.Minute))
		r.run()
		r.put(1)
		r.pass(17*time.Minute - time.Millisecond)
		wantEqual(t, "attempts before", len(r.sink.calls), 1)
		r.sink.set(nil)
		r.pass(time.Millisecond)
		wantEqual(t, "attempts", len(r.sink.calls), 2)
		wantEqual(t, "state", r.notes.last(t).State, outbox.Published)
	})
}

func TestTheLongestWishIsAWeek(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.sink.fail(bus.RetryAfter(errDown, 1000*24*time.Hour))
		r.run()
		r.put(1)
		r.pass(0)
		wantEqual(t, "next", r.notes.last(t).Next.Sub(r.begun), outbox.MaxWait)
	})
}

func TestPermanentErrorsAreNotRepeated(t *testing.T) {
	for name, err := range map[string]error{
		"permanent": fmt.Errorf("no such topic: %w", bus.ErrPermanent), "invalid": fmt.Errorf("no: %w", bus.ErrInvalid),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.sink.fail(err)
				r.run()
				r.put(1)
				r.pass(time.Hour)
				wantEqual(t, "attempts", len(r.sink.calls), 1)
				wantEqual(t, "state", r.notes.last(t).State, outbox.Failed)
				kept := r.quarantine()
				if len(kept) != 1 {
					t.Fatalf("%d messages are in quarantine, want 1", len(kept))
				}
				wantEqual(t, "reason", kept[0].Status, outbox.ReasonRefused)
				wantEqual(t, "error", kept[0].Tags[store.TagError], err.Error())
				if _, waits := r.waiting(1); waits {
					t.Error("it is still in the outbox")
				}
			})
		})
	}
}

// TestEachEnvelopeOfABatchCountsForItself.
func TestEachEnvelopeOfABatchCountsForItself(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.sink.set(func(_ context.Context, list []bus.Envelope) error {
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
		r.pass(0)
		states := map[string]outbox.State{}
		for _, o := range r.notes.list {
			states[string(o.Envelope.Payload)] = o.State
		}
		wantEqual(t, "states", fmt.Sprint(states), "map[1:published 2:failed 3:retrying 4:published]")
		r.sink.set(nil)
		r.pass(time.Minute)
		wantEqual(t, "envelopes of the second call", len(r.sink.calls[len(r.sink.calls)-1].envelopes), 1)
		wantEqual(t, "messages in quarantine", len(r.quarantine()), 1)
	})
}

func TestAttemptsAreLimited(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.sink.fail(errDown)
		r.run(retry(3, time.Second, time.Second))
		r.put(1)
		r.pass(time.Hour)
		wantEqual(t, "attempts", len(r.sink.calls), 3)
		last := r.notes.last(t)
		wantEqual(t, "state", last.State, outbox.Failed)
		wantEqual(t, "attempt", last.Attempt, 3)
		wantEqual(t, "next", last.Next, time.Time{})
		kept := r.quarantine()
		if len(kept) != 1 {
			t.Fatalf("%d messages are in quarantine, want 1", len(kept))
		}
		wantEqual(t, "reason", kept[0].Status, store.ReasonAttempts)
		wantEqual(t, "tenant", kept[0].Key.Tenant, "acme")
	})
}

// TestACrashIsAnAttempt: one whose outcome nobody knows counts, and after the last one the
// envelope is not tried again.
func TestACrashIsAnAttempt(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.put(1)
		for range 3 {
			claims, err := r.store.Claim(t.Context(), store.ClaimRequest{
				Queue: outbox.Queue, Routes: []string{"sink"}, Max: 1, Lease: time.Second,
			})
			if err != nil || len(claims) != 1 {
				t.Fatalf("claimed %d, %v", len(claims), err)
			}
			r.pass(time.Second) // and nobody comes back
		}
		r.run(retry(3, time.Second, time.Second))
		r.pass(0)
		wantEqual(t, "attempts to publish", len(r.sink.calls), 0)
		wantEqual(t, "state", r.notes.last(t).State, outbox.Failed)
		kept := r.quarantine()
		if len(kept) != 1 {
			t.Fatalf("%d messages are in quarantine, want 1", len(kept))
		}
		wantEqual(t, "reason", kept[0].Status, store.ReasonAttempts)
		if text := kept[0].Tags[store.TagError]; !strings.Contains(text, "without an outcome") {
			t.Errorf("quarantine says %q", text)
		}
	})
}
