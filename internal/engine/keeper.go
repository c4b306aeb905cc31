package engine

import (
	"context"
	"sync"
	"time"

	"github.com/abidehq/abide/store"
)

// hold is a lease that somebody works under.
type hold struct {
	lease  store.Lease
	holder holder
	exec   Execution // that is watched, or nil
	seen   uint64    // exec's progress
	since  time.Time // that it is there
	ticks  int       // for how many ticks
}

// holder is who works under a lease.
type holder interface {
	// lost is called once, if the lease is lost.
	lost()

	// blocked is called once, if what is watched has made no progress for too long.
	blocked()
}

// keeper renews all leases of the engine, in one call, for as long as there are any,
// and watches over code that does not come back.
type keeper struct {
	e     *Engine
	every time.Duration

	mu      sync.Mutex
	holds   map[store.Key]*hold
	ticking bool
	stopped bool
	cancel  func() bool // of the next tick
}

// minTicks is how often code must have been seen to do nothing: a process that was
// stopped for a while, and its code with it, is not blocked.
const minTicks = 3

// maxTick bounds how long it takes until an activity learns that it was cancelled by
// another process.
const maxTick = time.Second

func newKeeper(e *Engine) *keeper {
	every := min(e.cfg.Lease/3, maxTick)
	if e.cfg.Blocked > 0 {
		every = min(every, e.cfg.Blocked/4)
	}
	return &keeper{e: e, every: max(every, time.Millisecond), holds: map[store.Key]*hold{}}
}

// add keeps a lease until it is removed.
func (k *keeper) add(h *hold) {
	k.mu.Lock()
	before := k.holds[h.lease.Key]
	k.holds[h.lease.Key] = h
	if !k.ticking && !k.stopped {
		k.ticking = true
		k.cancel = k.e.clock.AfterFunc(k.every, k.tick)
	}
	k.mu.Unlock()
	if before != nil { // its lease has ended, and nobody has noticed yet
		before.holder.lost()
	}
}

// watch has the code of a hold watched, or not any more if exec is nil.
func (k *keeper) watch(h *hold, exec Execution) {
	k.mu.Lock()
	defer k.mu.Unlock()
	h.exec, h.since = exec, time.Time{}
}

// remove forgets a lease.
func (k *keeper) remove(h *hold) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.holds[h.lease.Key] == h {
		delete(k.holds, h.lease.Key)
	}
}

// cancelled says that a lease on the key, if there is one here, has been lost: it need
// not be found out by renewing.
func (k *keeper) cancelled(key store.Key) {
	k.mu.Lock()
	h := k.holds[key]
	delete(k.holds, key)
	k.mu.Unlock()
	if h != nil {
		h.holder.lost()
	}
}

// holder returns who works under a lease on the key here, or nil.
func (k *keeper) holder(key store.Key) holder {
	k.mu.Lock()
	defer k.mu.Unlock()
	if h := k.holds[key]; h != nil {
		return h.holder
	}
	return nil
}

// stop ends the keeping, and returns the leases that are left.
func (k *keeper) stop() []store.Lease {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stopped = true
	if k.cancel != nil {
		k.cancel()
	}
	leases := make([]store.Lease, 0, len(k.holds))
	for _, h := range k.holds {
		leases = append(leases, h.lease)
	}
	return leases
}

func (k *keeper) tick() {
	now := k.e.clock.Now()
	k.mu.Lock()
	if len(k.holds) == 0 || k.stopped {
		k.ticking = false
		k.mu.Unlock()
		return
	}
	leases := make([]store.Lease, 0, len(k.holds))
	var blocked []*hold
	for key, h := range k.holds {
		leases = append(leases, h.lease)
		if h.isBlocked(now, k.e.cfg.Blocked) {
			blocked = append(blocked, h)
			delete(k.holds, key)
			leases = leases[:len(leases)-1]
		}
	}
	k.mu.Unlock()

	for _, h := range blocked {
		go h.holder.blocked() // the others' leases do not wait for it
	}
	ctx, cancel := context.WithTimeout(context.Background(), k.e.cfg.Lease)
	lost, err := k.e.store.Renew(ctx, k.e.cfg.Lease, leases)
	cancel()
	if err != nil {
		k.e.log.Warn("leases could not be renewed", "leases", len(leases), "error", err)
	}
	for _, lease := range lost {
		k.mu.Lock()
		h := k.holds[lease.Key]
		if h != nil && h.lease == lease {
			delete(k.holds, lease.Key)
		} else {
			h = nil // it was finished meanwhile
		}
		k.mu.Unlock()
		if h != nil {
			h.holder.lost()
		}
	}

	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.stopped {
		k.cancel = k.e.clock.AfterFunc(k.every, k.tick)
	}
}

// isBlocked reports whether the code has done nothing for as long as limit. The
// keeper's lock is held.
func (h *hold) isBlocked(now time.Time, limit time.Duration) bool {
	if h.exec == nil || limit <= 0 {
		return false
	}
	n, inStep := h.exec.Progress()
	if inStep || h.since.IsZero() || n != h.seen {
		h.seen, h.since, h.ticks = n, now, 0
		return false
	}
	h.ticks++
	return now.Sub(h.since) >= limit && h.ticks >= minTicks
}
