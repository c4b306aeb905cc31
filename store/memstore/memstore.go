// Package memstore is the smallest implementation of the store contract: maps and
// ordered indexes behind one mutex. It keeps nothing when the process ends.
//
// It serves tests, also inside a testing/synctest bubble, and programs that need
// nothing after they end; and it is the model that the other backends are compared
// with. So each index is derived from the maps by one function ([queue.settle],
// [keyState.insert], [Store.setRecord]), and the tests compare every index with a scan
// of the maps after random operations. No call but Export and Verify visits what it
// does not return or change: the cost of the others grows with the logarithm of what
// is pending.
package memstore

import (
	"context"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/abidehq/abide/clock"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/waitlist"
	"github.com/abidehq/abide/store"
)

func init() {
	store.Register("memory", store.Scheme{Example: "memory://", Open: open})
}

func open(_ context.Context, u *url.URL) (store.Store, error) {
	if u.Host != "" || (u.Path != "" && u.Path != "/") || u.Opaque != "" {
		return nil, store.InvalidURL(u, "a memory store has no place; write memory://")
	}
	return New(Options{}), nil
}

// Options of a store.
type Options struct {
	// Clock is the store's clock; nil means that of the machine.
	Clock clock.Clock

	// Limits are those of the store; zero ones are those of the contract. They let tests see
	// what happens on a database that takes less.
	Limits store.Limits
}

// Store is a store in memory.
type Store struct {
	clock  base.Clock
	time   *base.Steady
	limits store.Limits

	mu     sync.Mutex
	closed bool
	// excluded is how often Exclude was called and not released.
	excluded int
	lastMS   int64 // the time of the latest call
	seq      int64 // of the message put last
	tokens   int64 // of the claim made last
	number   int64 // of the store among those of the process, so that no two have the same tokens
	queues   map[string]*queue
	records  records

	// processes has what each process acknowledged last, and acks is closed when that changes.
	processes map[*Process]int64
	acks      chan struct{}

	waits *waitlist.List[[]store.Claim] // Claim calls that wait
}

var _ store.Store = (*Store)(nil)

// stores counts the stores of the process.
var stores atomic.Int64

// New returns an empty store.
func New(o Options) *Store {
	if o.Clock == nil {
		o.Clock = base.System{}
	}
	s := &Store{limits: o.Limits.OrContract(), number: stores.Add(1), clock: o.Clock, time: base.NewSteady(o.Clock, nil), queues: map[string]*queue{}, records: newRecords(), processes: map[*Process]int64{}, acks: make(chan struct{})}
	s.waits = waitlist.New[[]store.Claim](&s.mu, o.Clock, s.expireWait)
	return s
}

// Limits returns the limits of the store.
func (s *Store) Limits() store.Limits { return s.limits }

// lock locks the store for a call and brings it up to date: leases whose time is over
// have ended, messages whose time has come are visible, and those whose time to live
// is over are in quarantine. It returns the time.
func (s *Store) lock(verb string) (nowMS int64, err error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return 0, store.Closed(verb)
	}
	return s.advance(), nil
}

// advance brings all queues up to date and returns the time.
func (s *Store) advance() (nowMS int64) {
	s.lastMS = s.time.Now()
	for _, q := range s.queues {
		q.advance(s.lastMS)
		s.expire(q, s.lastMS)
	}
	return s.lastMS
}

// expire puts messages that waited too long for a route into quarantine.
func (s *Store) expire(q *queue, nowMS int64) {
	if s.excluded > 0 {
		return // nothing changes by itself
	}
	for m := q.nextExpiry(); m != nil && m.expiresMS <= nowMS; m = q.nextExpiry() {
		s.quarantine(m, store.ReasonExpired, nowMS)
		q.settle(m.owner, nowMS)
	}
}

// quarantine moves a message from its key to a record. The caller settles the key.
func (s *Store) quarantine(m *message, reason string, nowMS int64) {
	k := m.owner
	k.remove(m)
	s.putRecord(store.Quarantine(m.Message, k.route, reason, store.FromMillis(nowMS)).Record)
}

// queue returns the queue of that name.
func (s *Store) queue(name string) *queue {
	q := s.queues[name]
	if q == nil {
		q = newQueue()
		q.alarm = waitlist.NewAlarm(s.clock, func() { s.onAlarm(q) })
		s.queues[name] = q
	}
	return q
}

// key returns the state of a key, or a new one.
func (s *Store) key(key store.Key) *keyState {
	q := s.queue(key.Queue)
	k := q.keys[key]
	if k == nil {
		k = &keyState{key: key, queue: q}
		q.keys[key] = k
	}
	return k
}

// find returns the state of a key, or nil.
func (s *Store) find(key store.Key) *keyState {
	if q := s.queues[key.Queue]; q != nil {
		return q.keys[key]
	}
	return nil
}

// Close ends all waiting calls.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	for _, r := range s.records.awaited.All() {
		r.Tell(struct{}{})
	}
	for _, q := range s.queues {
		q.alarm.Stop()
	}
	s.waits.Finish(store.Closed("claim"))
	return nil
}

// millis returns a duration in milliseconds, rounded up.
func millis(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}
