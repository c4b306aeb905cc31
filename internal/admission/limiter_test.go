package admission

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/rig"
)

// fill takes n permits that must be free.
func fill(t *testing.T, l *Limiter, n int) []Permit {
	t.Helper()
	permits := make([]Permit, n)
	for i := range permits {
		p, err := l.Acquire(t.Context(), 1)
		if err != nil {
			t.Fatalf("call %d of %d: %v", i+1, n, err)
		}
		permits[i] = p
	}
	return permits
}

func newLimiter() *Limiter { return New(Config{Clock: base.System{}}) }

func TestCallsAreAdmittedInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter()
		permits := fill(t, l, MaxLimit)
		var mu sync.Mutex
		var order []int
		for i := range 5 {
			go func() {
				p, err := l.Acquire(t.Context(), 1)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				p.Release()
			}()
			synctest.Wait()
		}
		if s := l.State(); s.InFlight != MaxLimit || s.Waiting != 5 || len(order) > 0 {
			t.Fatalf("%+v with %v admitted, want 5 that wait", s, order)
		}
		permits[0].Release()
		synctest.Wait()
		if want := []int{0, 1, 2, 3, 4}; !slices.Equal(order, want) {
			t.Errorf("admitted %v, want %v", order, want)
		}
		if s := l.State(); s.InFlight != MaxLimit-1 || s.Waiting != 0 {
			t.Errorf("%+v after all were released", s)
		}
	})
}

func TestACallWaitsHalfASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		refused := 0
		l := New(Config{Clock: base.System{}, Refused: func() { refused++ }})
		permits := fill(t, l, MaxLimit)
		began := time.Now()
		var late, early error
		var lateTook time.Duration
		go func() {
			_, late = l.Acquire(t.Context(), 1)
			lateTook = time.Since(began)
		}()
		synctest.Wait()
		rig.Pass(MaxWait - StandingWait + time.Millisecond)
		go func() { _, early = l.Acquire(t.Context(), 1) }()
		rig.Pass(StandingWait - time.Millisecond)
		permits[0].n = 1000  // not slow
		permits[0].Release() // the second has a millisecond left
		synctest.Wait()
		if !errors.Is(late, ErrBusy) || lateTook != MaxWait || early != nil {
			t.Errorf("%v after %v, then %v", late, lateTook, early)
		}
		if s := l.State(); refused != 1 || s.Refused != 1 || s.Waiting != 0 || s.InFlight != MaxLimit {
			t.Errorf("%d refused, %+v", refused, s)
		}
	})
}

// TestCallsWaitLessInAStandingQueue: after half a second with calls that wait, each waits for a tenth of a
// second; a queue that was empty begins anew.
func TestCallsWaitLessInAStandingQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter()
		permits := fill(t, l, MaxLimit)
		refusedAfter := func() time.Duration {
			began := time.Now()
			if _, err := l.Acquire(t.Context(), 1); !errors.Is(err, ErrBusy) {
				t.Error(err)
			}
			return time.Since(began)
		}
		var wg sync.WaitGroup
		for range 20 { // one each 50 ms: there is always one that waits
			wg.Go(func() { refusedAfter() })
			rig.Pass(50 * time.Millisecond)
		}
		if got := refusedAfter(); got != StandingWait {
			t.Errorf("refused after %v in a standing queue, want %v", got, StandingWait)
		}
		wg.Wait()
		if got := refusedAfter(); got != MaxWait {
			t.Errorf("refused after %v in an empty queue, want %v", got, MaxWait)
		}
		permits[0].Release()
	})
}

func TestOnlySoManyCallsWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter()
		fill(t, l, MaxLimit)
		var wg sync.WaitGroup
		for range MaxWaiting {
			wg.Go(func() {
				if _, err := l.Acquire(t.Context(), 1); !errors.Is(err, ErrBusy) {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if s := l.State(); s.Waiting != MaxWaiting || s.Refused != 0 {
			t.Errorf("%+v, want %d that wait", s, MaxWaiting)
		}
		began := time.Now()
		if _, err := l.Acquire(t.Context(), 1); !errors.Is(err, ErrBusy) || time.Since(began) != 0 {
			t.Errorf("one more: %v after %v", err, time.Since(began))
		}
		wg.Wait()
		if s := l.State(); s.Waiting != 0 || s.Refused != MaxWaiting+1 {
			t.Errorf("%+v after all were refused", s)
		}
	})
}

func TestACallThatIsCancelledLeavesNoTrace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter()
		permits := fill(t, l, MaxLimit)
		ctx, cancel := context.WithCancel(t.Context())
		var cancelled, next error
		go func() { _, cancelled = l.Acquire(ctx, 1) }()
		synctest.Wait()
		go func() { _, next = l.Acquire(t.Context(), 1) }()
		synctest.Wait()
		cancel()
		synctest.Wait()
		if !errors.Is(cancelled, context.Canceled) || l.State().Waiting != 1 {
			t.Errorf("%v, %+v", cancelled, l.State())
		}
		permits[0].Release()
		synctest.Wait()
		if next != nil || l.State().InFlight != MaxLimit || l.State().Refused != 0 {
			t.Errorf("the next one: %v, %+v", next, l.State())
		}
	})
}

