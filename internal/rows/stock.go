package rows

import (
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// stock is keys that are leased ahead of a view's next call. While somebody is busy with
// the one call that waits, as with one that a group under way hands something to, other
// groups go on, and what they put would have to be looked for: whoever has called before
// calls again as soon as they have what there is. What nobody calls for is let go after a
// moment.
//
// There is never more of it than the latest call asked for, and none while there is more to
// claim in the database than a call takes: then the oldest comes first.
type stock struct {
	terms    store.ClaimRequest // of the latest call
	busy     int                // calls that somebody is busy with
	backlog  bool               // the latest pick left something
	passed   bool               // the latest call got of the stock although something was due
	stocking int                // keys that are being leased
	keys     []stocked          // the oldest first
}

type stocked struct {
	req   store.ClaimRequest
	claim store.Claim
	until time.Time // by the machine's clock
}

// leasedAhead is a key that a group leases ahead of a call.
type leasedAhead struct {
	view  *view
	req   store.ClaimRequest
	claim store.Claim
}

// stockTime is how long a key is in stock.
const stockTime = 100 * time.Millisecond

func (s *stock) stocked() bool { return s.stocking > 0 || len(s.keys) > 0 }

// taking returns the view of a partition whose call somebody is busy with, and which may have a
// key leased ahead, or nil.
func (f *Frame) taking(id int64) *view {
	l := f.partitions[id]
	if l == nil || f.closed {
		return nil
	}
	for _, v := range l.views {
		if v.busy > 0 && !v.backlog && v.stocking+len(v.keys) < v.terms.Max {
			return v
		}
	}
	return nil
}

// fromStock gives a call what is in stock, and reports whether there was something. If
// something else is due, every other call looks for it.
func (f *Frame) fromStock(w *waiter) bool {
	v := w.view
	if len(v.keys) == 0 {
		return false
	}
	v.passed = f.due(v) && !v.passed
	if !v.passed && f.due(v) {
		return false
	}
	return f.takeStock(w)
}

// takeStock gives a call what is in stock, and reports whether there was something.
func (f *Frame) takeStock(w *waiter) bool {
	v := w.view
	var claims []store.Claim
	for len(v.keys) > 0 && len(claims) < w.req.Max {
		k := v.keys[0]
		v.keys = v.keys[1:]
		if !f.inStock[k.claim.Token] {
			continue // the lease has ended
		}
		delete(f.inStock, k.claim.Token)
		if k.claim.Until.UnixMilli() <= f.now() {
			continue // so it has: somebody else may have the key
		}
		if k.req.Lease != w.req.Lease || k.req.MaxMessages != w.req.MaxMessages {
			f.letGo(k.claim.Lease()) // it was leased on other terms
			continue
		}
		claims = append(claims, k.claim)
	}
	if len(claims) == 0 {
		return false
	}
	w.end(claims, nil)
	return true
}

// stockUp gives what a group has leased ahead to those who wait by now, and keeps the rest.
func (f *Frame) stockUp(ahead []leasedAhead) {
	if len(ahead) == 0 {
		return
	}
	machine := base.System{}
	until := machine.Now().Add(stockTime)
	views := map[*view]bool{}
	for _, a := range ahead {
		a.view.stocking--
		if f.closed {
			f.letGo(a.claim.Lease())
			continue
		}
		a.view.keys = append(a.view.keys, stocked{a.req, a.claim, until})
		f.inStock[a.claim.Token] = true
		views[a.view] = true
	}
	for v := range views {
		for len(v.waiters) > 0 && len(v.keys) > 0 {
			w := v.waiters[0]
			w.leave()
			if !f.fromStock(w) {
				w.enter()
				break
			}
		}
		if len(v.keys) > 0 {
			machine.AfterFunc(stockTime, func() { f.clear(v) })
		}
	}
}

// unstock gives up what a group that failed was to lease ahead. If it is not known whether
// it was written, the leases may be there.
func (f *Frame) unstock(ahead []leasedAhead, unknown bool) {
	for _, a := range ahead {
		a.view.stocking--
		if unknown {
			f.letGo(a.claim.Lease())
		}
	}
}

// clear lets go of what nobody called for.
func (f *Frame) clear(v *view) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := base.System{}.Now()
	for len(v.keys) > 0 && !f.closed && !v.keys[0].until.After(now) {
		if token := v.keys[0].claim.Token; f.inStock[token] {
			delete(f.inStock, token)
			f.letGo(v.keys[0].claim.Lease())
		}
		v.keys = v.keys[1:]
	}
}

// spoil takes out of stock what a group has ended the lease of: its key was deleted, say.
func (f *Frame) spoil(p *plan) {
	if len(f.inStock) == 0 {
		return
	}
	for _, k := range p.keys {
		if k.stored.Token != "" && k.row.Token != k.stored.Token {
			delete(f.inStock, store.Token(k.stored.Token))
		}
	}
}
