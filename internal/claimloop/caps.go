package claimloop

import (
	"context"
	"math/bits"
	"sync"

	"github.com/abidehq/abide/store"
)

// Caps limits how many claims of a route a process works on at a time, so that a kind of work that is slow cannot take
// all slots. A claim leaves out the routes that are at their cap: nothing is leased that may not begin, and what is over
// the cap stays in the store, for other processes.
//
// A claim has one Max for all of its routes, so it must not be larger than what each of them may have. The first claim
// is for all routes that are below their caps, with a Max which fits the one that is closest to its cap; if it may wait,
// it waits. If as many are found there may be more, and claims follow that do not wait, each for the routes which may
// have more than the last one's Max, until one finds less than its Max. A Max that caps make is a power of two, so
// that there are at most 8 claims in a round, however many caps there are. While there is little to do each claim is
// one that waits, as without caps.
//
// A route that was at its cap when a claim began to wait is not in that claim. When work of it ends, the claim is
// interrupted, and made again with the route.
//
// One claim is made at a time; any goroutine gives back. claiming is held during a claim, and taken before mu, which is
// not held during a call of the store.
type Caps struct {
	limits map[string]int

	claiming sync.Mutex

	// most is the Max of the claim before, if it found as many, and else 0. claiming guards it.
	most int

	// mu guards the fields below it.
	mu        sync.Mutex
	inFlight  map[string]int
	full      map[string]bool // routes that were left out of the claim that is being made
	interrupt func()          // ends that claim; nil if there is none or it has all routes
}

// NewCaps returns caps of routes, each of them 1 at least. It returns nil if there are none; the methods of nil limit
// nothing.
func NewCaps(limits map[string]int) *Caps {
	if len(limits) == 0 {
		return nil
	}
	return &Caps{limits: limits, inFlight: map[string]int{}}
}

// On returns s with a Claim that keeps to the caps. One [Loop] uses it. After work on a claim its worker calls
// [Caps.Give] with its route. A second claim that is made meanwhile begins when the first one has ended.
func (c *Caps) On(s store.Store) store.Store {
	if c == nil {
		return s
	}
	return cappedStore{s, c}
}

// Full reports whether a route is at its cap. What the claim loop learns so may change to false at any time, but to
// true only by a claim of its own.
func (c *Caps) Full() bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for route, limit := range c.limits {
		if c.inFlight[route] >= limit {
			return true
		}
	}
	return false
}

// cappedStore is a store whose claims keep to caps.
type cappedStore struct {
	store.Store
	caps *Caps
}

// Claim leases keys of the routes that are below their caps, at most as many of each as its cap allows.
func (s cappedStore) Claim(ctx context.Context, req store.ClaimRequest) ([]store.Claim, error) {
	s.caps.claiming.Lock()
	defer s.caps.claiming.Unlock()
	for {
		claims, whole, err := s.caps.claim(ctx, s.Store, req)
		switch {
		case len(claims) > 0:
			return claims, err
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil, whole && req.Wait == 0:
			return nil, err
		}
	}
}

// claim makes one claim, and reports whether it was for all routes that are below their caps. It returns neither
// claims nor an error if nothing was found without waiting, or if it was interrupted.
func (c *Caps) claim(ctx context.Context, s store.Store, req store.ClaimRequest) (claims []store.Claim, whole bool, err error) {
	ctx, interrupt := context.WithCancel(ctx)
	defer interrupt()
	whole = c.narrow(&req, interrupt)
	if len(req.Routes) == 0 { // all are at their caps
		if req.Wait > 0 {
			<-ctx.Done()
		}
		return nil, true, nil
	}
	claims, err = s.Claim(ctx, req)
	c.took(claims)
	c.most = 0
	if len(claims) == req.Max {
		c.most = req.Max
	}
	if ctx.Err() != nil {
		err = nil // what has failed for another reason fails again
		whole = false
	}
	return claims, whole, err
}

// narrow has a request name what it may claim, and reports whether these are all routes that are below their caps.
func (c *Caps) narrow(req *store.ClaimRequest, interrupt func()) (whole bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fits := make([]int, len(req.Routes)) // the Max of a claim that a route may be in, 0 if it is at its cap
	full := map[string]bool{}
	most, least := 0, 0 // the least Max at all, and the least one that is larger than that of the claim before
	for i, route := range req.Routes {
		fits[i] = c.fit(route, req.Max)
		fit := fits[i]
		if fit == 0 {
			full[route] = true
			continue
		}
		most = lower(most, fit)
		if fit > c.most {
			least = lower(least, fit)
		}
	}
	if whole = c.most == 0 || least == 0; !whole {
		most, req.Wait = least, 0
	}
	req.Max = max(most, 1)
	all := req.Routes
	req.Routes = make([]string, 0, len(all))
	for i, route := range all {
		if fits[i] >= req.Max {
			req.Routes = append(req.Routes, route)
		}
	}
	c.full, c.interrupt = full, nil
	if len(full) > 0 && req.Wait > 0 {
		c.interrupt = interrupt
	}
	return whole
}

// lower returns the lower of two numbers, if the first one is set.
func lower(a, b int) int {
	if a == 0 {
		return b
	}
	return min(a, b)
}

// fit returns the largest Max of a claim that a route may be in: a power of two, unless it is most. mu is held.
func (c *Caps) fit(route string, most int) int {
	limit, capped := c.limits[route]
	if !capped {
		return most
	}
	free := limit - c.inFlight[route]
	if free <= 0 {
		return 0
	}
	if free >= most {
		return most
	}
	return 1 << (bits.Len(uint(free)) - 1)
}

// took counts what was claimed.
func (c *Caps) took(claims []store.Claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.full, c.interrupt = nil, nil
	for i := range claims {
		if route := claims[i].Route; c.limits[route] > 0 {
			c.inFlight[route]++
		}
	}
}

// Give counts that work on a claim of a route has ended.
func (c *Caps) Give(route string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.limits[route] == 0 {
		return
	}
	c.inFlight[route]--
	if c.full[route] && c.interrupt != nil {
		c.interrupt()
		c.interrupt = nil
	}
}
