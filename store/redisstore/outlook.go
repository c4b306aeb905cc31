package redisstore

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/abidehq/abide/store"
)

// With several segments a claim would take a script for each of them. Most would find nothing,
// so this process remembers for the routes that it claims where something may be ready: an
// outlook. It learns that from answers: of its own claims, of its own commits and releases,
// which name the partitions that became ready, and from the hints of other processes. A claim
// asks only the segments that may have something, and takes from them in turn.
//
// What may be lost is a hint. So the poll asks all segments again, for all outlooks with one
// script each, and so does a new subscription to hints; while there is none, and before a wait ends,
// and for a claim that does not wait, all segments are asked too. That costs one read-only script
// per segment (peek.lua), which are sent at the same time, and a claim from those that have
// something.

// prospect is what is known of one segment for an outlook.
type prospect struct {
	known  bool      // a look or a claim has told, and nothing was forgotten since
	ready  bool      // a claim may find something now
	failed int       // how many of the latest scripts have failed: the master is down, say
	asking bool      // a script asks again after others have failed
	at     time.Time // when a claim may find something, by the ticker; zero if no time is known

	foreign bool // the segment has none of the tenants that the claims are limited to: it is never asked

	forgotten uint64 // how often it was forgotten: an answer that is older tells nothing for sure
}

// forget notes that what is known may be outdated.
func (p *prospect) forget() {
	p.known = p.foreign
	p.forgotten++
}

// due reports whether a claim may find something at a time.
func (p *prospect) due(now time.Time) bool {
	return p.ready || !p.at.IsZero() && !p.at.After(now)
}

// visit returns a visit of the segment. What is known to be ready is left to it: what is told while
// its script is under way counts anew, since the answer may be older.
func (p *prospect) visit(seg *segment) visit {
	p.ready, p.at = false, time.Time{}
	return visit{segment: seg, forgotten: p.forgotten}
}

// earlier moves at forward to a time, unless it is earlier already.
func (p *prospect) earlier(at time.Time) {
	if !at.IsZero() && (p.at.IsZero() || at.Before(p.at)) {
		p.at = at
	}
}

// outlook is where claims of a queue, a set of routes and perhaps of tenants may find something.
type outlook struct {
	queue     string
	routes    []string
	tenants   []string   // nil for all
	prospects []prospect // one for each segment
	turn      int        // the segment that the next claim begins with
	used      bool       // since the latest poll
	err       error      // of the latest script that failed
}

// next returns the earliest time at which a claim may find something, or zero.
func (o *outlook) next() (at time.Time) {
	for i := range o.prospects {
		if p := &o.prospects[i]; !p.at.IsZero() && (at.IsZero() || p.at.Before(at)) {
			at = p.at
		}
	}
	return at
}

// outlooks are those of a process. Store.mu guards them. They stay when no call waits for their
// routes, since a worker that takes what it claimed comes back soon.
type outlooks struct {
	byName   map[string]*outlook
	byTarget map[target][]*outlook // by queue and route, and by the queue alone
}

func newOutlooks() outlooks {
	return outlooks{byName: map[string]*outlook{}, byTarget: map[target][]*outlook{}}
}

// maxOutlooks is how many outlooks are kept. With one more all are dropped.
const maxOutlooks = 256

// of returns the outlook of a request, which knows nothing if it is new.
func (all *outlooks) of(req *store.ClaimRequest, segments int) *outlook {
	name := short(nil, req.Queue)
	for _, route := range req.Routes {
		name = long(name, route)
	}
	if req.Tenants != nil {
		name = long(name, "") // no route is empty
		for _, tenant := range req.Tenants {
			name = long(name, tenant)
		}
	}
	if o := all.byName[string(name)]; o != nil {
		o.used = true
		return o
	}
	if len(all.byName) >= maxOutlooks {
		*all = newOutlooks()
	}
	o := &outlook{queue: req.Queue, routes: req.Routes, tenants: req.Tenants, prospects: make([]prospect, segments), used: true}
	if req.Tenants != nil {
		for i := range o.prospects {
			o.prospects[i].foreign, o.prospects[i].known = true, true
		}
		for _, tenant := range req.Tenants {
			p := &o.prospects[segmentIndex(tenant, segments)]
			p.foreign, p.known = false, false
		}
	}
	all.add(string(name), o)
	return o
}