// TestACancelledCallHandsItsPermitOn: a call that is admitted and cancelled at once does not keep its
// place in flight, whichever of the two it sees first.
func TestACancelledCallHandsItsPermitOn(t *testing.T) {
	t.Parallel()
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter()
			permits := fill(t, l, MaxLimit)
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				if p, err := l.Acquire(ctx, 1); err == nil {
					p.Release()
				}
			}()
			synctest.Wait()
			cancel()
			for _, p := range permits {
				p.Release()
			}
			synctest.Wait()
			if s := l.State(); s.InFlight != 0 || s.Waiting != 0 {
				t.Fatalf("%+v, want nothing in flight", s)
			}
		})
	}
}

// TestTheLimitFollowsTheSignals: it is lowered once in 250 ms, never below 1, and grows again when the
// signals end.
func TestTheLimitFollowsTheSignals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter()
		for range 3 { // at one time, they are one signal
			l.behind(1)
		}
		if got := l.State().Limit; got != MaxLimit/2 {
			t.Fatalf("limit %d after a signal, want %d", got, MaxLimit/2)
		}
		permits := fill(t, l, MaxLimit/2)
		rig.Pass(lowerEvery)
		l.behind(1)
		if got, want := l.State().Limit, MaxLimit/2*7/10; got != want {
			t.Errorf("limit %d with all permits in use, want %d", got, want)
		}
		for _, p := range permits {
			p.n = 1000 // not slow
			p.Release()
		}
		for range 20 {
			rig.Pass(lowerEvery)
			l.behind(1)
		}
		if got, want := l.State().Limit, 1+int(lowerEvery/Pass); got != want {
			t.Errorf("limit %d after many signals, want %d for calls that take %v", got, want, lowerEvery)
		}
		for range 100 {
			fill(t, l, 1)[0].Release()
		}
		for range 20 {
			rig.Pass(lowerEvery)
			l.behind(1)
		}
		if got := l.State().Limit; got != 1 {
			t.Errorf("limit %d after many signals, want 1 for calls that take no time", got)
		}
		rig.Pass(calm)
		fill(t, l, 1)[0].Release()
		if got := l.State().Limit; got != 1 {
			t.Errorf("limit %d while it is calm, want 1", got)
		}
		steps := 0
		for ; l.State().Limit < MaxLimit; steps++ {
			rig.Pass(raiseEvery)
			fill(t, l, 1)[0].Release()
		}
		if took := time.Duration(steps) * raiseEvery; took > 5*time.Second {
			t.Errorf("the limit was back after %v, want seconds", took)
		}
	})
}

// TestStaleMessagesLeaveAMinimumRate: a backlog alone does not bring the limit to 1.
func TestStaleMessagesLeaveAMinimumRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter()
		stale := func() {
			for range 20 {
				l.Stale()
				rig.Pass(lowerEvery)
			}
		}
		if stale(); l.State().Limit != StaleLimit {
			t.Errorf("limit %d, want %d", l.State().Limit, StaleLimit)
		}
		l.behind(1)
		low := l.State().Limit
		if stale(); low >= StaleLimit || l.State().Limit != low {
			t.Errorf("limit %d, and %d after more stale messages", low, l.State().Limit)
		}
	})
}

// TestSlowCallsPassAtAMinimumRate: the limit is not below what lets a call pass in each Pass, and calls
// that are quick again bring that down.
func TestSlowCallsPassAtAMinimumRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter()
		lower := func() int {
			for range 20 {
				l.behind(1)
				rig.Pass(lowerEvery)
			}
			return l.State().Limit
		}
		if got := lower(); got != 1 {
			t.Fatalf("limit %d, want 1", got)
		}
		for range 10 {
			p := fill(t, l, 1)[0]
			rig.Pass(10 * Pass)
			p.Release()
			l.behind(1)
		}
		if got := l.State().Limit; got < 10 || got > 11 {
			t.Errorf("limit %d for calls that take %v, want 10", got, 10*Pass)
		}
		for range 100 {
			fill(t, l, 1)[0].Release()
		}
		if got := lower(); got != 1 {
			t.Errorf("limit %d after quick calls, want 1", got)
		}
	})
}

