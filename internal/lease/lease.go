// Package lease keeps leases alive while somebody works under them.
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

// Keeper renews leases, all in one call, for as long as there are any.
type Keeper struct {
	store store.Store
	clock base.Clock
	log   *slog.Logger
	lasts time.Duration

	mu      sync.Mutex
	holds   map[store.Lease]hold
	ticking bool
}

// hold is what is known of a lease that is kept.
type hold struct {
	lost  func()    // tells its holder; nil if nobody wants to know
	until time.Time // it lasts for sure, by our clock
}

// All of these are parts of how long a lease lasts, counted from when it was renewed. The
// first renewal comes after a third. If it fails, or has no answer for a quarter, others
// follow after a twelfth each, for as long as there is time for one. A lease for which there
// is none is lost to us, while it is still ours: nobody can work under it when somebody else
// has it.
const (
	renewAfter  = 3
	patience    = 4
	againAfter  = 12
	leastToWait = 12 // for an answer
)

// NewKeeper returns a keeper of leases that last for d.
func NewKeeper(s store.Store, clock base.Clock, log *slog.Logger, d time.Duration) *Keeper {
	return &Keeper{store: s, clock: clock, log: log, lasts: d, holds: map[store.Lease]hold{}}
}

// Keep renews a lease that was just claimed until it is dropped. If it is lost before, or
// cannot be renewed for so long that it is about to end, lost is called, unless it is nil.
func (k *Keeper) Keep(l store.Lease, lost func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.holds[l] = hold{lost, k.clock.Now().Add(k.lasts)}
	if !k.ticking {
		k.ticking = true
		k.clock.AfterFunc(k.lasts/renewAfter, k.tick)
	}
}

// Drop ends the keeping of leases. Those that were lost may be among them.
func (k *Keeper) Drop(leases ...store.Lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, l := range leases {
		delete(k.holds, l)
	}
}

// Lose says that the leases on a key, if some are kept here, have been lost: it need not be
// found out by renewing.
func (k *Keeper) Lose(key store.Key) {
	k.mu.Lock()
	var lost []store.Lease
	for l := range k.holds {
		if l.Key == key {
			lost = append(lost, l)
		}
	}
	k.mu.Unlock()
	k.lose(lost)
}

func (k *Keeper) tick() {
	k.mu.Lock()
	began := k.clock.Now()
	wait := k.lasts / patience
	leases := make([]store.Lease, 0, len(k.holds))
	for l, h := range k.holds {
		leases = append(leases, l)
		wait = min(wait, h.until.Sub(began)-k.lasts/againAfter)
	}
	if len(leases) == 0 {
		k.ticking = false
		k.mu.Unlock()
		return
	}
	k.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), max(wait, k.lasts/leastToWait))
	lost, err := k.store.Renew(ctx, k.lasts, leases)
	cancel()
	next := k.lasts / renewAfter
	if some, ok := errors.AsType[*store.NotRenewedError](err); ok {
		k.lose(lost)
		k.renewed(without(leases, some.Leases), began.Add(k.lasts))
	}
	if err != nil {
		k.log.Warn("leases could not be renewed", "leases", len(leases), "error", err)
		next = k.lasts / againAfter
		lost = k.endBy(k.clock.Now().Add(next + k.lasts/leastToWait))
	} else {
		k.renewed(leases, began.Add(k.lasts))
	}
	k.lose(lost)
	k.clock.AfterFunc(next, k.tick)
}

// without returns the leases of a list that are not in another one.
func without(list, others []store.Lease) []store.Lease {
	not := make(map[store.Lease]bool, len(others))
	for _, l := range others {
		not[l] = true
	}
	return slices.DeleteFunc(list, func(l store.Lease) bool { return not[l] })
}

// renewed notes that leases last until then.
func (k *Keeper) renewed(leases []store.Lease, until time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, l := range leases {
		if h, kept := k.holds[l]; kept {
			h.until = until
			k.holds[l] = h
		}
	}
}

// endBy returns the leases that may have ended then.
func (k *Keeper) endBy(then time.Time) (over []store.Lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for l, h := range k.holds {
		if !h.until.After(then) {
			over = append(over, l)
		}
	}
	return over
}

// lose tells the holders of leases that these are lost.
func (k *Keeper) lose(leases []store.Lease) {
	for _, l := range leases {
		k.mu.Lock()
		h, kept := k.holds[l]
		delete(k.holds, l)
		k.mu.Unlock()
		if kept && h.lost != nil {
			h.lost()
		}
	}
}
