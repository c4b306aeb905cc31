// Package lease keeps leases alive while work is done under them, and ends that work in time
// when they cannot be kept.
package lease

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// Config is what a keeper is made of.
type Config struct {
	// Store is one whose outages are logged: see internal/outage.
	Store  store.Store
	Clock  base.Clock
	Logger *slog.Logger

	// Lease is how long the leases last: the [store.ClaimRequest.Lease] of all claims that
	// are kept.
	Lease time.Duration

	// Every is the longest interval between two renewals. It bounds how long it takes until
	// a holder learns that its lease was ended by another process. A third of Lease is the
	// most, and the default.
	Every time.Duration
}

// Keeper renews the leases of one process, all in one call, for as long as it has any.
//
// It does not trust the store to say that a lease has ended: a process that is cut off
// would learn of it too late. For each lease it keeps until when the lease lasts for sure,
// by the clock of this process: a lease counted from when it was claimed, or from when the
// last successful renewal was begun. A twelfth of a lease before that it gives the lease up
// and tells the holder, so that work under a lease has stopped when another process can
// begin it. The timer for that is independent of renewals: a call that never returns delays
// nothing but renewals.
//
// A renewal may take a quarter of a lease, and after one that failed the next one follows
// within a twelfth, so one call without an answer costs no lease.
type Keeper struct {
	cfg Config

	mu       sync.Mutex
	holds    map[store.Key]hold // a key has one live lease at most
	skew     skew
	renewing func() bool // cancels the next renewal; nil if none is scheduled or one is under way
	ticking  bool        // a renewal is scheduled or under way
	expiring func() bool // cancels the next look at until; nil if none is scheduled
	expireAt time.Time   // when that is
	stopped  bool
}

// hold is a lease that is kept.
type hold struct {
	token store.Token
	lost  func()    // tells its holder; nil if it does not want to know
	until time.Time // it lasts until then for sure, by our clock

	// doubtful: it seems to be over already. Since the store's clock may have been set, the
	// store is asked before it is given up.
	doubtful bool
}

// Parts of a lease.
const (
	renewAfter = 3  // the interval between renewals, at most
	patience   = 4  // how long a renewal may take
	againAfter = 12 // the interval after a renewal that failed, at most
	margin     = 12 // how long before its end a lease is given up
	lateAfter  = 2  // a lease with less than this left is renewed at once
	doubtful   = 6  // what a lease has that seems to be over: a margin, and time to renew it
)

// NewKeeper returns a keeper that has no leases.
func NewKeeper(cfg Config) *Keeper {
	if most := cfg.Lease / renewAfter; cfg.Every <= 0 || cfg.Every > most {
		cfg.Every = most
	}
	return &Keeper{cfg: cfg, holds: map[store.Key]hold{}}
}

// Keep renews the lease of a claim until it is dropped. If the lease is lost before, or
// cannot be renewed for so long that it is about to end, lost is called once, unless it is
// nil, and the lease is kept no longer. No lock is held then.
func (k *Keeper) Keep(c *store.Claim, lost func()) {
	k.mu.Lock()
	now := k.cfg.Clock.Now()
	h := hold{token: c.Token, lost: lost, until: now.Add(k.cfg.Lease - k.skew.age(now, c.Now))}
	if least := now.Add(k.cfg.Lease / doubtful); h.until.Before(least) {
		h.until, h.doubtful = least, true
	}
	before, kept := k.holds[c.Key]
	k.holds[c.Key] = h
	if !k.stopped {
		k.schedule(now, h.until)
		k.watch(now, h.until)
	}
	k.mu.Unlock()
	if kept && before.token != c.Token && before.lost != nil { // its lease has ended, or there would be no other
		before.lost()
	}
}

// schedule sees to it that there is a next renewal, and that it comes at once if a lease is
// about to end. The lock is held.
func (k *Keeper) schedule(now, until time.Time) {
	late := until.Sub(now) < k.cfg.Lease/lateAfter
	switch {
	case !k.ticking:
		k.ticking = true
	case !late || k.renewing == nil || !k.renewing():
		return // the one that is scheduled will do, or one is under way
	}
	after := k.cfg.Every
	if late {
		after = 0
	}
	k.renewing = k.cfg.Clock.AfterFunc(after, k.renew)
}

// watch sees to it that leases are given up in time. The lock is held.
func (k *Keeper) watch(now, until time.Time) {
	at := until.Add(-k.cfg.Lease / margin)
	if k.expiring != nil {
		if !at.Before(k.expireAt) {
			return
		}
		k.expiring()
	}
	k.expireAt = at
	k.expiring = k.cfg.Clock.AfterFunc(max(at.Sub(now), 0), k.expire)
}

// Drop ends the keeping of leases. Leases that were lost may be among them.
func (k *Keeper) Drop(leases ...store.Lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, l := range leases {
		k.take(l)
	}
}

// take removes a lease. The lock is held.
func (k *Keeper) take(l store.Lease) (h hold, kept bool) {
	if h, kept = k.holds[l.Key]; !kept || h.token != l.Token {
		return hold{}, false
	}
	delete(k.holds, l.Key)
	return h, true
}