func TestALoweredLimitHolds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter()
		for range 20 {
			l.behind(1)
			rig.Pass(lowerEvery)
		}
		p := fill(t, l, 1)[0]
		if _, err := l.Acquire(t.Context(), 1); !errors.Is(err, ErrBusy) {
			t.Errorf("a second call at a limit of 1: %v", err)
		}
		p.Release()
		fill(t, l, 1)[0].Release()
	})
}

func TestSlowCallsLowerTheLimit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		n     int
		took  time.Duration
		lower bool
	}{
		{"at the bound", 1, Slow + SlowEach, false},
		{"above it", 1, Slow + 2*SlowEach, true},
		{"a bulk start", 1000, Slow + 1000*SlowEach, false},
		{"a slow bulk start", 1000, Slow + 1001*SlowEach, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLimiter()
				p, _ := l.Acquire(t.Context(), tt.n)
				rig.Pass(tt.took)
				p.Release()
				if got := l.State().Limit < MaxLimit; got != tt.lower {
					t.Errorf("limit %d", l.State().Limit)
				}
			})
		})
	}
}

func TestThePressureOfTheStoreLowersTheLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked, pressure := 0, 0.99
		l := New(Config{Clock: base.System{}, Pressure: func() float64 { asked++; return pressure }})
		for range 5 {
			fill(t, l, 1)[0].Release()
		}
		if asked != 1 || l.State().Limit != MaxLimit {
			t.Errorf("asked %d times, limit %d", asked, l.State().Limit)
		}
		pressure = 1
		rig.Pass(sampleEvery)
		fill(t, l, 1)[0].Release()
		if asked != 2 || l.State().Limit >= MaxLimit {
			t.Errorf("asked %d times, limit %d", asked, l.State().Limit)
		}
	})
}

func TestRefusalsAreLoggedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		l := New(Config{Clock: base.System{}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		permits := fill(t, l, MaxLimit)
		for range 30 { // 15 seconds
			_, _ = l.Acquire(t.Context(), 1)
		}
		for _, p := range permits {
			p.Release()
		}
		rig.Pass(3 * logEvery)
		synctest.Wait()
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != 2 || !strings.Contains(lines[0], "client calls refused") || !strings.Contains(lines[1], "client calls accepted again") ||
			!strings.Contains(lines[1], "refused=30") {
			t.Errorf("logged %q", lines)
		}
		l.Close()
	})
}

func TestWithoutALimiterAllIsAdmitted(t *testing.T) {
	t.Parallel()
	var l *Limiter
	p, err := l.Acquire(t.Context(), 1)
	p.Release()
	l.behind(1)
	if err != nil || l.State() != (State{}) {
		t.Error(err, l.State())
	}
}

func TestAdmissionAllocatesNothing(t *testing.T) { //nolint:paralleltest // it counts allocations of the process
	l := newLimiter()
	if n := testing.AllocsPerRun(100, func() { fill1(l) }); n > 0 {
		t.Errorf("%v allocations for a call", n)
	}
}

func fill1(l *Limiter) {
	p, _ := l.Acquire(context.Background(), 1)
	p.Release()
}

func BenchmarkUncontended(b *testing.B) {
	l := newLimiter()
	for b.Loop() {
		fill1(l)
	}
}

func BenchmarkParallel(b *testing.B) {
	l := newLimiter()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			fill1(l)
		}
	})
}

// TestQuickCallsArePacedIfTheyAreTooMany: a process that is behind with as few calls at a time as the
// limit allows admits about 50 in a second, although each takes a millisecond, and as many as before
// soon after it has caught up.
func TestQuickCallsArePacedIfTheyAreTooMany(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter()
		ctx, cancel := context.WithCancel(t.Context())
		var admitted atomic.Int64
		var clients sync.WaitGroup
		for range 50 {
			clients.Go(func() {
				for ctx.Err() == nil {
					if p, err := l.Acquire(ctx, 1); err == nil {
						admitted.Add(1)
						<-time.After(time.Millisecond)
						p.Release()
					}
				}
			})
		}
		second := func(stale bool) int64 {
			before := admitted.Load()
			for range 4 {
				if stale {
					l.Stale()
				}
				rig.Pass(lowerEvery)
			}
			return admitted.Load() - before
		}
		for range 10 {
			second(true)
		}
		if n := second(true); n < 40 || n > 60 {
			t.Errorf("%d calls in a second while the process is behind, want about 50", n)
		}
		second(false)
		second(false)
		if n := second(false); n < 1000 {
			t.Errorf("%d calls in the third second after it has caught up, want thousands", n)
		}
		cancel()
		clients.Wait()
	})
}
