package bench

import (
	"strings"
	"testing"
	"time"
)

// TestLedger: the first time counts, by both clocks, and numbers out of range count for
// nothing.
func TestLedger(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	due := time.UnixMilli(1000)
	l := NewLedger(2, func(i int) time.Time { return due.Add(time.Duration(i) * time.Second) })
	fails := func(want string) {
		t.Helper()
		if err := l.Check("timers"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	l.Note(2, due, due)
	l.Note(-1, due, due)
	fails("0 of 2 timers came")
	l.Note(0, due.Add(3*ms), due.Add(2*ms))
	l.Note(0, due.Add(time.Hour), due.Add(time.Hour))
	fails("1 of 2 timers came")
	l.Note(1, due.Add(time.Second+5*ms), due.Add(time.Second-ms))
	fails("1 of 2 timers came before they were due")
	late, fired := l.Lateness()
	if l.Count() != 2 || l.Again() != 1 || late.Max() != 5*ms || fired.Max() != 2*ms || !l.Last().Equal(due.Add(time.Second+5*ms)) {
		t.Errorf("%d came, %d again, late by %v and %v at most, the last at %v", l.Count(), l.Again(), late.Max(), fired.Max(), l.Last())
	}
	l = NewLedger(1, func(int) time.Time { return due })
	l.Note(0, due, due)
	if err := l.Check("timers"); err != nil {
		t.Error(err)
	}
}
