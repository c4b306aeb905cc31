package timers

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/internal/bench"
)

func TestKeysOfTimers(t *testing.T) {
	t.Parallel()
	l := &book{run: "thisrun8"}
	seen := map[string]bool{}
	for _, mark := range []byte{markFar, markTimers} {
		for _, i := range []int{0, 1, 255, bench.MaxLoad} {
			key := l.key(mark, i)
			gotMark, gotI, ours := l.parseKey([]byte(key))
			if !ours || gotMark != mark || gotI != i || seen[key] {
				t.Errorf("key %s is %c %d, ours: %t, seen before: %t; want %c %d", key, gotMark, gotI, ours, seen[key], mark, i)
			}
			seen[key] = true
			if _, _, ours := (&book{run: "otherrun"}).parseKey([]byte(key)); ours {
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

// TestSubscriber: the subscriber receives timers of this run and of others.
func TestSubscriber(t *testing.T) {
	t.Parallel()
	due := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	b := &book{run: "thisrun8"}
	l := b.expect(markTimers, 3, func(int) time.Time { return due })
	tell := func(key string) {
		t.Helper()
		e := bus.Envelope{ID: "e", TimestampMs: due.UnixMilli(), Payload: []byte(`{"serviceCallId":"` + key + `","dueAt":"…"}`)}
		if err := b.note(t.Context(), e); err != nil {
			t.Error(err)
		}
	}
	tell((&book{run: "otherrun"}).key(markTimers, 0))
	tell(b.key(markFar, 0))
	tell(b.key(markTimers, 3))
	if l.Count() != 0 {
		t.Errorf("%d timers were published, want none", l.Count())
	}
	for _, i := range []int{0, 1, 2, 2} {
		tell(b.key(markTimers, i))
	}
	late, fired := l.Lateness()
	if err := l.Check("timers"); err != nil || l.Again() != 1 || late.Max() < time.Hour-time.Second || fired.Max() != 0 {
		t.Errorf("error %v, %d again, late by %v and %v", err, l.Again(), late.Max(), fired.Max())
	}
}

func TestSubscriberWithoutAKey(t *testing.T) {
	t.Parallel()
	for _, payload := range []string{`{}`, `{"serviceCallId":"`} {
		err := (&book{}).note(t.Context(), bus.Envelope{ID: "e", Payload: []byte(payload)})
		if !errors.Is(err, bus.ErrPermanent) {
			t.Errorf("%s: got %v", payload, err)
		}
	}
}
