package bench

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/bus"
)

func TestKeysOfTimers(t *testing.T) {
	t.Parallel()
	l := newLedger()
	seen := map[string]bool{}
	for _, mark := range []byte{markFar, markTimers} {
		for _, i := range []int{0, 1, 255, maxPending} {
			key := l.key(mark, i)
			gotMark, gotI, ours := l.parseKey([]byte(key))
			if !ours || gotMark != mark || gotI != i || seen[key] {
				t.Errorf("key %s is %c %d, ours: %t, seen before: %t; want %c %d", key, gotMark, gotI, ours, seen[key], mark, i)
			}
			seen[key] = true
			if _, _, ours := newLedger().parseKey([]byte(key)); ours {
				t.Errorf("key %s is of another run too", key)
			}
		}
	}
	for _, key := range []string{"", "order-1", strings.Repeat("x", keyLength)} {
		if _, _, ours := l.parseKey([]byte(key)); ours {
			t.Errorf("key %q is of this run", key)
		}
	}
}

// TestLedger: a subscriber is told of timers of this run and of others, late and early.
func TestLedger(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	base := time.Now().Add(-time.Hour).Truncate(ms)
	due := func(i int) time.Time { return base.Add(time.Duration(i) * time.Second) }
	l := newLedger()
	b := l.expect(markTimers, 3, due)
	tell := func(key string, fired time.Time) {
		t.Helper()
		e := bus.Envelope{ID: "e", TimestampMs: fired.UnixMilli(), Payload: []byte(`{"serviceCallId":"` + key + `","dueAt":"…"}`)}
		if err := l.note(t.Context(), e); err != nil {
			t.Error(err)
		}
	}
	fails := func(want string) {
		t.Helper()
		if err := b.check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	tell(newLedger().key(markTimers, 0), due(0))
	tell(l.key(markFar, 0), due(0))
	tell(l.key(markTimers, 3), due(3))
	fails("0 of 3 timers were published")
	tell(l.key(markTimers, 0), due(0))
	tell(l.key(markTimers, 1), due(1))
	fails("2 of 3 timers were published")
	tell(l.key(markTimers, 2), due(2))
	if err := b.check(); err != nil {
		t.Error(err)
	}
	if late := b.lateness(); late.Count() != 3 || late.Max() < time.Hour-time.Second || time.Since(b.last()) > time.Hour/2 {
		t.Errorf("%d timers, late by %v at most, the last at %v", late.Count(), late.Max(), b.last())
	}
	tell(l.key(markTimers, 2), due(2))
	fails("1 times one that was published before")
	b = l.expect(markTimers, 1, due)
	tell(l.key(markTimers, 0), due(0).Add(-ms))
	fails("1 of 1 timers fired before they were due")
}

func TestLedgerWithoutAKey(t *testing.T) {
	t.Parallel()
	for _, payload := range []string{`{}`, `{"serviceCallId":"`} {
		err := newLedger().note(t.Context(), bus.Envelope{ID: "e", Payload: []byte(payload)})
		if !errors.Is(err, bus.ErrPermanent) {
			t.Errorf("%s: got %v", payload, err)
		}
	}
}
