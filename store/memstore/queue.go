package memstore

import (
	"cmp"
	"math"
	"sort"
	"strings"

	"github.com/tidwall/btree"

	"github.com/abidehq/abide/internal/waitlist"
	"github.com/abidehq/abide/store"
)

// queue is everything that a queue holds.
//
// A key with a route and messages is in exactly one of three indexes: leased, future
// or ready. Time moves keys from leased and from future, in the order of the index;
// everything else that moves a key is a call that names it.
type queue struct {
	keys map[store.Key]*keyState
	ids  map[messageID]*message

	messages *index[*message]  // by route and time; see keyState.insert
	leased   *index[*keyState] // by the end of the lease
	future   *index[*keyState] // by when the first message is visible
	ready    *index[*keyState] // by route, tenant, and when the first message became visible

	// delivered is how many messages of a route are delivered with a lease; keyState.counted
	// says which part of it a key has.
	delivered map[string]int

	// lastTenant is the tenant whose key was claimed last. The next tenant's turn is
	// next.
	lastTenant string

	// limited are the turns of claims that are limited to tenants.
	limited waitlist.Turns

	topic waitlist.Topic[[]store.Claim] // that Claim calls wait for
	alarm *waitlist.Alarm               // goes off when the queue changes by itself
}

// index is an ordered index of items by their places.
type index[T interface{ at() place }] = btree.BTreeG[T]

func newIndex[T interface{ at() place }]() *index[T] {
	return btree.NewBTreeGOptions(func(a, b T) bool { return a.at().compare(b.at()) < 0 }, btree.Options{NoLocks: true})
}

// place is where an item is in an index. An index that is not ordered by route or by
// tenant leaves that field empty.
type place struct {
	route, tenant string
	ms, seq       int64
}

func (p place) compare(o place) int {
	if c := strings.Compare(p.route, o.route); c != 0 {
		return c
	}
	if c := strings.Compare(p.tenant, o.tenant); c != 0 {
		return c
	}
	return cmp.Or(cmp.Compare(p.ms, o.ms), cmp.Compare(p.seq, o.seq))
}

// after returns a place behind all with the same route and tenant.
func after(route, tenant string) place {
	return place{route: route, tenant: tenant, ms: math.MaxInt64, seq: math.MaxInt64}
}

// rank returns the number of items for which before is true. They must be the first
// ones of the tree.
func rank[T any](tree *btree.BTreeG[T], before func(T) bool) int {
	return sort.Search(tree.Len(), func(i int) bool {
		item, _ := tree.GetAt(i)
		return !before(item)
	})
}

func newQueue() *queue {
	return &queue{
		keys:      map[store.Key]*keyState{},
		ids:       map[messageID]*message{},
		delivered: map[string]int{},
		messages:  newIndex[*message](),
		leased:    newIndex[*keyState](),
		future:    newIndex[*keyState](),
		ready:     newIndex[*keyState](),
	}
}

// settle moves a key to the index that its state belongs to, and forgets a key that
// has neither messages nor a log. It is called after every change of a key.
func (q *queue) settle(k *keyState, nowMS int64) {
	index, at := q.where(k, nowMS)
	if k.index != index || k.place != at {
		if k.index != nil {
			k.index.Delete(k)
		}
		k.index, k.place = index, at
		if index != nil {
			index.Set(k)
		}
	}
	q.countDelivered(k)
	if len(k.messages) == 0 && k.logLength() == 0 {
		delete(q.keys, k.key)
	}
}

// countDelivered brings the number of delivered messages up to date with the lease of a key.
func (q *queue) countDelivered(k *keyState) {
	now := delivered{}
	if k.lease != nil {
		now = delivered{k.route, len(k.lease.delivered)}
	}
	if now == k.counted {
		return
	}
	if q.delivered[k.counted.route] -= k.counted.n; q.delivered[k.counted.route] == 0 {
		delete(q.delivered, k.counted.route)
	}
	if now.n > 0 {
		q.delivered[now.route] += now.n
	}
	k.counted = now
}

// where returns the index that a key belongs to, or nil, and its place there.
func (q *queue) where(k *keyState, nowMS int64) (*index[*keyState], place) {
	if k.lease != nil {
		return q.leased, place{ms: k.lease.untilMS, seq: k.lease.number}
	}
	if k.route == "" || len(k.messages) == 0 {
		return nil, place{}
	}
	first := k.messages[0]
	if first.visibleMS > nowMS {
		return q.future, place{ms: first.visibleMS, seq: first.seq}
	}
	return q.ready, place{route: k.route, tenant: k.key.Tenant, ms: first.visibleMS, seq: first.seq}
}

// advance ends the leases whose time is over, and makes keys ready whose time has
// come.
func (q *queue) advance(nowMS int64) {
	for k, ok := q.leased.Min(); ok && k.place.ms <= nowMS; k, ok = q.leased.Min() {
		k.lease = nil
		q.settle(k, nowMS)
	}
	for k, ok := q.future.Min(); ok && k.place.ms <= nowMS; k, ok = q.future.Min() {
		q.settle(k, nowMS)
	}
}

// nextExpiry returns the message without a route that expires first, or nil.
func (q *queue) nextExpiry() *message {
	if m, ok := q.messages.Min(); ok && m.place.route == "" {
		return m
	}
	return nil
}

// firstReady returns the first ready key of a route from a place on, or nil.
func (q *queue) firstReady(from place) (first *keyState) {
	q.ready.Ascend(&keyState{place: from}, func(k *keyState) bool {
		if k.place.route == from.route {
			first = k
		}
		return false
	})
	return first
}
