package tick_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/action/tick"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
)

const rate = 10 * time.Second

// fixture is a loop in virtual time that notes when its ticks begin.
type fixture struct {
	t     *testing.T
	begun time.Time
	loop  *tick.Loop
	done  chan struct{}
	stop  context.CancelFunc

	mu    sync.Mutex
	ticks []time.Duration // since the rig was made
}

// start runs a loop. Work is what the nth tick does, beginning with 0.
func start(t *testing.T, clock base.Clock, work func(r *fixture, n int)) *fixture {
	t.Helper()
	r := &fixture{t: t, begun: time.Now(), done: make(chan struct{})}
	r.loop = tick.New(rate, clock, func(context.Context) {
		r.mu.Lock()
		n := len(r.ticks)
		r.ticks = append(r.ticks, time.Since(r.begun))
		r.mu.Unlock()
		if work != nil {
			work(r, n)
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	r.stop = cancel
	go func() {
		defer close(r.done)
		r.loop.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-r.done
	})
	return r
}

// until lets time pass until that long after the rig was made.
func (r *fixture) until(d time.Duration) {
	r.t.Helper()
	take(d - time.Since(r.begun))
	synctest.Wait()
}

// want checks when ticks began, in seconds.
func (r *fixture) want(seconds ...float64) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var got []float64
	for _, at := range r.ticks {
		got = append(got, at.Seconds())
	}
	check.Equal(r.t, "ticks began at", got, seconds)
}

// take is what takes time.
func take(d time.Duration) { <-time.After(d) }

func TestFirstTickComesAtOnce(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := start(t, nil, nil)
		synctest.Wait()
		r.want(0)
	})
}

// TestSleepsWhatIsLeftOfTheRate: ticks that take their time do not make the others later.
func TestSleepsWhatIsLeftOfTheRate(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := start(t, nil, func(_ *fixture, n int) { take(time.Duration(n) * time.Second) })
		r.until(45 * time.Second)
		r.want(0, 10, 20, 30, 40)
	})
}

// TestATickThatTookTooLongIsFollowedAtOnceAndOnce: those that were missed do not pile up,
// and what takes exactly as long as the rate is not late.
func TestATickThatTookTooLongIsFollowedAtOnceAndOnce(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := start(t, nil, func(_ *fixture, n int) {
			switch n {
			case 1:
				take(35 * time.Second)
			case 4:
				take(rate)
			}
		})
		r.until(80 * time.Second)
		r.want(0, 10, 45, 55, 65, 75)
	})
}

func TestOneTickAtATime(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		var busy, most atomic.Int64
		r := start(t, nil, func(*fixture, int) {
			most.Store(max(most.Load(), busy.Add(1)))
			take(25 * time.Second)
			busy.Add(-1)
		})
		for range 100 {
			take(time.Second)
			r.loop.Wake()
		}
		check.Equal(t, "ticks were under way at a time", most.Load(), 1)
		r.until(100 * time.Second)
		r.want(0, 25, 50, 75, 100)
	})
}

// TestWakeHasTheNextTickFollowAtOnce, and the one after that a rate later.
func TestWakeHasTheNextTickFollowAtOnce(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := start(t, nil, nil)
		r.until(3 * time.Second)
		r.loop.Wake()
		r.loop.Wake() // once is enough
		r.until(20 * time.Second)
		r.want(0, 3, 13)
	})
}

// TestWakeDuringATickCountsForTheNext: it may have come too late for the tick that is under
// way. One tick follows, however often it was asked for.
func TestWakeDuringATickCountsForTheNext(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := start(t, nil, func(r *fixture, n int) {
			if n != 1 && n != 3 {
				return
			}
			for range 3 {
				r.loop.Wake()
			}
			take(time.Second)
			if n == 3 {
				take(rate) // then the next one follows at once anyway, and is the one that was asked for
			}
		})
		r.until(50 * time.Second)
		r.want(0, 10, 11, 21, 32, 42)
	})
}

func TestWakeBeforeRunIsTheFirstTick(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		n := 0
		loop := tick.New(rate, nil, func(context.Context) { n++ })
		loop.Wake()
		ctx, cancel := context.WithTimeout(t.Context(), rate/2)
		defer cancel()
		loop.Run(ctx)
		check.Equal(t, "ticks", n, 1)
	})
}

// TestStopLetsATickFinish: its context does not end, and Run returns when it is over.
func TestStopLetsATickFinish(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var after error
		finished := false
		loop := tick.New(rate, nil, func(ctx context.Context) {
			take(5 * time.Second)
			after, finished = ctx.Err(), true
		})
		time.AfterFunc(time.Second, cancel)
		began := time.Now()
		loop.Run(ctx)
		if !finished || after != nil || time.Since(began) != 5*time.Second {
			t.Errorf("after %v: finished %v, its context says %v", time.Since(began), finished, after)
		}
	})
}

func TestStopBetweenTicksIsImmediate(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := start(t, nil, nil)
		r.until(3 * time.Second)
		r.stop()
		<-r.done
		check.Equal(t, "it has stopped after", time.Since(r.begun), 3*time.Second)
		r.want(0)
	})
}

func TestNoTickAfterStop(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		tick.New(rate, nil, func(context.Context) { t.Error("a tick") }).Run(ctx)
	})
}

// stepped is a clock that is set while it runs.
type stepped struct {
	base.System
	by atomic.Int64
}

func (c *stepped) Now() time.Time { return c.System.Now().Add(time.Duration(c.by.Load())).Round(0) }

// TestAClockThatIsSetBack during a tick makes no tick wait for longer than the rate.
func TestAClockThatIsSetBack(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		clock := &stepped{}
		r := start(t, clock, func(_ *fixture, n int) {
			if n == 1 {
				clock.by.Add(-int64(time.Hour))
			}
		})
		r.until(35 * time.Second)
		r.want(0, 10, 20, 30)
	})
}

// TestAClockThatIsSetForward during a tick makes one tick come early, and no others; while
// the loop sleeps, none.
func TestAClockThatIsSetForward(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		clock := &stepped{}
		r := start(t, clock, func(_ *fixture, n int) {
			if n == 1 {
				clock.by.Add(int64(time.Hour))
			}
		})
		r.until(35 * time.Second)
		r.want(0, 10, 10, 20, 30)
		clock.by.Add(int64(time.Hour))
		r.until(55 * time.Second)
		r.want(0, 10, 10, 20, 30, 40, 50)
	})
}

// TestAManualClockDrivesTheLoop: it measures by the clock that it is given, and by no other.
func TestAManualClockDrivesTheLoop(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		clock := base.NewManual(time.Unix(0, 0))
		r := start(t, clock, nil)
		r.until(time.Hour)
		r.want(0)
		clock.Advance(rate - 1)
		synctest.Wait()
		r.want(0)
		clock.Advance(1)
		synctest.Wait()
		r.want(0, 3600)
	})
}
