package base

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// there is a clock somewhere else, which counts how often it is asked.
type there struct {
	mu    sync.Mutex
	asked int
	off   time.Duration // from ours
	takes time.Duration // for the answer, and as long for the question
	err   error
}

func (c *there) ask(context.Context) (time.Time, error) {
	<-time.After(c.takes)
	defer func() { <-time.After(c.takes) }()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	return time.Now().Add(c.off), c.err
}

func (c *there) remote() *Remote {
	return NewRemote(System{}, slog.New(slog.DiscardHandler), c.ask)
}

// want checks what the remote clock shows, and how often it was asked.
func (c *there) want(t *testing.T, r *Remote, off time.Duration, asked int) {
	t.Helper()
	got := time.Until(r.Now(t.Context()))
	c.mu.Lock()
	defer c.mu.Unlock()
	if got != off || c.asked != asked {
		t.Errorf("it is off by %v and was asked %d times, want %v and %d", got, c.asked, off, asked)
	}
}

// TestRemoteAsksOnceAMinute, and goes by the difference in between.
func TestRemoteAsksOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &there{off: -time.Hour}
		r := c.remote()
		for range 60 {
			c.want(t, r, -time.Hour, 1)
			<-time.After(time.Second)
		}
		c.off = time.Hour // it was set
		c.want(t, r, time.Hour, 2)
		c.off = 2 * time.Hour
		c.want(t, r, time.Hour, 2)
		<-time.After(time.Minute)
		c.want(t, r, 2*time.Hour, 3)
		if zone := r.Now(t.Context()).Location(); zone != time.UTC {
			t.Errorf("its zone is %v", zone)
		}
	})
}

// TestRemoteKnowsThatAskingTakesTime: the answer is from the middle of it, and a difference
// that is no more than that is none.
func TestRemoteKnowsThatAskingTakesTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &there{off: time.Hour, takes: time.Second}
		c.want(t, c.remote(), time.Hour, 1)
		for _, off := range []time.Duration{2 * time.Second, -2 * time.Second} {
			c := &there{off: off, takes: time.Second}
			c.want(t, c.remote(), 0, 1)
		}
		c = &there{off: time.Millisecond}
		c.want(t, c.remote(), 0, 1)
		c = &there{off: 3 * time.Second, takes: time.Second}
		c.want(t, c.remote(), 3*time.Second, 1)
	})
}

// TestRemoteWithoutAnAnswer goes by what it knows, and by our clock if it knows nothing. It
// asks again.
func TestRemoteWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &there{off: time.Hour, err: errors.New("nobody answers")}
		r := c.remote()
		c.want(t, r, 0, 1)
		c.want(t, r, 0, 2)
		c.err = nil
		c.want(t, r, time.Hour, 3)
		c.err = errors.New("again")
		<-time.After(time.Minute)
		c.want(t, r, time.Hour, 4)
	})
}

// TestRemoteIsAskedByOneAtATime: the others wait the first time, and after that they go by
// what is known.
func TestRemoteIsAskedByOneAtATime(t *testing.T) {
	t.Parallel()
	c := &there{off: time.Hour}
	r := c.remote()
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if got := time.Until(r.Now(context.Background())); got < 59*time.Minute {
				t.Errorf("it is off by %v", got)
			}
		})
	}
	wg.Wait()
	if c.asked != 1 {
		t.Errorf("it was asked %d times", c.asked)
	}
	synctest.Test(t, func(t *testing.T) {
		c := &there{off: time.Hour}
		r := c.remote()
		c.want(t, r, time.Hour, 1)
		c.takes = time.Second
		<-time.After(time.Minute)
		go r.Now(context.Background())
		synctest.Wait()
		began := time.Now()
		c.want(t, r, time.Hour, 1)
		if time.Since(began) != 0 {
			t.Error("it waits for somebody else who asks")
		}
		<-time.After(time.Minute)
	})
}

// TestRemoteAfterOurClockWasSetBack asks again, and not only when it is as late as before.
func TestRemoteAfterOurClockWasSetBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		asked := 0
		set := &setClock{Manual: NewManual(now)}
		r := NewRemote(set, slog.New(slog.DiscardHandler), func(context.Context) (time.Time, error) {
			asked++
			return now, nil
		})
		r.Now(t.Context())
		set.by = -time.Hour
		if got := r.Now(t.Context()); !got.Equal(now) || asked != 2 {
			t.Errorf("it is %v, after %d questions", got, asked)
		}
	})
}

// TestRemoteDoesNotWaitForASlowClock: a caller waits for a bounded time, one question is in
// flight at a time, and its answer counts although the caller has gone.
func TestRemoteDoesNotWaitForASlowClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &there{off: time.Hour, takes: 4 * time.Second}
		r := c.remote()
		began := time.Now()
		c.want(t, r, 0, 1) // asked, and not yet answered
		if took := time.Since(began); took != firstWait {
			t.Errorf("the first caller waited %v, want %v", took, firstWait)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		began = time.Now()
		r.Now(gone)
		if took := time.Since(began); took != 0 {
			t.Errorf("a caller that is gone waited %v", took)
		}
		<-time.After(8*time.Second - firstWait)
		synctest.Wait()
		c.want(t, r, time.Hour, 1)
		<-time.After(time.Minute)
		began = time.Now()
		c.want(t, r, time.Hour, 1)
		c.want(t, r, time.Hour, 1)
		if took := time.Since(began); took != laterWait {
			t.Errorf("two callers waited %v, want %v for the first alone", took, laterWait)
		}
		<-time.After(8 * time.Second)
	})
}

// setClock is a clock that was set.
type setClock struct {
	*Manual
	by time.Duration
}

func (c *setClock) Now() time.Time { return c.Manual.Now().Add(c.by) }

// TestRemoteRespectsTheContextOfEachCaller: a caller that waits behind another one's question
// gives up when its own context ends.
func TestRemoteRespectsTheContextOfEachCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &there{takes: time.Hour}
		r := c.remote()
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			r.Now(t.Context())
		}()
		synctest.Wait()
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r.Now(ctx)
		if waited := time.Since(began); waited != time.Second {
			t.Errorf("it returned after %v, want its context's second", waited)
		}
		<-answered
		<-time.After(2 * c.takes) // the question that is in flight ends
	})
}