func (all *outlooks) add(name string, o *outlook) {
	all.byName[name] = o
	for _, route := range append([]string{""}, o.routes...) {
		t := target{o.queue, route}
		all.byTarget[t] = append(all.byTarget[t], o)
	}
}

// ready notes that a segment has something for a target.
func (all *outlooks) ready(t target, seg *segment) {
	for _, o := range all.byTarget[t] {
		p := &o.prospects[seg.index]
		p.ready = !p.foreign
	}
}

// due notes that a segment has something for a target from a time on.
func (all *outlooks) due(t target, seg *segment, at time.Time) {
	for _, o := range all.byTarget[t] {
		if p := &o.prospects[seg.index]; !p.foreign {
			p.earlier(at)
		}
	}
}

// forget forgets everything that is known, because hints may have been lost, and drops outlooks
// that were not used since it was called the last time. It returns the others.
func (all *outlooks) forget() (list []*outlook) {
	before := all.byName
	*all = newOutlooks()
	for name, o := range before {
		if !o.used {
			continue
		}
		o.used = false
		for i := range o.prospects {
			o.prospects[i].forget()
		}
		all.add(name, o)
		list = append(list, o)
	}
	return list
}

// lookAgain asks all segments for all outlooks, because hints may have been lost.
func (s *Store) lookAgain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, peekTimeout)
	defer cancel()
	s.mu.Lock()
	list := s.outlooks.forget()
	s.mu.Unlock()
	if len(list) == 0 {
		return
	}
	var a args
	a.len(len(list))
	for _, o := range list {
		a.add(o.queue)
		a.names(o.routes)
		a.names(o.tenants)
	}
	forEach(s.segments, func(_ int, seg *segment) error {
		visits := make([]visit, len(list))
		s.mu.Lock()
		for i, o := range list {
			visits[i] = o.prospects[seg.index].visit(seg)
		}
		s.mu.Unlock()
		s.peek(ctx, seg, a, visits)
		s.mu.Lock()
		defer s.mu.Unlock()
		for i, o := range list {
			s.noteVisit(o, &visits[i])
		}
		return nil
	})
}

// peek asks a segment whether claims may find something, for each of the visits.
func (s *Store) peek(ctx context.Context, seg *segment, a args, visits []visit) {
	m, err := s.eval(ctx, seg, peekScript, a)
	answer := &answer{err: err}
	if err == nil {
		answer = read(m)
	}
	now := answer.num()
	for i := range visits {
		f := &visits[i].result
		f.now, f.more, f.next = now, answer.num() == 1, answer.num()
	}
	for i := range visits {
		visits[i].err = answer.err
	}
}

// noteReady notes for claims that a partition of a segment is, or will be, ready. The lock is
// held.
func (s *Store) noteReady(seg *segment, now int64, r readiness) {
	if t := (target{r.queue, r.route}); r.at <= now {
		s.outlooks.ready(t, seg)
	} else {
		s.outlooks.due(t, seg, s.moment(now, r.at))
	}
}

// noteHandOver notes what the script of a group, which is not a full claim, has told about its
// segment.
func (s *Store) noteHandOver(seg *segment, w *waiter, f claimResult, again bool) {
	if !s.several() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.outlooks.of(&w.Request, len(s.segments)).prospects[seg.index]
	if p.foreign {
		return
	}
	p.ready = p.ready || f.more || again
	if f.next >= 0 {
		p.earlier(s.moment(f.now, f.next))
	}
}

// everywhere reports whether the attempt of a waiter must ask all segments: it is that of a
// call that does not wait, unless the call is lax, or decides how a wait ends. The lock is held.
func (s *Store) everywhere(w *waiter) bool {
	if sub := w.Subscription(); sub != nil {
		return sub.Expired()
	}
	return !w.Request.Lax
}

// promising reports whether an attempt of a waiter may find something, as far as this process
// knows. The lock is held.
func (s *Store) promising(w *waiter) bool {
	if s.everywhere(w) || !s.listening.Load() {
		return true
	}
	now := s.ticker().Now()
	return slices.ContainsFunc(s.outlooks.of(&w.Request, len(s.segments)).prospects, func(p prospect) bool {
		return !p.known && p.failed == 0 || p.due(now) && !p.asking
	})
}

