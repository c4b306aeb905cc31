package workerhost

import (
	"log/slog"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/workerpb"
)

// TestSilentWorkerIsNotBlocked: code counts as blocked only while its worker says that it does nothing. One
// that says nothing may be frozen or cut off.
func TestSilentWorkerIsNotBlocked(t *testing.T) {
	t.Parallel()
	clock := base.NewManual(time.UnixMilli(1_800_000_000_000))
	s := New(Config{Clock: clock, Logger: slog.New(slog.DiscardHandler)})
	x := &execution{s: s, id: 1}
	s.turns[7] = &turn{x: x, steps: func() {}}
	want := func(what string, number uint64, may bool) {
		t.Helper()
		if n, inStep := x.Progress(); n != number || inStep != may {
			t.Errorf("%s: progress %d, may take its time: %t", what, n, inStep)
		}
	}
	want("nothing was heard yet", 0, true)
	s.progressed(&workerpb.Progress{Turn: 7, Number: 3, Blocked: "here"})
	want("heard", 3, false)
	clock.Advance(time.Second)
	s.progressed(&workerpb.Progress{Turn: 7, Number: 3})
	want("heard again", 3, false)
	if got := x.WhereBlocked(); got != "here" {
		t.Errorf("it is blocked at %q", got)
	}
	clock.Advance(heardWithin + time.Millisecond)
	want("silent", 0, true)
}
