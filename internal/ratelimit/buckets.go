package ratelimit

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/abidehq/abide/internal/base"
)

// MaxBuckets is how many keys are counted at a time. When there is no room for another one,
// one of a few is dropped, the least recently used of them.
const MaxBuckets = 10_000

// Buckets are token buckets, one for each key. All methods are safe for concurrent use.
type Buckets struct {
	clock base.Clock

	mu  sync.Mutex
	all map[string]*bucket
}

type bucket struct {
	limiter *rate.Limiter
	used    time.Time
}

// New returns buckets that go by a clock.
func New(clock base.Clock) *Buckets {
	return &Buckets{clock: clock, all: map[string]*bucket{}}
}

// Take counts an event and returns 0, or returns how long it takes until one more is
// allowed. A rate of 0 or less allows any number.
func (b *Buckets) Take(key string, perSecond float64, burst int) time.Duration {
	return b.take(key, perSecond, burst, true)
}

// Wait returns how long it takes until one more event is allowed, and counts none.
func (b *Buckets) Wait(key string, perSecond float64, burst int) time.Duration {
	return b.take(key, perSecond, burst, false)
}

func (b *Buckets) take(key string, perSecond float64, burst int, count bool) time.Duration {
	if perSecond <= 0 {
		return 0
	}
	now := b.clock.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	one, ok := b.all[key]
	if !ok {
		if !count {
			return 0
		}
		b.makeRoom()
		one = &bucket{limiter: rate.NewLimiter(rate.Limit(perSecond), burst)}
		b.all[key] = one
	}
	one.used = now
	if one.limiter.Limit() != rate.Limit(perSecond) || one.limiter.Burst() != burst { // the configuration has changed
		one.limiter.SetLimitAt(now, rate.Limit(perSecond))
		one.limiter.SetBurstAt(now, burst)
	}
	r := one.limiter.ReserveN(now, 1)
	wait := r.DelayFrom(now)
	if wait > 0 || !count {
		r.CancelAt(now)
	}
	if wait <= 0 {
		return 0
	}
	return (wait + time.Millisecond - 1).Truncate(time.Millisecond) // not too early
}

// Len returns how many keys are counted.
func (b *Buckets) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.all)
}

// makeRoom drops a bucket if there are too many. The lock is held.
func (b *Buckets) makeRoom() {
	const few = 8
	if len(b.all) < MaxBuckets {
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
