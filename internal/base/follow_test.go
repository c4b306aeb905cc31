package base

import (
	"testing"
	"time"
)

const day = int64(24 * time.Hour / time.Millisecond)

// answered asks and answers at once.
func answered(f *Follower, ms int64) int64 {
	latest, _ := f.Answer(f.Ask(), ms)
	return latest
}

func wantLatest(t *testing.T, f *Follower, want int64) {
	t.Helper()
	if got := f.Ask().Floor; got != want {
		t.Errorf("the latest time is %d, want %d", got, want)
	}
}

func TestFollowerGoesForward(t *testing.T) {
	t.Parallel()
	f := NewFollower(10 * time.Second)
	for _, ms := range []int64{day, day + 1, day + 5} {
		if got := answered(f, ms); got != ms {
			t.Errorf("after %d it is %d", ms, got)
		}
	}
}

// TestFollowerStandsStill while the clock is behind by no more than the limit.
func TestFollowerStandsStill(t *testing.T) {
	t.Parallel()
	f := NewFollower(10 * time.Second)
	answered(f, day)
	for _, back := range []int64{1, 5_000, 10_000} {
		if got := answered(f, day-back); got != day {
			t.Errorf("set back by %d ms, it is %d", back, got)
		}
		if got := f.Ask().Time(day - back); got != day {
			t.Errorf("set back by %d ms, the time of a statement is %d", back, got)
		}
	}
}

// TestFollowerFollowsBack a clock that was set back by more.
func TestFollowerFollowsBack(t *testing.T) {
	t.Parallel()
	f := NewFollower(10 * time.Second)
	answered(f, 2*day)
	q := f.Ask()
	if got := q.Time(day); got != day {
		t.Errorf("the time of a statement is %d, want %d", got, day)
	}
	if got, back := f.Answer(q, day); got != day || !back {
		t.Errorf("it is %d, back %v", got, back)
	}
	if got := answered(f, day+1); got != day+1 {
		t.Errorf("then it is %d", got)
	}
}

// TestFollowerIgnoresLateAnswers: a late answer is not a clock that was set back, and does not
// undo that one was.
func TestFollowerIgnoresLateAnswers(t *testing.T) {
	t.Parallel()
	f := NewFollower(10 * time.Second)
	answered(f, day)
	slow := f.Ask()
	answered(f, day+60_000)
	if got, back := f.Answer(slow, day+1); got != day+60_000 || back { // a minute on its way
		t.Errorf("after a late answer it is %d, back %v", got, back)
	}

	ahead, behind := f.Ask(), f.Ask()
	answered(f, 2*day)
	answered(f, day+60_001)
	wantLatest(t, f, day+60_001)
	if got, back := f.Answer(ahead, 2*day+1); got != day+60_001 || back { // from before the clock was set back
		t.Errorf("after an answer of the wrong clock it is %d, back %v", got, back)
	}
	if got, back := f.Answer(behind, day+60_000); got != day+60_001 || back {
		t.Errorf("after another late answer it is %d, back %v", got, back)
	}
	if got := answered(f, day+60_002); got != day+60_002 {
		t.Errorf("then it is %d", got)
	}
}
