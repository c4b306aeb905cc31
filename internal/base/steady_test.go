package base_test

import (
	"testing"
	"time"

	"github.com/abidehq/abide/internal/base"
)

func TestSteady(t *testing.T) {
	t.Parallel()
	start := time.UnixMilli(1_800_000_000_000)
	clock := base.NewManual(start)
	var reported []time.Duration
	s := base.NewSteady(clock, func(lead time.Duration) { reported = append(reported, lead) })
	is := func(what string, want time.Duration) {
		t.Helper()
		if got := time.UnixMilli(s.Now()).Sub(start); got != want {
			t.Errorf("%s: %v after the start, want %v", what, got, want)
		}
	}
	is("at the start", 0)
	clock.Advance(time.Second)
	is("the clock goes on", time.Second)
	clock.Jump(-time.Second)
	is("the clock is set back", time.Second)
	clock.Advance(time.Millisecond)
	is("less than a millisecond has passed at half speed", time.Second)
	clock.Advance(time.Millisecond)
	is("at half speed", time.Second+time.Millisecond)
	if lead := s.Lead(); lead != 999*time.Millisecond {
		t.Errorf("ahead by %v", lead)
	}
	clock.Advance(998 * time.Millisecond)
	is("half the way", 1500*time.Millisecond)
	clock.Advance(time.Second)
	is("the clock has caught up", 2*time.Second)
	if s.Observe(start.Add(13*time.Second).UnixMilli(), 10*time.Second) {
		t.Error("a time too far ahead is observed")
	}
	is("after it was not", 2*time.Second)
	if !s.Observe(start.Add(12*time.Second).UnixMilli(), 10*time.Second) {
		t.Error("a time ahead by the limit is not observed")
	}
	is("after it was", 12*time.Second)
	if !s.Observe(start.UnixMilli(), 10*time.Second) {
		t.Error("a time in the past is not observed")
	}
	is("and stays", 12*time.Second)
	if len(reported) != 1 || reported[0] != 10*time.Second {
		t.Errorf("reported %v, want once that the clock is behind by 10s", reported)
	}
}
