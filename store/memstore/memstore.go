// Package memstore is the smallest implementation of the store contract: maps
// behind one mutex. It keeps nothing when the process ends.
//
// It serves tests, also inside a testing/synctest bubble, and it is the model that
// the other backends are compared with. So it is written to be obviously right,
// and looks at every key of a queue where others have an index.
package memstore

import (
	"context"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/abidehq/abide/internal/base"
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
	Clock base.Clock
}

// Store is a store in memory.
type Store struct {
	clock base.Clock

	mu     sync.Mutex
	closed bool
	// excluded is how often Exclude was called and not released.
	excluded int
	lastMS   int64 // the latest time that was seen: the clock does not run backwards
	seq      int64 // of the message put last
	tokens   int64 // of the claim made last
	queues   map[string]*queue
	records  map[store.RecordKey]store.Record

	// recordsChanged is closed, and replaced, when records change or the store is
	// closed.
	recordsChanged chan struct{}
}

var _ store.Store = (*Store)(nil)

// queue is all that a queue holds.
type queue struct {
	keys    map[store.Key]*keyState
	waiters []*waiter // in the order in which they came

	// lastTenant is whose key was claimed last, so that the next one takes its turn.
	lastTenant string

	stopAlarm func() bool
}

// keyState is all that a key has.
type keyState struct {
	key      store.Key
	route    string
	messages []*message // in the order of delivery

	logTag  uint64   // that the log was begun with
	logBase int      // how many entries were trimmed
	log     [][]byte // the entries that were not

	lease *lease // nil, or perhaps expired
}

type message struct {
	store.Message       // its VisibleAt is the effective one
	visibleMS     int64 // the same in milliseconds
	seq           int64
	expiresMS     int64 // when it goes to quarantine if the key has no route
}

type lease struct {
	token     store.Token
	untilMS   int64
	delivered map[string]bool // by message ID
}

// New returns an empty store.
func New(o Options) *Store {
	if o.Clock == nil {
		o.Clock = base.System{}
	}
	return &Store{
		clock:          o.Clock,
		queues:         map[string]*queue{},
		records:        map[store.RecordKey]store.Record{},
		recordsChanged: make(chan struct{}),
	}
}

// lock locks the store for a call and brings it up to date: messages whose time to
// live has ended are in quarantine from then on. It returns the time.
func (s *Store) lock(verb string) (nowMS int64, err error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return 0, store.Closed(verb)
	}
	s.lastMS = max(s.lastMS, s.clock.Now().UnixMilli())
	for _, q := range s.queues {
		s.expire(q, s.lastMS)
	}
	return s.lastMS, nil
}

// expire puts messages that waited too long for a route into quarantine.
func (s *Store) expire(q *queue, nowMS int64) {
	if s.excluded > 0 {
		return // nothing changes by itself
	}
	for _, k := range q.keys {
		if k.route != "" {
			continue
		}
		for _, m := range slices.Clone(k.messages) {
			if m.expiresMS <= nowMS {
				s.quarantine(k, m, store.ReasonExpired, nowMS)
			}
		}
		q.forgetIfGone(k)
	}
}

// quarantine moves a message from its key to a record.
func (s *Store) quarantine(k *keyState, m *message, reason string, nowMS int64) {
	k.remove(m.ID)
	s.putRecord(store.Quarantine(m.Message, k.route, reason, store.FromMillis(nowMS)).Record)
}

// queue returns the queue of that name.
func (s *Store) queue(name string) *queue {
	q := s.queues[name]
	if q == nil {
		q = &queue{keys: map[store.Key]*keyState{}, stopAlarm: func() bool { return false }}
		s.queues[name] = q
	}
	return q
}

// key returns the state of a key, or a new one.
func (s *Store) key(key store.Key) *keyState {
	q := s.queue(key.Queue)
	k := q.keys[key]
	if k == nil {
		k = &keyState{key: key}
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

// forgetIfGone removes a key that has neither messages nor a log.
func (q *queue) forgetIfGone(k *keyState) {
	if len(k.messages) == 0 && k.logLength() == 0 && q.keys[k.key] == k {
		delete(q.keys, k.key)
	}
}

func (k *keyState) logLength() int { return k.logBase + len(k.log) }

// live reports whether the key is leased, by that token.
func (k *keyState) live(token store.Token, nowMS int64) bool {
	return k.leased(nowMS) && k.lease.token == token
}

func (k *keyState) leased(nowMS int64) bool { return k.lease != nil && nowMS < k.lease.untilMS }

// ready reports whether the key can be claimed by who serves its route.
func (k *keyState) ready(nowMS int64) bool {
	return k.route != "" && len(k.messages) > 0 && k.messages[0].visibleMS <= nowMS && !k.leased(nowMS)
}

func (k *keyState) index(id string) int {
	for i, m := range k.messages {
		if m.ID == id {
			return i
		}
	}
	return -1
}

// remove takes a message away. A lease that it was delivered with is over.
func (k *keyState) remove(id string) *message {
	i := k.index(id)
	if i < 0 {
		return nil
	}
	m := k.messages[i]
	k.messages = slices.Delete(k.messages, i, i+1)
	if k.lease != nil && k.lease.delivered[id] {
		k.lease = nil
	}
	return m
}

// insert adds a message where it belongs in the order of delivery.
func (k *keyState) insert(m *message) {
	m.VisibleAt = store.FromMillis(m.visibleMS)
	i := len(k.messages)
	for i > 0 && before(m, k.messages[i-1]) {
		i--
	}
	k.messages = slices.Insert(k.messages, i, m)
}

func before(a, b *message) bool {
	if a.visibleMS != b.visibleMS {
		return a.visibleMS < b.visibleMS
	}
	return a.seq < b.seq
}

// Close ends all waiting calls.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	close(s.recordsChanged)
	for _, q := range s.queues {
		q.stopAlarm()
		for _, w := range q.waiters {
			w.end(nil, store.Closed("claim"))
		}
		q.waiters = nil
	}
	return nil
}

// millis returns a duration in milliseconds, rounded up.
func millis(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}
