package storetest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/abidehq/abide/store"
)

// Requests.

type requestOption func(*store.ClaimRequest)

// request returns a request for all ready keys of the usual queue and route, that
// does not wait.
func request(options ...requestOption) store.ClaimRequest {
	req := store.ClaimRequest{Queue: theQueue, Routes: []string{theRoute}, Max: 1000, Lease: theLease}
	for _, option := range options {
		option(&req)
	}
	return req
}

func from(queue string) requestOption { return func(r *store.ClaimRequest) { r.Queue = queue } }

func serving(routes ...string) requestOption {
	return func(r *store.ClaimRequest) { r.Routes = routes }
}

// upTo limits the number of keys.
func upTo(keys int) requestOption { return func(r *store.ClaimRequest) { r.Max = keys } }

// maxMessages limits the number of messages with each key.
func maxMessages(n int) requestOption { return func(r *store.ClaimRequest) { r.MaxMessages = n } }

func maxAttempts(n int) requestOption { return func(r *store.ClaimRequest) { r.MaxAttempts = n } }

func leaseFor(d time.Duration) requestOption { return func(r *store.ClaimRequest) { r.Lease = d } }

func waitFor(d time.Duration) requestOption { return func(r *store.ClaimRequest) { r.Wait = d } }

// Claims.

// claimAll claims all ready keys, unless an option limits it. It may return none.
func (w *world) claimAll(options ...requestOption) []store.Claim {
	w.t.Helper()
	claims, err := w.Store.Claim(w.ctx, request(options...))
	if err != nil {
		w.t.Fatalf("claim: %v", err)
	}
	return claims
}

// claimOne claims and checks that exactly one key was ready.
func (w *world) claimOne(options ...requestOption) store.Claim {
	w.t.Helper()
	claims := w.claimAll(options...)
	if len(claims) != 1 {
		w.t.Fatalf("claimed %v, want one key", describe(claims))
	}
	return claims[0]
}

// claimNone checks that no key is ready.
func (w *world) claimNone(options ...requestOption) {
	w.t.Helper()
	if claims := w.claimAll(options...); len(claims) > 0 {
		w.t.Fatalf("claimed %v, want none", describe(claims))
	}
}

// claimKey claims and checks that exactly this key was ready, with these messages in
// this order.
func (w *world) claimKey(k store.Key, ids []string, options ...requestOption) store.Claim {
	w.t.Helper()
	c := w.claimOne(options...)
	w.isClaim(c, k, ids...)
	return c
}

// isClaim checks the key and the messages of a claim.
func (w *world) isClaim(c store.Claim, k store.Key, ids ...string) {
	w.t.Helper()
	if c.Key != k || !slices.Equal(idsOf(c.Messages), ids) {
		w.t.Fatalf("claimed %v, want %v%v", describe([]store.Claim{c}), k, ids)
	}
}

// describe returns what was claimed for people: turns/acme/order-1[a b].
func describe(claims []store.Claim) []string {
	texts := make([]string, 0, len(claims))
	for _, c := range claims {
		texts = append(texts, fmt.Sprintf("%v%v", c.Key, idsOf(c.Messages)))
	}
	return texts
}

// idsOf returns the IDs of the messages, in their order.
func idsOf(messages []store.Message) []string {
	ids := make([]string, 0, len(messages))
	for i := range messages {
		ids = append(ids, messages[i].ID)
	}
	return ids
}

// keysOf returns the keys of the claims, in their order.
func keysOf(claims []store.Claim) []store.Key {
	keys := make([]store.Key, 0, len(claims))
	for i := range claims {
		keys = append(keys, claims[i].Key)
	}
	return keys
}

// Claims that wait.

// waiter is a Claim call that runs in a goroutine of its own.
type waiter struct {
	w      *world
	cancel context.CancelFunc
	done   chan struct{}
	claims []store.Claim
	err    error
}

// wait starts a claim, with a Wait of an hour unless an option says otherwise, and
// returns when it waits. The case must have no other claim that starts meanwhile.
func (w *world) wait(options ...requestOption) *waiter {
	w.t.Helper()
	before := w.stats().Waiting
	p := w.startClaim(append([]requestOption{waitFor(time.Hour)}, options...)...)
	w.areWaiting(before + 1)
	return p
}

