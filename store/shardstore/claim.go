package shardstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// Claim leases keys that are ready on any shard. It leaves out shards that are down, and fails if
// all are.
func (s *Store) Claim(ctx context.Context, req store.ClaimRequest) ([]store.Claim, error) {
	if err := req.Validate(); err != nil {
		return nil, err
	}
	if err := s.check(ctx, "claim"); err != nil {
		return nil, err
	}
	if s.mover {
		return nil, store.ReadOnly("claim")
	}
	if len(s.shards) == 1 {
		return s.claimFrom(ctx, s.shards[0], req)
	}
	if store.TransactionOf(ctx) != nil {
		return nil, fmt.Errorf("shardstore: claim: it has no place in a transaction of the caller's: use another context: %w", store.ErrInvalid)
	}
	order := s.inTurn(&req)
	begun := s.clock.Now()
	for {
		news := s.news()
		claims, err := s.poll(ctx, s.holding(order, req.Tenants), req)
		if len(claims) > 0 || err != nil || req.Wait == 0 {
			return claims, err
		}
		claims, again, err := s.wait(ctx, order, req, begun, news)
		if !again || err != nil {
			return claims, err
		}
	}
}

// inTurn returns the shards in the order in which a call asks them.
func (s *Store) inTurn(req *store.ClaimRequest) []*shard {
	first := int(s.turns.take(req) % uint(len(s.shards)))
	return slices.Concat(s.shards[first:], s.shards[:first])
}

// holding returns those of the shards, in their order, that the tenants are on at the moment: all of them
// for a claim that is not limited to tenants.
func (s *Store) holding(shards []*shard, tenants []string) []*shard {
	if tenants == nil {
		return shards
	}
	r := s.routing.Load()
	var list []*shard
	for _, sh := range shards {
		if slices.ContainsFunc(tenants, func(tenant string) bool { return r.of(tenant) == sh }) {
			list = append(list, sh)
		}
	}
	if len(list) == 0 { // they are on shards that the program does not know, for now
		return shards
	}
	return list
}

// claimFrom claims from a shard, and leaves out what is not the shard's.
func (s *Store) claimFrom(ctx context.Context, sh *shard, req store.ClaimRequest) ([]store.Claim, error) {
	st, err := sh.use()
	if err != nil {
		return nil, err
	}
	claims, err := st.Claim(ctx, req)
	return s.owned(sh, claims), sh.failed(err)
}

// droppedPause is how long a call that waits does nothing after it got claims of a copy only.
const droppedPause = 10 * time.Millisecond

// owned returns those claims whose tenants are on the shard and may be changed. Others are of a copy:
// one that is not the tenant's any more, or not yet, or that is just being copied. Those of a move
// under way are held until the tenant is open; what else there is has no owner, and is left to its
// leases.
func (s *Store) owned(sh *shard, claims []store.Claim) []store.Claim {
	r := s.routing.Load()
	var dropped []store.Claim
	claims = slices.DeleteFunc(claims, func(c store.Claim) bool {
		tenant := c.Key.Tenant
		if r.of(tenant) == sh && !r.closed(tenant) {
			return false
		}
		if r.dir.covers(tenant) {
			dropped = append(dropped, c)
		}
		return true
	})
	if len(dropped) > 0 {
		s.spawn(func() { s.holdMoved(sh, dropped) })
	}
	return claims
}

// holdMoved holds claims that were made on a shard while their tenants were being moved, and releases them
// as soon as the tenants are open there, or the move is over. If a lease did not come along, there is
// nothing to release. Were the leases left to expire, the keys would be claimed again and again, and each
// time would count as an attempt.
func (s *Store) holdMoved(sh *shard, claims []store.Claim) {
	ctx, cancel := withLimit(s.background, s.clock, 2*reopenAfter)
	defer cancel(nil)
	lease := claims[0].Until.Sub(claims[0].Now)
	for {
		news := s.news()
		if s.isSettled(sh, claims[0].Key.Tenant) {
			break
		}
		soon := make(chan struct{})
		stop := s.clock.AfterFunc(lease/3, func() { close(soon) })
		select {
		case <-soon:
			s.renewHeld(ctx, sh, lease, claims)
		case <-news:
		case <-ctx.Done():
		}
		stop()
		if ctx.Err() != nil {
			return
		}
	}
	for i := range claims {
		_ = s.Release(ctx, store.Release{Lease: claims[i].Lease(), Uncounted: true}) // or it expires
	}
}

