// Package lease keeps leases alive while somebody works under them.
package lease

import (
	"context"
	"log/slog"
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
	holds   map[store.Lease]func()
	ticking bool
}

// NewKeeper returns a keeper of leases that last for d.
func NewKeeper(s store.Store, clock base.Clock, log *slog.Logger, d time.Duration) *Keeper {
	return &Keeper{store: s, clock: clock, log: log, lasts: d, holds: map[store.Lease]func(){}}
}

// Keep renews a lease until it is dropped. If it is lost before, lost is called, unless it
// is nil.
func (k *Keeper) Keep(l store.Lease, lost func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.holds[l] = lost
	if !k.ticking {
		k.ticking = true
		k.clock.AfterFunc(k.lasts/3, k.tick)
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
	leases := make([]store.Lease, 0, len(k.holds))
	for l := range k.holds {
		leases = append(leases, l)
	}
	if len(leases) == 0 {
		k.ticking = false
		k.mu.Unlock()
		return
	}
	k.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), k.lasts)
	lost, err := k.store.Renew(ctx, k.lasts, leases)
	cancel()
	if err != nil {
		k.log.Warn("leases could not be renewed", "leases", len(leases), "error", err)
	}
	k.lose(lost)
	k.clock.AfterFunc(k.lasts/3, k.tick)
}

// lose tells the holders of leases that these are lost.
func (k *Keeper) lose(leases []store.Lease) {
	for _, l := range leases {
		k.mu.Lock()
		lost, kept := k.holds[l]
		delete(k.holds, l)
		k.mu.Unlock()
		if kept && lost != nil {
			lost()
		}
	}
}
