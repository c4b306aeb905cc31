package storetest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/abidehq/abide/store"
)

// put puts messages, and nothing can go wrong.
func (c *comparison) put(t *rapid.T) {
	c.commitBoth(draw(c, t, "put", func(t *rapid.T) (pairedTx, string) {
		var p pairedTx
		p.Put = between(t, 1, 4, c.drawMessage)
		return p, c.describeTx(p)
	}))
}

// turn is what an engine does: it finishes a claim, if there is one, and what else it
// commits is mostly about the same key.
func (c *comparison) turn(t *rapid.T) {
	c.commitBoth(draw(c, t, "turn", func(t *rapid.T) (pairedTx, string) {
		var p pairedTx
		if lease := pickAny(t, c.live, nil); lease != nil {
			c.subject = lease.key
			p.finish = []pairedFinish{{lease: lease}}
		}
		p.Trim = between(t, 0, 1, c.drawTrim)
		p.Append = between(t, 0, 1, c.drawAppend)
		p.Put = some(t, c.drawMessage)
		p.Retime = between(t, 0, 1, c.drawRetime)
		p.Delete = between(t, 0, 1, c.drawRef)
		return p, c.describeTx(p)
	}))
}

// commit commits any mixture, with mistakes in it.
func (c *comparison) commit(t *rapid.T) {
	c.commitBoth(draw(c, t, "commit", func(t *rapid.T) (pairedTx, string) {
		p := c.drawTx(t)
		return p, c.describeTx(p)
	}))
}

func (c *comparison) commitBoth(p pairedTx) {
	c.t.Helper()
	p.touches(c.keys, c.records)
	if c.commits++; c.commits%2 == 0 {
		c.vouch(&p)
	}
	p.touches(c.named, c.namedRecords)
	onBackend, onModel := p.txs()
	got := c.backend.Store.Commit(c.ctx, onBackend)
	if onBackend.Validate() == nil && c.backend.spans(onBackend) {
		c.sameError("commit over tenants that are kept apart", got, store.ErrTooLarge)
		return
	}
	want := c.model.Commit(c.ctx, onModel)
	c.sameError("commit", got, want)
	c.t.Logf("  → %s", errorKind(want))
}

// everything is a Max that is never reached.
const everything = 1000

// claim claims all keys that are ready, or fewer. Which of them it gets in the latter
// case is for the backend to say, within the rules, so the model claims all and gives
// back what the backend did not get.
func (c *comparison) claim(t *rapid.T) {
	req := draw(c, t, "claim", func(t *rapid.T) (store.ClaimRequest, string) {
		req := c.drawRequest(t)
		return req, describeRequest(req)
	})
	got, err := c.backend.Store.Claim(c.ctx, req)
	all := req
	all.Max = everything
	want, wantErr := c.model.Claim(c.ctx, all)
	c.sameError("claim", err, wantErr)
	if req.Max < everything {
		want = c.giveBack(got, want, req.Max)
	}
	if req.MaxAttempts == 0 { // otherwise a message that went to quarantine may have been the oldest
		c.oldestFirst(got)
	}
	slices.SortFunc(got, byKey)
	slices.SortFunc(want, byKey)
	c.sameLines("what was claimed", c.renderClaims(got), c.renderClaims(want))
	c.t.Logf("  → %s", strings.Join(describe(want), ", "))
	for i := range want {
		c.keys[want[i].Key] = true
		c.claims = append(c.claims, &pairedLease{
			name: fmt.Sprintf("#%d", len(c.claims)), key: want[i].Key, until: want[i].Until,
			backend: got[i].Token, model: want[i].Token, delivered: idsOf(want[i].Messages),
		})
	}
}

func byKey(a, b store.Claim) int { return compareKeys(a.Key, b.Key) }

func compareKeys(a, b store.Key) int {
	return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Name, b.Name))
}

// giveBack makes the model hold what the backend got, and checks that the backend got
// as many as it could, and the oldest of each tenant and route.
func (c *comparison) giveBack(got, ready []store.Claim, most int) (want []store.Claim) {
	c.t.Helper()
	if len(got) != min(most, len(ready)) {
		c.t.Fatalf("claimed %v, want %d of %v", describe(got), most, describe(ready))
	}
	for i := range ready {
		r := &ready[i]
		if slices.ContainsFunc(got, func(g store.Claim) bool { return g.Key == r.Key }) {
			want = append(want, *r)
			continue
		}
		if err := c.model.Release(c.ctx, store.Release{Lease: r.Lease(), Uncounted: true}); err != nil {
			c.t.Fatalf("release: %v", err)
		}
		for _, g := range got {
			if sameLane(&g, r) && oldest(&g).After(oldest(r)) {
				c.t.Fatalf("%v was claimed and %v, which is older, was not", describe([]store.Claim{g}), describe([]store.Claim{*r}))
			}
		}
	}
	return want
}

