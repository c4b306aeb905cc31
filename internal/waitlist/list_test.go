package waitlist_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/waitlist"
	"github.com/abidehq/abide/store"
)

// toy is a store with nothing but ready keys, which are numbers. With a delay its attempts
// run outside of the mutex and take that long, as those of a store on a server do.
type toy struct {
	mu       sync.Mutex
	list     *waitlist.List[[]int]
	topics   map[string]*waitlist.Topic[[]int]
	ready    map[string][]int // by route
	delay    time.Duration
	oneByOne bool // an attempt never says that there is more
	attempts int
	detached []string
}

// pass lets virtual time pass.
func pass(d time.Duration) { <-time.After(d) }

func newToy(delay time.Duration) *toy {
	s := &toy{topics: map[string]*waitlist.Topic[[]int]{}, ready: map[string][]int{}, delay: delay}
	s.list = waitlist.New[[]int](&s.mu, base.System{}, s.serve)
	s.list.Detached = func(_, route string) { s.detached = append(s.detached, route) }
	return s
}

func (s *toy) topic(route string) *waitlist.Topic[[]int] {
	if s.topics[route] == nil {
		s.topics[route] = &waitlist.Topic[[]int]{}
	}
	return s.topics[route]
}

// take removes one ready key of the routes of a request.
func (s *toy) take(req *store.ClaimRequest) []int {
	s.attempts++
	for _, route := range req.Routes {
		if keys := s.ready[route]; len(keys) > 0 {
			s.ready[route] = keys[1:]
			return keys[:1:1]
		}
	}
	return nil
}

func (s *toy) serve() {
	if s.delay == 0 {
		s.list.Serve(func(w *waitlist.Waiter[[]int]) (waitlist.Outcome, bool) {
			w.Result = s.take(&w.Request)
			found := w.Result != nil
			return waitlist.Outcome{Found: found, More: found && !s.oneByOne}, false
		})
		return
	}
	for w := s.list.Next(); w != nil; w = s.list.Next() {
		go s.attempt(w)
	}
}

// attempt reads what is ready, and answers later: the answer may be out of date.
func (s *toy) attempt(w *waitlist.Waiter[[]int]) {
	s.mu.Lock()
	keys := s.take(&w.Request)
	more := len(keys) > 0
	s.mu.Unlock()
	pass(s.delay)
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Result = keys
	if !s.list.Done(w, waitlist.Outcome{Found: keys != nil, More: more}) && keys != nil {
		s.put(w.Request.Routes[0], keys...)
	}
	s.serve()
}

// put makes keys ready. The mutex is held.
func (s *toy) put(route string, keys ...int) {
	s.ready[route] = append(s.ready[route], keys...)
	s.list.Ready(s.topic(route))
	s.serve()
}

func (s *toy) commit(route string, keys ...int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(route, keys...)
}

// claim waits for a key of one of the routes.
func (s *toy) claim(ctx context.Context, wait time.Duration, routes ...string) (int, error) {
	req := store.ClaimRequest{Queue: "q", Routes: routes, Wait: wait}
	topics := func() (list []*waitlist.Topic[[]int]) {
		for _, route := range routes {
			list = append(list, s.topic(route))
		}
		return list
	}
	s.mu.Lock()
	var w *waitlist.Waiter[[]int]
	if s.delay == 0 {
		if keys := s.take(&req); keys != nil {
			s.mu.Unlock()
			return keys[0], nil
		}
		w = s.list.Join(req, topics)
	} else {
		w = s.list.Begin(req, topics)
		go s.attempt(w)
	}
	s.mu.Unlock()
	keys, err := s.list.Wait(ctx, w)
	if err != nil || keys == nil {
		return 0, err
	}
	return keys[0], nil
}

// claims starts calls one after another, and returns where their keys come, by number.
func (s *toy) claims(t *testing.T, n int, wait time.Duration, routes ...string) []chan int {
	var got []chan int
	for range n {
		c := make(chan int, 1)
		go func() {
			key, err := s.claim(t.Context(), wait, routes...)
			if err != nil {
				t.Errorf("claim: %v", err)
			}
			c <- key
		}()
		got = append(got, c)
		synctest.Wait()
	}
	return got
}

func (s *toy) empty(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	s.list.Subscriptions(func(*waitlist.Subscription[[]int]) bool { n++; return true })
	if n != 0 || s.list.Waiting() != 0 || s.list.Next() != nil {
		t.Errorf("%d subscriptions and %d waiting calls are left", n, s.list.Waiting())
	}
	for route, topic := range s.topics {
		if topic.Waited() {
			t.Errorf("topic %s is attached", route)
		}
	}
}

// TestWaitersAreServedInOrder also has a waiter of another subscription in between.
func TestWaitersAreServedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newToy(0)
		first := s.claims(t, 2, time.Hour, "a")
		between := s.claims(t, 1, time.Hour, "a", "b")
		last := s.claims(t, 2, time.Hour, "a")
		s.commit("b", 1)
		if key := <-between[0]; key != 1 {
			t.Errorf("the call for both routes has got %d", key)
		}
		between = s.claims(t, 1, time.Hour, "a", "b")
		s.commit("a", 2, 3, 4, 5, 6)
		for i, c := range slices.Concat(first, last, between) {
			if key := <-c; key != i+2 {
				t.Errorf("call %d has got %d", i, key)
			}
		}
		s.empty(t)
	})
}