// isSettled reports whether a claim that was made on a shard can be released: the tenant is open there, or
// is not moved any more.
func (s *Store) isSettled(sh *shard, tenant string) bool {
	r := s.routing.Load()
	return !r.dir.covers(tenant) || r.dir.Move.Stage == Cleaning || r.of(tenant) == sh && !r.closed(tenant)
}

// renewHeld renews the leases of claims that are held, where they were made. It is no change of the tenant
// that could be lost: at worst the lease ends earlier on the other shard.
func (s *Store) renewHeld(ctx context.Context, sh *shard, lease time.Duration, claims []store.Claim) {
	st, err := sh.use()
	if err != nil {
		return
	}
	leases := make([]store.Lease, 0, len(claims))
	for i := range claims {
		leases = append(leases, claims[i].Lease())
	}
	_, _ = st.Renew(ctx, lease, leases) // what is lost needs no release
}

// poll claims what is ready, from one shard after another. Each gives its share of what was asked for,
// so that a large batch has keys of all shards, and what is left is taken from those that have more.
//
// A call that would wait, or has something already, is content with what the shards know without
// asking their servers: the one is followed by a wait, which asks.
func (s *Store) poll(ctx context.Context, order []*shard, req store.ClaimRequest) (claims []store.Claim, err error) {
	p := polling{s: s, lax: req.Lax || req.Wait > 0, limit: req.Max, req: req}
	p.req.Wait = 0
	var more []*shard
	for i, sh := range order {
		share := (p.left() + len(order) - i - 1) / (len(order) - i)
		if p.from(ctx, sh, share) {
			more = append(more, sh)
		}
		if p.left() == 0 {
			break
		}
	}
	for _, sh := range more {
		if p.left() > 0 {
			p.from(ctx, sh, p.left())
		}
	}
	if len(p.claims) > 0 {
		return p.claims, nil
	}
	if err := s.check(ctx, "claim"); err != nil {
		return nil, err
	}
	if len(p.errs) == len(order) {
		return nil, errors.Join(p.errs...)
	}
	return nil, nil
}

// polling is a call that does not wait.
type polling struct {
	s      *Store
	req    store.ClaimRequest
	lax    bool
	limit  int
	claims []store.Claim
	errs   []error
}

func (p *polling) left() int { return p.limit - len(p.claims) }

// from claims up to n keys from a shard, and reports whether it may have more.
func (p *polling) from(ctx context.Context, sh *shard, n int) (more bool) {
	if !sh.isUp() {
		p.errs = append(p.errs, sh.downError())
		return false
	}
	req := p.req
	req.Max, req.Lax = n, p.lax || len(p.claims) > 0
	claims, err := bounded(ctx, sh, func(ctx context.Context, st store.Store) ([]store.Claim, error) { return st.Claim(ctx, req) })
	if err != nil {
		p.errs = append(p.errs, err)
	}
	p.claims = append(p.claims, p.s.owned(sh, claims)...)
	return len(claims) == n
}

// downError returns the error of a shard that is down.
func (sh *shard) downError() error {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return fmt.Errorf("shardstore: shard %s is down: %w", sh.name, sh.reason())
}

// answer is what a shard returned to a call that waits.
type answer struct {
	shard   *shard
	claims  []store.Claim
	dropped bool // all that it leased is of a copy
	err     error
}

