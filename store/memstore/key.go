package memstore

import (
	"bytes"
	"slices"

	"github.com/abidehq/abide/store"
)

// keyState is everything that a key has.
type keyState struct {
	key      store.Key
	queue    *queue
	route    string
	messages []*message // in the order of delivery

	logTag  uint64   // that the log was begun with
	logBase int      // number of trimmed entries
	log     [][]byte // the others

	lease *lease // nil if the key is not leased

	// index is the index of the queue that holds the key, or nil, and place is where it
	// is there. They change in queue.settle.
	index *index[*keyState]
	place place

	counted delivered // its part of queue.delivered
}

// delivered is a number of messages that are delivered with a lease, and their route.
type delivered struct {
	route string
	n     int
}

func (k *keyState) at() place { return k.place }

type message struct {
	store.Message // its VisibleAt is the effective one
	owner         *keyState
	visibleMS     int64 // VisibleAt in milliseconds
	seq           int64
	expiresMS     int64 // when it goes to quarantine if the key has no route
	place         place // in queue.messages
}

func (m *message) at() place { return m.place }

// messageID names a message within a queue.
type messageID struct {
	k  *keyState
	id string
}

type lease struct {
	number    int64
	token     store.Token
	owner     string
	untilMS   int64
	delivered []*message
}

func (k *keyState) logLength() int { return k.logBase + len(k.log) }

// holds reports whether the key is leased with that token.
func (k *keyState) holds(token store.Token) bool { return k.lease != nil && k.lease.token == token }

// idle reports whether the key is not leased, and has no message that is visible or waits for a
// route.
func (k *keyState) idle(nowMS int64) bool {
	return k.lease == nil && (len(k.messages) == 0 || k.route != "" && k.messages[0].visibleMS > nowMS)
}

// message returns the pending message with that ID, or nil.
func (k *keyState) message(id string) *message { return k.queue.ids[messageID{k, id}] }

// message returns a pending message, or nil.
func (s *Store) message(ref store.MessageRef) *message {
	if k := s.find(ref.Key); k != nil {
		return k.message(ref.ID)
	}
	return nil
}

// search returns the index at which a message is, or belongs, in the order of delivery.
func (k *keyState) search(m *message) int {
	i, _ := slices.BinarySearchFunc(k.messages, m, func(a, b *message) int {
		return place{ms: a.visibleMS, seq: a.seq}.compare(place{ms: b.visibleMS, seq: b.seq})
	})
	return i
}

// insert adds a message. In the queue's index it is where its time is next of
// interest: when it is visible or, without a route, when it expires.
func (k *keyState) insert(m *message) {
	m.owner = k
	m.VisibleAt = store.FromMillis(m.visibleMS)
	m.place = place{route: k.route, ms: m.visibleMS, seq: m.seq}
	if k.route == "" {
		m.place.ms = m.expiresMS
	}
	k.queue.messages.Set(m)
	k.queue.ids[messageID{k, m.ID}] = m
	k.messages = slices.Insert(k.messages, k.search(m), m)
}

// remove takes a message away. A lease that it was delivered with ends.
func (k *keyState) remove(m *message) {
	k.queue.messages.Delete(m)
	delete(k.queue.ids, messageID{k, m.ID})
	if i := k.search(m); i == 0 {
		k.messages[0] = nil
		k.messages = k.messages[1:] // the usual case costs the same whatever follows
	} else {
		k.messages = slices.Delete(k.messages, i, i+1)
	}
	if k.lease != nil && slices.Contains(k.lease.delivered, m) {
		k.lease = nil
	}
}

// clear removes everything that a key has.
func (k *keyState) clear() {
	for len(k.messages) > 0 {
		k.remove(k.messages[0])
	}
	k.log, k.logBase, k.logTag, k.route, k.lease = nil, 0, 0, "", nil
}

// setRoute gives the key a route. No message is visible under it any earlier.
func (k *keyState) setRoute(route string, nowMS int64) {
	messages := k.messages
	for _, m := range messages {
		k.queue.messages.Delete(m)
	}
	k.route, k.messages = route, nil
	for _, m := range messages {
		m.visibleMS = max(m.visibleMS, nowMS)
		k.insert(m)
	}
}

// copy returns a message of the key for a caller to keep.
func (k *keyState) copy(m *message) store.Message {
	c := m.Message
	c.Route = k.route
	c.Body = bytes.Clone(m.Body)
	return c
}
