package engine

import (
	"context"
	"fmt"
	"math/bits"
	"slices"
	"sync"

	"github.com/abidehq/abide/store"
)

// caps limits how many attempts of an activity are in flight in this process, by the name of the activity, so that
// one that is slow cannot take all slots. The route of a task is the name of its activity, so a claim leaves out
// the names that are at their cap: nothing is leased that may not begin, and what is over the cap stays in the
// store, for other processes.
//
// A claim has one Max for all of its routes, so it must not be larger than what each of them may have. A claim
// that waits has all names that are below their caps, and a Max which fits the one that is closest to its cap.
// If as many are found there may be more, and claims follow that do not wait, each for the names which may have
// more than the last one's Max, until one finds less than its Max. Max is a power of two, so that there are at most 8
// of them, however many caps there are. While there is little to do each claim is one that waits, as without caps.
//
// A name that was at its cap when a claim began to wait is not in that claim. When an attempt of it ends the claim
// is interrupted, and made again with the name.
//
// One claim loop makes all claims; any goroutine gives back. mu guards the fields below it, and is not held during
// a call of the store.
type caps struct {
	limits map[string]int

	mu        sync.Mutex
	inFlight  map[string]int
	full      map[string]bool // names that were left out of the claim that is being made
	interrupt func()          // ends that claim; nil if there is none or it has all names

	// most is the Max of the claim before, if it found as many, and else 0. Only the claim loop uses it.
	most int
}

// newCaps returns nil if there are no limits.
func newCaps(limits map[string]int) *caps {
	if len(limits) == 0 {
		return nil
	}
	return &caps{limits: limits, inFlight: map[string]int{}}
}

// checkCaps reports whether caps are valid.
func (c *Config) checkCaps() error {
	for name, most := range c.MaxInFlight {
		if most < 1 {
			return fmt.Errorf("abide: at most %d attempts of activity %q in flight, at least 1 has to be allowed: %w", most, name, ErrInvalid)
		}
	}
	return nil
}

// cappedStore makes the claims of activities.
type cappedStore struct {
	store.Store
	caps *caps
}

// Claim leases keys of the routes that are below their caps, at most as many of each as its cap allows.
func (s cappedStore) Claim(ctx context.Context, req store.ClaimRequest) ([]store.Claim, error) {
	c := s.caps
	for {
		claims, err := c.claim(ctx, s.Store, req)
		switch {
		case len(claims) > 0:
			return claims, err
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			return nil, err
		}
	}
}

// claim makes one claim. It returns neither claims nor an error if it was interrupted, or if it did not wait.
func (c *caps) claim(ctx context.Context, s store.Store, req store.ClaimRequest) ([]store.Claim, error) {
	ctx, interrupt := context.WithCancel(ctx)
	defer interrupt()
	c.narrow(&req, interrupt)
	if len(req.Routes) == 0 { // all are at their caps
		<-ctx.Done()
		return nil, nil
	}
	claims, err := s.Claim(ctx, req)
	c.took(claims)
	c.most = 0
	if len(claims) == req.Max {
		c.most = req.Max
	}
	if ctx.Err() != nil {
		err = nil // what has failed for another reason fails again
	}
	return claims, err
}

// narrow has a request name what it may claim.
func (c *caps) narrow(req *store.ClaimRequest, interrupt func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fits := make([]int, len(req.Routes)) // the Max of a claim that a route may be in, 0 if it is at its cap
	full := map[string]bool{}
	most, least := 0, 0 // the least Max at all, and the least one that is larger than that of the claim before
	for i, route := range req.Routes {
		fits[i] = c.fit(route, req.Max)
		switch fit := fits[i]; {
		case fit == 0:
			full[route] = true
		default:
			most = lower(most, fit)
			if fit > c.most {
				least = lower(least, fit)
			}
		}
	}
	if c.most > 0 && least > 0 {
		most, req.Wait = least, 0
	}
	req.Max = max(most, 1)
	i := -1
	req.Routes = slices.DeleteFunc(slices.Clone(req.Routes), func(string) bool {
		i++
		return fits[i] < req.Max
	})
	c.full, c.interrupt = full, interrupt
	if len(full) == 0 {
		c.interrupt = nil
	}
}

// lower returns the lower of two numbers, if the first one is set.
func lower(a, b int) int {
	if a == 0 {
		return b
	}
	return min(a, b)
}

// fit returns the largest Max of a claim that a route may be in: a power of two, unless it is most. mu is held.
func (c *caps) fit(route string, most int) int {
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
func (c *caps) took(claims []store.Claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.full, c.interrupt = nil, nil
	for i := range claims {
		if route := claims[i].Route; c.limits[route] > 0 {
			c.inFlight[route]++
		}
	}
}

// give counts that an attempt has ended. Without caps it does nothing.
func (c *caps) give(route string) {
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
