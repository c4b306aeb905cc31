package auth

import (
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/abidehq/abide/internal/base"
)

// buckets count requests by who makes them. There are no more than maxBuckets: when there
// is no room, one of a few is forgotten, the one that was used least recently.
type buckets struct {
	clock base.Clock

	mu  sync.Mutex
	all map[string]*bucket
}

type bucket struct {
	limiter *rate.Limiter
	used    time.Time
}

func newBuckets(clock base.Clock) *buckets {
	return &buckets{clock: clock, all: map[string]*bucket{}}
}

// take counts a request, or returns a *RateError if there were too many. A rate of 0 means
// any number.
func (b *buckets) take(key string, perSecond float64, burst int) error {
	if perSecond <= 0 {
		return nil
	}
	now := b.clock.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	one, ok := b.all[key]
	if !ok {
		b.makeRoom()
		one = &bucket{limiter: rate.NewLimiter(rate.Limit(perSecond), burst)}
		b.all[key] = one
	}
	one.used = now
	if one.limiter.Limit() != rate.Limit(perSecond) { // it was changed, or the server's was
		one.limiter.SetLimitAt(now, rate.Limit(perSecond))
		one.limiter.SetBurstAt(now, burst)
	}
	r := one.limiter.ReserveN(now, 1)
	if wait := r.DelayFrom(now); wait > 0 {
		r.CancelAt(now)
		return &RateError{After: (wait + time.Millisecond - 1).Truncate(time.Millisecond)} // not too early
	}
	return nil
}

// makeRoom forgets a bucket if there are too many.
func (b *buckets) makeRoom() {
	const few = 8
	if len(b.all) < maxBuckets {
		return
	}
	oldest, seen := "", 0
	for key, one := range b.all {
		if oldest == "" || one.used.Before(b.all[oldest].used) {
			oldest = key
		}
		if seen++; seen == few {
			break
		}
	}
	delete(b.all, oldest)
}

// burst returns how many requests can come at once at a rate.
func burst(perSecond float64) int { return max(Burst, int(math.Ceil(perSecond))) }