// TestAnEventCostsOneAttempt has many waiters, of which a commit may serve one.
func TestAnEventCostsOneAttempt(t *testing.T) {
	for _, delay := range []time.Duration{0, time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			s := newToy(delay)
			got := s.claims(t, 1000, time.Hour, "a")
			pass(time.Second)
			synctest.Wait()
			before := s.attempts
			s.commit("b", 1) // nobody waits for it
			pass(time.Second)
			if n := s.attempts - before; n != 0 {
				t.Errorf("%v: %d attempts for a route that is not waited for", delay, n)
			}
			s.commit("a", 2)
			pass(time.Second)
			if n := s.attempts - before; n > 3 { // the key, and that there is no more
				t.Errorf("%v: %d attempts for one key", delay, n)
			}
			s.mu.Lock()
			s.list.Finish(nil)
			s.mu.Unlock()
			sum := 0
			for _, c := range got {
				sum += <-c
			}
			if sum != 2 {
				t.Errorf("%v: the keys add up to %d", delay, sum)
			}
		})
	}
}

// TestNoWakeUpIsLost commits at random moments, also while attempts are under way whose
// answers are older, and while calls end. Whenever everything rests, no key is ready that a call
// waits for, unless an attempt is under way. In the end each key is claimed once.
func TestNoWakeUpIsLost(t *testing.T) {
	for seed := range uint64(50) {
		for _, delay := range []time.Duration{0, 3 * time.Millisecond} {
			synctest.Test(t, func(t *testing.T) { lostWakeUps(t, seed, delay) })
		}
	}
}

func lostWakeUps(t *testing.T, seed uint64, delay time.Duration) {
	s := newToy(delay)
	random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // for a test
	routes := []string{"a", "b", "c"}
	const keys = 60
	ctx, cancel := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	var patient atomic.Bool
	claimed := make(chan int, 2*keys)
	for i := range 6 {
		served := []string{routes[i%3], routes[(i+i/3)%3]}
		patience := time.Duration(5+random.IntN(40)) * time.Millisecond
		workers.Go(func() {
			for ctx.Err() == nil {
				call, end := context.WithTimeout(ctx, patience*2/3)
				if i%2 == 0 || patient.Load() {
					end()
					call, end = context.WithCancel(ctx)
				}
				if key, err := s.claim(call, patience, served...); err == nil && key > 0 {
					claimed <- key
				}
				end()
			}
		})
	}
	for key := 1; key <= keys; key++ {
		pass(time.Duration(random.IntN(5)) * time.Millisecond)
		s.commit(routes[random.IntN(3)], key)
		synctest.Wait()
		s.noneWaitsInVain(t, seed)
	}
	// A key that goes to a call as it ends comes back, which may go on for as long as calls end.
	patient.Store(true)
	for range 100 {
		pass(time.Millisecond)
		synctest.Wait()
		s.noneWaitsInVain(t, seed)
	}
	cancel()
	workers.Wait()
	pass(time.Second) // attempts without a caller end
	close(claimed)
	times := map[int]int{}
	for key := range claimed {
		times[key]++
	}
	for key := 1; key <= keys; key++ {
		if times[key] != 1 {
			t.Errorf("seed %d, attempts of %v: key %d was claimed %d times", seed, delay, key, times[key])
		}
	}
	s.empty(t)
}

// noneWaitsInVain finds calls that wait for a key that is ready, and for which no attempt is
// under way. All goroutines are blocked.
func (s *toy) noneWaitsInVain(t *testing.T, seed uint64) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for route, keys := range s.ready {
		for _, sub := range s.topic(route).Subscriptions() {
			if len(keys) > 0 && !sub.Busy() {
				t.Errorf("seed %d, attempts of %v: keys %v of %s are ready, and a call waits for them", seed, s.delay, keys, route)
			}
		}
	}
}

// TestAnEventDuringAnAttempt is the lost wake-up in its smallest form: the attempt has read
// nothing, then the key becomes ready, then the attempt answers.
func TestAnEventDuringAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newToy(10 * time.Millisecond)
		got := s.claims(t, 1, time.Hour, "a")
		s.commit("a", 7)
		pass(20 * time.Millisecond)
		synctest.Wait()
		select {
		case key := <-got[0]:
			if key != 7 {
				t.Errorf("the call has got %d", key)
			}
		default:
			t.Error("the call still waits")
			s.commit("a", 8)
			<-got[0]
		}
	})
}