// wait claims from all shards at once, and returns what the first of them has. It says to begin again
// if a shard is up that was not asked: it may have what the caller waits for. A change of the directory is no
// reason: all shards are asked, also those that have none of the tenants which the call is limited to, since
// a tenant may be moved meanwhile. The call began at begun.
func (s *Store) wait(ctx context.Context, order []*shard, req store.ClaimRequest, begun time.Time, news <-chan struct{}) (claims []store.Claim, again bool, err error) {
	waits, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan answer, len(order))
	asked := map[*shard]bool{}
	for _, sh := range order {
		if !sh.isUp() {
			continue
		}
		asked[sh] = true
		if !s.spawn(func() {
			req := req
			// What was polled may have been lax, so that there is one look at least.
			req.Wait = max(req.Wait-s.clock.Now().Sub(begun), time.Nanosecond)
			st, err := sh.use()
			var claims []store.Claim
			if err == nil {
				claims, err = st.Claim(waits, req)
			}
			n := len(claims)
			claims = s.owned(sh, claims)
			answers <- answer{sh, claims, n > len(claims), sh.failed(err)}
		}) {
			return nil, false, store.Closed("claim")
		}
	}
	g := gathering{s: s, answers: answers, asked: asked, open: len(asked)}
	for g.open > 0 && len(g.claims) == 0 && !again && !g.dropped {
		select {
		case a := <-answers:
			g.add(ctx, a)
		case <-news:
			news = s.news()
			again = slices.ContainsFunc(order, func(sh *shard) bool { return !asked[sh] && sh.isUp() })
		}
	}
	cancel()
	g.collect(ctx)
	if err := s.check(ctx, "claim"); err != nil {
		s.giveBack(g.claims)
		return nil, false, err
	}
	if len(g.claims) > 0 {
		s.giveBack(g.claims[min(req.Max, len(g.claims)):])
		return g.claims[:min(req.Max, len(g.claims))], false, nil
	}
	if g.dropped {
		return nil, true, base.Sleep(ctx, s.clock, droppedPause)
	}
	// A shard that failed is down now; if all are, polling says so.
	return nil, again || g.failed, nil
}

// gathering is the answers of the shards to a call that waits.
type gathering struct {
	s       *Store
	answers chan answer
	asked   map[*shard]bool
	open    int // answers that have not come
	claims  []store.Claim
	failed  bool // a shard failed while it waited
	dropped bool // a shard leased something of a copy
}

func (g *gathering) add(ctx context.Context, a answer) {
	g.open--
	g.claims = append(g.claims, a.claims...)
	g.dropped = g.dropped || a.dropped
	if a.err != nil && !answered(a.err) && ctx.Err() == nil {
		a.shard.setDown(a.err)
		delete(g.asked, a.shard)
		g.failed = true
	}
}

// stragglers is how long a call whose waits were ended waits for what they have leased in that moment.
const stragglers = time.Second

// collect adds the answers of the shards whose waits were ended. One that does not answer soon is left:
// what it leased is released when it does.
func (g *gathering) collect(ctx context.Context) {
	if g.open == 0 {
		return
	}
	late := make(chan struct{})
	stop := g.s.clock.AfterFunc(stragglers, func() { close(late) })
	defer stop()
	for g.open > 0 {
		select {
		case a := <-g.answers:
			g.add(ctx, a)
		case <-late:
			open := g.open
			g.s.spawn(func() {
				for range open {
					g.s.giveBack((<-g.answers).claims)
				}
			})
			g.open = 0
		}
	}
}

// giveBack releases claims that nobody gets, and does not count the attempt. One that cannot be
// released ends by time.
func (s *Store) giveBack(claims []store.Claim) {
	for i := range claims {
		ctx, cancel := withLimit(context.Background(), s.clock, callLimit)
		if err := s.Release(ctx, store.Release{Lease: claims[i].Lease(), Uncounted: true}); err != nil {
			s.log.Debug("claim not released, its lease expires", "key", claims[i].Key.String(), "error", err)
		}
		cancel(nil)
	}
}