// startClaim starts a claim and does not wait for anything.
func (w *world) startClaim(options ...requestOption) *waiter {
	ctx, cancel := context.WithCancel(w.ctx)
	p := &waiter{w: w, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.claims, p.err = w.Store.Claim(ctx, request(options...))
	}()
	return p
}

// areWaiting returns when exactly n Claim calls wait.
func (w *world) areWaiting(n int) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("%d claims wait", n), func() bool { return w.stats().Waiting == n })
}

// result returns what the claim returned, and fails the case if it does not return.
func (p *waiter) result() ([]store.Claim, error) {
	p.w.t.Helper()
	p.w.finishes("the claim that waits", p.done)
	p.cancel()
	return p.claims, p.err
}

// promptly is how soon, by the real clock, a claim learns of a commit of another process that it
// is told of: much sooner than by a poll.
const promptly = 8 * time.Second

// endsWithin returns when the claim does, and fails the case if that takes longer than d.
func (p *waiter) endsWithin(d time.Duration) {
	p.w.t.Helper()
	ctx, cancel := context.WithTimeout(p.w.ctx, d)
	defer cancel()
	select {
	case <-p.done:
	case <-ctx.Done():
		p.w.t.Fatalf("the claim that waits did not end within %v", d)
	}
}

// commitAndClose commits as another process, which closes the store at once.
func (w *world) commitAndClose(tx *store.Tx) {
	w.t.Helper()
	other, err := w.Open()
	if err != nil {
		w.t.Fatalf("open: %v", err)
	}
	if err := other.Commit(w.ctx, tx); err != nil {
		w.t.Errorf("commit: %v", err)
	}
	if err := other.Close(); err != nil {
		w.t.Errorf("close: %v", err)
	}
}

// claimed returns the claims, of which there must be some.
func (p *waiter) claimed() []store.Claim {
	p.w.t.Helper()
	claims, err := p.result()
	if err != nil || len(claims) == 0 {
		p.w.t.Fatalf("the claim that waited got %v and error %v, want a claim", describe(claims), err)
	}
	return claims
}

// claimedNone checks that the claim waited in vain.
func (p *waiter) claimedNone() {
	p.w.t.Helper()
	claims, err := p.result()
	if err != nil || len(claims) > 0 {
		p.w.t.Fatalf("the claim that waited got %v and error %v, want neither", describe(claims), err)
	}
}

// Leases.

// leaseOf returns the lease of a claim that has no name.
func leaseOf(c store.Claim) store.Lease { return c.Lease() }

func (w *world) release(r store.Release) {
	w.t.Helper()
	if err := w.Store.Release(w.ctx, r); err != nil {
		w.t.Fatalf("release: %v", err)
	}
}

// releaseErr releases what must fail with target.
func (w *world) releaseErr(r store.Release, target error) {
	w.t.Helper()
	w.isErr("release", w.Store.Release(w.ctx, r), target)
}

// renew renews leases and returns those that are lost.
func (w *world) renew(d time.Duration, leases ...store.Lease) []store.Lease {
	w.t.Helper()
	lost, err := w.Store.Renew(w.ctx, d, leases)
	if err != nil {
		w.t.Fatalf("renew: %v", err)
	}
	return lost
}

// isLive checks that the lease of a claim is live. It renews it for the shortest
// time there is, which never shortens it, so it changes nothing.
func (w *world) isLive(c store.Claim) {
	w.t.Helper()
	if lost := w.renew(store.MinLease, c.Lease()); len(lost) != 0 {
		w.t.Fatalf("the lease of %v is lost, want it live", c.Key)
	}
}

// isLost checks that the lease of a claim is no longer live.
func (w *world) isLost(c store.Claim) {
	w.t.Helper()
	lost := w.renew(store.MinLease, c.Lease())
	if !slices.Equal(lost, []store.Lease{c.Lease()}) {
		w.t.Fatalf("the lease of %v is live, want it lost", c.Key)
	}
}
