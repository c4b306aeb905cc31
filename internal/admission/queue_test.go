package admission

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/internal/rig"
)

func TestQueueIsJudged(t *testing.T) {
	t.Parallel()
	const second = time.Second
	for _, tt := range []struct {
		name         string
		fresh, stale int
		held, users  time.Duration
		behind       bool
	}{
		{"stale messages, slots held by the engine", 7, 8, second, second/2 - 1, true},
		{"half of the messages are stale", 8, 8, second, 0, false},
		{"slots held by the code of users", 0, 100, second, second / 2, false},
		{"too few claims", 0, windowClaims - 1, second, 0, false},
		{"just enough claims", 0, windowClaims, second, 0, true},
		{"fresh messages", 100, 0, second, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLimiter()
				q := NewQueue(l)
				q.Judge()
				q.since = time.Now()
				rig.Pass(time.Second)
				now := time.Now()
				for range tt.fresh {
					q.Claimed(now, now.Add(-Stale))
				}
				for range tt.stale {
					q.Claimed(now, now.Add(-Stale-1))
				}
				q.Worked(tt.held, tt.users)
				q.Judge()
				if got := l.State().Limit < MaxLimit; got != tt.behind {
					t.Errorf("behind: %v, want %v", got, tt.behind)
				}
			})
		})
	}
}

// TestABacklogFromBeforeIsNotStale: what was visible before the process came counts from then on.
func TestABacklogFromBeforeIsNotStale(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter()
		q := NewQueue(l)
		q.Judge()
		old := time.Now().Add(-time.Hour)
		claim := func() {
			for range 2 * windowClaims {
				q.Claimed(time.Now(), old)
			}
			q.Worked(time.Second, 0)
			q.Judge()
		}
		claim()
		rig.Pass(Stale)
		claim()
		if l.State().Limit != MaxLimit {
			t.Errorf("limit %d within %v of the first claim", l.State().Limit, Stale)
		}
		rig.Pass(window)
		claim()
		if l.State().Limit == MaxLimit {
			t.Error("the process is not behind although the backlog stays")
		}
	})
}

// TestAWindowIsOver: claims are judged by window, not one by one.
func TestAWindowIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter()
		q := NewQueue(l)
		q.Judge()
		now := time.Now()
		q.since = now.Add(-time.Hour)
		for range 2 * windowClaims {
			q.Claimed(now, now.Add(-time.Minute))
		}
		q.Worked(time.Second, 0)
		rig.Pass(window - 1)
		q.Judge()
		if l.State().Limit != MaxLimit {
			t.Error("judged before the window was over")
		}
		rig.Pass(1)
		q.Judge()
		if l.State().Limit == MaxLimit {
			t.Error("not judged when the window was over")
		}
	})
}