// Lose says that the lease on a key, if one is kept here, has been lost: it need not be
// found out by renewing.
func (k *Keeper) Lose(key store.Key) {
	k.mu.Lock()
	h := k.holds[key]
	delete(k.holds, key)
	k.mu.Unlock()
	if h.lost != nil {
		h.lost()
	}
}

// Stop ends all keeping, and returns the leases that are left. Holders are not told.
func (k *Keeper) Stop() []store.Lease {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stopped = true
	for _, cancel := range []func() bool{k.renewing, k.expiring} {
		if cancel != nil {
			cancel()
		}
	}
	leases := k.leases()
	clear(k.holds)
	return leases
}

// leases returns all leases that are kept. The lock is held.
func (k *Keeper) leases() []store.Lease {
	leases := make([]store.Lease, 0, len(k.holds))
	for key, h := range k.holds {
		leases = append(leases, store.Lease{Key: key, Token: h.token})
	}
	return leases
}

// renew renews all leases, and schedules the next renewal.
func (k *Keeper) renew() {
	k.mu.Lock()
	began := k.cfg.Clock.Now()
	leases := k.leases()
	k.renewing = nil
	if len(leases) == 0 || k.stopped {
		k.ticking = false
		k.mu.Unlock()
		return
	}
	k.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), k.cfg.Lease/patience)
	lost, err := k.cfg.Store.Renew(ctx, k.cfg.Lease, leases)
	cancel()
	next := k.cfg.Every
	some, partly := errors.AsType[*store.NotRenewedError](err)
	if partly {
		leases = without(leases, some.Leases)
	}
	if err == nil || partly {
		k.renewed(leases, lost, began.Add(k.cfg.Lease))
	}
	if err != nil {
		k.cfg.Logger.Debug("lease renewal failed", "leases", len(leases), "error", err)
		next = min(next, k.cfg.Lease/againAfter)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.stopped {
		k.renewing = k.cfg.Clock.AfterFunc(next, k.renew)
	}
}

// without returns the leases of a list that are not in another one.
func without(list, others []store.Lease) []store.Lease {
	not := make(map[store.Lease]bool, len(others))
	for _, l := range others {
		not[l] = true
	}
	return slices.DeleteFunc(list, func(l store.Lease) bool { return not[l] })
}

// renewed notes until when leases last, and tells the holders of those that are lost.
func (k *Keeper) renewed(leases, lost []store.Lease, until time.Time) {
	k.mu.Lock()
	var told []func()
	for _, l := range lost {
		if h, kept := k.take(l); kept && h.lost != nil { // or its work was finished meanwhile
			told = append(told, h.lost)
		}
	}
	for _, l := range leases {
		if h, kept := k.holds[l.Key]; kept && h.token == l.Token && h.until.Before(until) {
			if h.doubtful {
				k.skew = skew{} // it was not over, so the clocks differ by something else
			}
			h.until, h.doubtful = until, false
			k.holds[l.Key] = h
		}
	}
	k.mu.Unlock()
	for _, tell := range told {
		tell()
	}
}

// expire gives up the leases that are about to end.
func (k *Keeper) expire() {
	k.mu.Lock()
	now := k.cfg.Clock.Now()
	var told []func()
	over := 0
	var next time.Time // when the lease that is the first to end does
	for key, h := range k.holds {
		if !h.until.Add(-k.cfg.Lease / margin).After(now) {
			delete(k.holds, key)
			over++
			if h.lost != nil {
				told = append(told, h.lost)
			}
			continue
		}
		if next.IsZero() || h.until.Before(next) {
			next = h.until
		}
	}
	k.expiring = nil
	if !next.IsZero() && !k.stopped {
		k.watch(now, next)
	}
	k.mu.Unlock()
	for _, tell := range told {
		tell()
	}
	if over > 0 {
		k.cfg.Logger.Error("leases given up, they could not be renewed in time", "leases", over, "lease", k.cfg.Lease)
	}
}

// skew tells how long ago a claim was made. Only the store knows when that was, and its
// clock is another one; how much the two differ is not known either, but it is no more than
// the smallest difference that was seen between the time of a claim and our time when it
// had arrived. By how much a claim exceeds that, it was on its way.
type skew struct {
	since         time.Time     // when least was begun
	least, before time.Duration // the smallest difference since then, and in the period before
}

// skewPeriod is how long a difference counts at least: until the end of the next period in
// which there are claims.
const skewPeriod = 10 * time.Minute

// age returns how long ago, at least, the store's clock showed there.
func (s *skew) age(now, there time.Time) time.Duration {
	d := now.Sub(there)
	if s.since.IsZero() {
		s.since, s.least, s.before = now, d, d
	}
	if now.Sub(s.since) >= skewPeriod {
		s.since, s.before, s.least = now, s.least, d
	}
	s.least = min(s.least, d)
	return d - min(s.least, s.before)
}
