package base

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestManualStandsStillUntilItIsAdvanced(t *testing.T) {
	t.Parallel()
	m := NewManual(noon)
	for range 2 {
		if now := m.Now(); !now.Equal(noon) {
			t.Errorf("it shows %v, want %v", now, noon)
		}
	}
	m.Advance(90 * time.Minute)
	if want := noon.Add(90 * time.Minute); !m.Now().Equal(want) {
		t.Errorf("after 90 minutes it shows %v, want %v", m.Now(), want)
	}
}

func TestManualCallsInTheOrderOfTime(t *testing.T) {
	t.Parallel()
	m := NewManual(noon)
	var calls []string
	call := func(name string, after time.Duration) {
		m.AfterFunc(after, func() {
			calls = append(calls, name)
			if want := noon.Add(after); !m.Now().Equal(want) {
				t.Errorf("%s is called at %v, want %v", name, m.Now(), want)
			}
		})
	}
	call("third", 3*time.Second)
	call("first", time.Second)
	call("second", 2*time.Second)
	call("second again", 2*time.Second)
	call("too late", 3*time.Second+1)
	m.Advance(3 * time.Second)
	if want := []string{"first", "second", "second again", "third"}; !slices.Equal(calls, want) {
		t.Errorf("called %v, want %v", calls, want)
	}
}

func TestManualCallsWhatIsSetOnTheWay(t *testing.T) {
	t.Parallel()
	m := NewManual(noon)
	ticks := 0
	var tick func()
	tick = func() {
		ticks++
		m.AfterFunc(time.Minute, tick)
	}
	m.AfterFunc(time.Minute, tick)
	m.Advance(24 * time.Hour)
	if ticks != 24*60 {
		t.Errorf("%d ticks in a day, want %d", ticks, 24*60)
	}
}

func TestManualStop(t *testing.T) {
	t.Parallel()
	m := NewManual(noon)
	stop := m.AfterFunc(time.Second, func() { t.Error("called although it was stopped") })
	if !stop() {
		t.Error("stopped in time, and it says otherwise")
	}
	if stop() {
		t.Error("stopped twice, and both times it says that it came in time")
	}
	called := false
	late := m.AfterFunc(time.Second, func() { called = true })
	m.Advance(time.Second)
	if !called || late() {
		t.Error("what was called cannot be stopped any more")
	}
}

func TestManualCallsAtOnceWhatIsNotInTheFuture(t *testing.T) {
	t.Parallel()
	m := NewManual(noon)
	for _, after := range []time.Duration{0, -time.Second} {
		called := make(chan struct{})
		m.AfterFunc(after, func() { close(called) })
		<-called
	}
}

func TestSystem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c Clock = System{}
		began := c.Now()
		called := make(chan time.Time)
		c.AfterFunc(time.Hour, func() { called <- c.Now() })
		stop := c.AfterFunc(time.Minute, func() { t.Error("called although it was stopped") })
		if !stop() {
			t.Error("stopped in time, and it says otherwise")
		}
		if after := (<-called).Sub(began); after != time.Hour {
			t.Errorf("called after %v, want an hour", after)
		}
	})
}