// claimReady makes one full claim on behalf of a waiter.
func (s *Store) claimReady(ctx context.Context, w *waiter) (claimResult, error) {
	if !s.several() {
		return s.claimOnce(ctx, s.segments[0], &w.Request)
	}
	s.mu.Lock()
	c := acrossClaim{
		store: s, req: &w.Request, outlook: s.outlooks.of(&w.Request, len(s.segments)),
		ready: map[*segment]bool{}, visited: map[*segment]bool{},
	}
	all := s.everywhere(w)
	s.mu.Unlock()
	return c.run(ctx, all)
}

// acrossClaim is a claim from several segments.
type acrossClaim struct {
	store   *Store
	req     *store.ClaimRequest
	outlook *outlook
	found   claimResult
	errs    []error

	// What this claim knows itself, by segment. Other claims of the same outlook may have taken
	// what it says to be ready, and the poll may forget it, and "nothing" must not mean that.
	ready   map[*segment]bool // its own script has found something that it has not claimed
	visited map[*segment]bool // it has claimed there: a lease that ends meanwhile is for the next claim
}

// visit is one script of a claim: a look at a segment, or a claim of some keys there.
type visit struct {
	segment   *segment
	forgotten uint64 // of the prospect when the script was sent
	max       int    // how many keys to claim
	result    claimResult
	err       error
}

// run looks at the segments of which nothing is known, or at all of them, and claims from those
// that may have something until it has enough or none has.
//
// An error of a segment ends the claim only if nothing is known to be ready elsewhere: if the
// store is held exclusively by another process, if no segment can be reached, or if the call
// does not wait and would have to say that nothing is ready. Otherwise the segment is asked again
// after retrySegment.
func (c *acrossClaim) run(ctx context.Context, all bool) (claimResult, error) {
	c.look(ctx, all)
	for left := c.req.Max; left > 0; left = c.req.Max - len(c.found.claims) {
		visits := c.pick(left)
		if len(visits) == 0 {
			break
		}
		full := false // a segment has returned as much as an answer may hold
		c.visit(visits, func(v *visit) {
			req := *c.req
			req.Max = v.max
			v.result, v.err = c.store.claimOnce(ctx, v.segment, &req)
		})
		for i := range visits {
			f := &visits[i].result
			c.visited[visits[i].segment] = true
			c.found.claims = append(c.found.claims, f.claims...)
			full = full || f.more && len(f.claims) < visits[i].max && len(f.claims) > 0
		}
		if full {
			break
		}
	}
	return c.end()
}

// look asks segments whether a claim may find something. Those that have failed before are asked
// in the background, and wake the call if they have something, unless the call does not wait: a
// master that hangs does not delay claims from others.
func (c *acrossClaim) look(ctx context.Context, all bool) {
	s := c.store
	a := args{"1", c.req.Queue}
	a.names(c.req.Routes)
	a.names(c.req.Tenants)
	s.mu.Lock()
	now := s.ticker().Now()
	all = all || !s.listening.Load()
	var visits, doubtful []visit
	for i := range c.outlook.prospects {
		p := &c.outlook.prospects[i]
		switch {
		case p.foreign:
		case p.failed > 0 && c.req.Wait > 0:
			if p.due(now) && !p.asking {
				p.asking = true
				doubtful = append(doubtful, p.visit(s.segments[i]))
			}
		case all || !p.known:
			visits = append(visits, p.visit(s.segments[i]))
		}
	}
	if len(doubtful) > 0 && !s.closed {
		s.calls.Go(func() { c.lookLater(ctx, a, doubtful) })
	}
	s.mu.Unlock()
	looking := ctx
	if c.req.Wait > 0 {
		var cancel context.CancelFunc
		looking, cancel = context.WithTimeout(ctx, peekTimeout)
		defer cancel()
	}
	c.visit(visits, func(v *visit) { s.peekOne(looking, a, v) })
}