// TestTheEndOfAWait has a key become ready just before a wait is over, without an event: the
// call returns nothing only if an attempt after its end has found nothing.
func TestTheEndOfAWait(t *testing.T) {
	for _, delay := range []time.Duration{0, time.Millisecond} {
		for _, ready := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				s := newToy(delay)
				start := time.Now()
				got := s.claims(t, 2, time.Minute, "a")
				if ready {
					time.AfterFunc(time.Minute-time.Nanosecond, func() {
						s.mu.Lock()
						defer s.mu.Unlock()
						s.ready["a"] = []int{5} // due by time, and nobody has said so
					})
				}
				keys := []int{<-got[0], <-got[1]}
				slices.Sort(keys)
				want := []int{0, 0}
				if ready {
					want[1] = 5
				}
				if !slices.Equal(keys, want) {
					t.Errorf("delay %v, ready %v: got %v, want %v", delay, ready, keys, want)
				}
				if took := time.Since(start); took < time.Minute || took > time.Minute+5*time.Millisecond {
					t.Errorf("delay %v: the calls have waited for %v", delay, took)
				}
				s.empty(t)
			})
		}
	}
}

// TestTheEndOfAWaitDuringAnAttempt ends a wait during an attempt whose answer is older than
// the key, and than the end of the wait.
func TestTheEndOfAWaitDuringAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newToy(10 * time.Millisecond)
		got := s.claims(t, 1, 5*time.Millisecond, "a")
		s.mu.Lock()
		s.ready["a"] = []int{6}
		s.mu.Unlock()
		if key := <-got[0]; key != 6 {
			t.Errorf("the call has got %d", key)
		}
		s.empty(t)
	})
}

// TestTheEndOfAWaitServesAnother has the last attempt of a wait serve a call that came
// before: the wait ends all the same.
func TestTheEndOfAWaitServesAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newToy(0)
		s.oneByOne = true
		start := time.Now()
		first, second := s.claims(t, 1, time.Hour, "a"), s.claims(t, 1, time.Minute, "a")
		s.mu.Lock()
		s.ready["a"] = []int{6}
		s.mu.Unlock()
		if keys := [...]int{<-first[0], <-second[0]}; keys != [...]int{6, 0} {
			t.Errorf("the calls have got %v", keys)
		}
		if took := time.Since(start); took != time.Minute {
			t.Errorf("the calls have waited for %v", took)
		}
		s.empty(t)
	})
}

// TestAbandonedAttempt ends the context of a call during its attempt, which has leased a key.
func TestAbandonedAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newToy(10 * time.Millisecond)
		s.ready["a"] = []int{3}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		if key, err := s.claim(ctx, time.Hour, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("claim returned %d and %v", key, err)
		}
		if key, err := s.claim(t.Context(), time.Hour, "a"); key != 3 || err != nil {
			t.Errorf("the next call has got %d and %v", key, err)
		}
		s.empty(t)
	})
}

// TestFinish ends calls that are idle and calls with an attempt under way.
func TestFinish(t *testing.T) {
	closed := errors.New("closed")
	for _, delay := range []time.Duration{0, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			s := newToy(delay)
			errs := make(chan error, 3)
			for range 3 {
				go func() {
					_, err := s.claim(t.Context(), 24*time.Hour, "a")
					errs <- err
				}()
			}
			synctest.Wait()
			s.mu.Lock()
			s.list.Finish(closed)
			s.mu.Unlock()
			for range 3 {
				if err := <-errs; !errors.Is(err, closed) {
					t.Errorf("claim returned %v", err)
				}
			}
			pass(2 * time.Hour)
			s.empty(t)
			if fmt.Sprint(s.detached) != "[a]" {
				t.Errorf("detached routes: %v", s.detached)
			}
		})
	}
}

// TestReserve has the store make an attempt of its own, which finds nothing.
func TestReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newToy(0)
		got := s.claims(t, 1, time.Minute, "a")
		s.mu.Lock()
		sub := s.topic("a").Subscriptions()[0]
		w := s.list.Reserve(sub)
		if w == nil || s.list.Reserve(sub) != nil {
			t.Fatal("the one waiter was not reserved, or twice")
		}
		s.put("a", 4)
		s.list.Cancel(w)
		s.serve()
		s.mu.Unlock()
		if key := <-got[0]; key != 4 {
			t.Errorf("the call has got %d", key)
		}
		s.empty(t)
	})
}

// TestACallThatIsOverTakesNobodyWithIt ends the context of a call as it returns, when
// another one for the same waits by now.
func TestACallThatIsOverTakesNobodyWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newToy(0)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for i := range 20 { // which of the two is seen first is a matter of chance
			s.mu.Lock()
			req := store.ClaimRequest{Queue: "q", Routes: []string{"a"}, Wait: time.Hour}
			w := s.list.Join(req, func() []*waitlist.Topic[[]int] { return []*waitlist.Topic[[]int]{s.topic("a")} })
			s.put("a", 1)
			s.mu.Unlock()
			got := s.claims(t, 1, time.Hour, "a")
			if keys, err := s.list.Wait(ctx, w); err != nil || !slices.Equal(keys, []int{1}) {
				t.Errorf("the call that is over has got %v and %v", keys, err)
			}
			s.commit("a", i+2)
			if key := <-got[0]; key != i+2 {
				t.Errorf("the other call has got %d", key)
			}
		}
		s.empty(t)
	})
}