// oldestFirst checks the order of claims of one tenant and route.
func (c *comparison) oldestFirst(claims []store.Claim) {
	c.t.Helper()
	for i := range claims {
		for j := range i {
			a, b := &claims[j], &claims[i]
			if sameLane(a, b) && oldest(a).After(oldest(b)) {
				c.t.Fatalf("%v comes before %v, which is older", describe([]store.Claim{*a}), describe([]store.Claim{*b}))
			}
		}
	}
}

func sameLane(a, b *store.Claim) bool { return a.Key.Tenant == b.Key.Tenant && a.Route == b.Route }

// oldest returns since when the first message of a claim is visible.
func oldest(c *store.Claim) (t time.Time) {
	if len(c.Messages) > 0 { // there must be one, and it is missed when claims are compared
		t = c.Messages[0].VisibleAt
	}
	return t
}

type renewal struct {
	leases []*pairedLease
	d      time.Duration
}

// renew renews some leases, live and lost.
func (c *comparison) renew(t *rapid.T) {
	r := draw(c, t, "renew", func(t *rapid.T) (renewal, string) {
		r := renewal{d: drawLength(t), leases: distinct(between(t, 1, 3, c.drawLease), func(l *pairedLease) string { return l.name })}
		return r, fmt.Sprintf("%s for %v", leaseNames(r.leases), r.d)
	})
	lost, want := c.renewBoth(r.d, r.leases)
	c.sameLines("what was lost", leaseTexts(lost), leaseTexts(want))
	c.t.Logf("  → lost: %s", leaseNames(want))
	for _, l := range r.leases {
		if until := c.now().Add(r.d); !slices.Contains(want, l) && until.After(l.until) {
			l.until = until
		}
	}
}

// renewBoth renews leases on both sides and returns those that each says are lost.
func (c *comparison) renewBoth(d time.Duration, leases []*pairedLease) (lost, want []*pairedLease) {
	c.t.Helper()
	var onBackend, onModel []store.Lease
	for _, l := range leases {
		onBackend, onModel = append(onBackend, l.onBackend()), append(onModel, l.onModel())
	}
	backendLost, err := c.backend.Store.Renew(c.ctx, d, onBackend)
	modelLost, wantErr := c.model.Renew(c.ctx, d, onModel)
	c.sameError("renew", err, wantErr)
	for i, l := range leases {
		if slices.Contains(backendLost, onBackend[i]) {
			lost = append(lost, l)
		}
		if slices.Contains(modelLost, onModel[i]) {
			want = append(want, l)
		}
	}
	if len(backendLost) != len(lost) {
		c.t.Fatalf("renew: %d leases are lost, and only %d of them were to be renewed", len(backendLost), len(lost))
	}
	return lost, want
}

func leaseTexts(leases []*pairedLease) []string {
	texts := make([]string, 0, len(leases))
	for _, l := range leases {
		texts = append(texts, l.text())
	}
	return texts
}

func leaseNames(leases []*pairedLease) string { return strings.Join(leaseTexts(leases), " ") }

func (l *pairedLease) text() string { return fmt.Sprintf("%v%s", l.key, l.name) }

type pairedRelease struct {
	store.Release
	lease *pairedLease
}

// release gives up a lease, live or lost.
func (c *comparison) release(t *rapid.T) {
	r := draw(c, t, "release", func(t *rapid.T) (pairedRelease, string) {
		r := pairedRelease{lease: c.drawLease(t)}
		r.After = rapid.SampledFrom([]time.Duration{0, time.Millisecond, 1500 * time.Microsecond, 2 * time.Second}).Draw(t, "after")
		r.Uncounted = rapid.Bool().Draw(t, "uncounted")
		return r, fmt.Sprintf("%s after %v, uncounted %v", r.lease.text(), r.After, r.Uncounted)
	})
	c.keys[r.lease.key] = true
	onBackend, onModel := r.Release, r.Release
	onBackend.Lease, onModel.Lease = r.lease.onBackend(), r.lease.onModel()
	got := c.backend.Store.Release(c.ctx, onBackend)
	want := c.model.Release(c.ctx, onModel)
	c.sameError("release", got, want)
	c.t.Logf("  → %s", errorKind(want))
}

// redrive puts a quarantined message back, if there was one. The record may be gone
// since it was seen.
func (c *comparison) redrive(t *rapid.T) {
	c.commitBoth(draw(c, t, "redrive", func(t *rapid.T) (pairedTx, string) {
		r := pickAny(t, c.past, store.Record{})
		if r.Key.Kind == "" {
			return pairedTx{}, "nothing"
		}
		tx, err := store.Redrive(r)
		if err != nil {
			c.t.Fatalf("redrive: %v", err)
		}
		p := pairedTx{Tx: *tx}
		return p, c.describeTx(p)
	}))
}