// lookLater asks segments that have failed before, and wakes the calls that wait for the outlook.
func (c *acrossClaim) lookLater(ctx context.Context, a args, visits []visit) {
	later := acrossClaim{store: c.store, req: c.req, outlook: c.outlook, ready: map[*segment]bool{}}
	later.visit(visits, func(v *visit) { c.store.peekOne(ctx, a, v) })
	s := c.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.topics[target{queue: c.outlook.queue}]; t != nil {
		s.waits.Ready(t)
		s.startAttempts()
		s.setAlarm()
	}
}

// peekOne asks a segment for one outlook.
func (s *Store) peekOne(ctx context.Context, a args, v *visit) {
	one := []visit{*v}
	s.peek(ctx, v.segment, a, one)
	*v = one[0]
}

// pick returns the segments to claim from, which share what is left: each has its turn, so
// that a segment with much to claim does not keep others waiting.
func (c *acrossClaim) pick(left int) (visits []visit) {
	s := c.store
	s.mu.Lock()
	defer s.mu.Unlock()
	now, n := s.ticker().Now(), len(s.segments)
	for i := range n {
		at := (c.outlook.turn + i) % n
		p, seg := &c.outlook.prospects[at], s.segments[at]
		if c.ready[seg] || p.known && p.due(now) && !c.visited[seg] {
			visits = append(visits, p.visit(seg))
		}
		if len(visits) == left {
			break
		}
	}
	for i := range visits {
		visits[i].max = left / len(visits)
		if i < left%len(visits) {
			visits[i].max++
		}
	}
	if len(visits) > 0 {
		c.outlook.turn = (visits[len(visits)-1].segment.index + 1) % n
	}
	return visits
}

// retrySegment is after how long a segment that could not be reached is asked again. The pause
// doubles so often. peekTimeout is how long it may take to answer a call that waits.
const (
	retrySegment = 250 * time.Millisecond
	maxDoublings = 4
	peekTimeout  = 2 * time.Second
)

// visit makes visits, concurrently, and notes in the outlook what they have told.
func (c *acrossClaim) visit(visits []visit, script func(*visit)) {
	if len(visits) == 0 {
		return
	}
	list := make([]*segment, len(visits))
	for i := range visits {
		list[i] = visits[i].segment
	}
	forEach(list, func(i int, _ *segment) error {
		script(&visits[i])
		return nil
	})
	s := c.store
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range visits {
		s.noteVisit(c.outlook, &visits[i])
		c.ready[visits[i].segment] = visits[i].err == nil && visits[i].result.more
		if err := visits[i].err; err != nil {
			c.errs = append(c.errs, err)
		}
	}
}

// noteVisit notes the answer of a script, or that it failed. What was learned after it was sent
// stays: the answer may be older. The lock is held.
func (s *Store) noteVisit(o *outlook, v *visit) {
	p := &o.prospects[v.segment.index]
	if p.foreign {
		return
	}
	p.asking = false
	switch {
	case errors.Is(v.err, store.ErrInUse): // it was reached
		p.known, p.ready, p.at, p.failed = false, false, time.Time{}, 0
		return
	case v.err != nil:
		p.known, p.ready, p.at = false, false, s.ticker().Now().Add(retrySegment<<min(p.failed, maxDoublings))
		p.failed++
		o.err = v.err
		return
	}
	p.failed = 0
	var at time.Time
	if v.result.next >= 0 {
		at = s.moment(v.result.now, v.result.next)
	}
	p.known = p.known || p.forgotten == v.forgotten
	p.ready = p.ready || v.result.more
	p.earlier(at)
}

// end returns what was found, and whether there is more.
func (c *acrossClaim) end() (claimResult, error) {
	s := c.store
	s.mu.Lock()
	defer s.mu.Unlock()
	now, reached := s.ticker().Now(), false
	for i := range c.outlook.prospects {
		p := &c.outlook.prospects[i]
		c.found.more = c.found.more || p.known && p.due(now)
		reached = reached || p.failed == 0 && !p.foreign
	}
	err := errors.Join(c.errs...)
	switch {
	case !reached:
		return c.found, c.outlook.err
	case errors.Is(err, store.ErrInUse) || c.req.Wait == 0 && !c.req.Lax:
		return c.found, err
	}
	return c.found, nil
}
