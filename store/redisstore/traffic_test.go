package redisstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/abidehq/abide/store"
)

// traffic puts messages of several tenants, claims them and consumes them, and knows what was
// acknowledged: a message that was put is delivered, and none is consumed twice.
type traffic struct {
	s     store.Store
	stop  chan struct{} // ends those who put
	end   chan struct{} // ends those who claim
	puts  sync.WaitGroup
	takes sync.WaitGroup

	mu       sync.Mutex
	put      map[store.Key]bool // acknowledged
	consumed map[store.Key]bool // acknowledged
	doubtful map[store.Key]bool // a commit that consumed it has an unknown outcome
	problems []string
}

func startTraffic(s store.Store, tenants, claimers int) *traffic {
	tr := &traffic{s: s, stop: make(chan struct{}), end: make(chan struct{}), put: map[store.Key]bool{}, consumed: map[store.Key]bool{}, doubtful: map[store.Key]bool{}}
	for i := range tenants {
		tr.puts.Go(func() { tr.produce(fmt.Sprintf("customer-%d", i)) })
	}
	for range claimers {
		tr.takes.Go(tr.consume)
	}
	return tr
}

// maxBacklog is how many messages wait to be consumed before no more are put.
const maxBacklog = 200

func (tr *traffic) produce(tenant string) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for n := 0; ; {
		select {
		case <-tr.stop:
			return
		case <-tick.C:
		}
		if tr.backlog() > maxBacklog {
			continue
		}
		n++
		m := message("traffic", fmt.Sprintf("order-%d", n), "a")
		m.Key.Tenant = tenant
		if tr.s.Commit(context.Background(), &store.Tx{Put: []store.Message{m}}) == nil {
			tr.mu.Lock()
			tr.put[m.Key] = true
			tr.mu.Unlock()
		}
	}
}

func (tr *traffic) backlog() int {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return len(tr.put) - len(tr.consumed)
}

func (tr *traffic) consume() {
	req := request("traffic", 200*time.Millisecond)
	req.Lease = 2 * time.Second
	for {
		select {
		case <-tr.end:
			return
		default:
		}
		claims, err := tr.s.Claim(context.Background(), req)
		if err != nil {
			continue // a master is away
		}
		for i := range claims {
			tr.finish(&claims[i])
		}
	}
}

func (tr *traffic) finish(c *store.Claim) {
	err := tr.s.Commit(context.Background(), &store.Tx{Finish: []store.Finish{{Lease: c.Lease()}}})
	tr.mu.Lock()
	defer tr.mu.Unlock()
	switch {
	case err == nil && tr.consumed[c.Key]:
		tr.problems = append(tr.problems, c.Key.String()+" was consumed twice")
	case err == nil:
		tr.consumed[c.Key] = true
	case !errors.Is(err, store.ErrClaimLost):
		tr.doubtful[c.Key] = true
	}
}

// open returns the messages that were put and are not known to be consumed.
func (tr *traffic) open() (keys []store.Key) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for key := range tr.put {
		if !tr.consumed[key] {
			keys = append(keys, key)
		}
	}
	return keys
}

// settle ends the traffic, and checks that all that was put is consumed.
func (tr *traffic) settle(t testing.TB) {
	t.Helper()
	close(tr.stop)
	tr.puts.Wait()
	eventually(t, "all messages are consumed", func() bool {
		for _, key := range tr.open() {
			if pending, err := tr.s.Pending(context.Background(), key, 0); err != nil || len(pending) > 0 {
				return false
			}
		}
		return true
	})
	close(tr.end)
	tr.takes.Wait()
	for _, key := range tr.open() {
		if !tr.doubtful[key] {
			t.Errorf("%v was put, and is lost", key)
		}
	}
	for _, problem := range tr.problems {
		t.Error(problem)
	}
	t.Logf("%d messages were put, %d consumed", len(tr.put), len(tr.consumed))
}
