package engine

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/backoff"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// pauseHolding waits before a claim is released whose messages must stay in order: were they
// released with a delay, those that arrive meanwhile would come before them.
func (e *Engine) pauseHolding(c *store.Claim) {
	_ = base.Sleep(e.claiming, e.clock, backoff.Jitter(2*time.Second, c.Key.Tenant+"/"+c.Key.Name, c.Attempt()))
}

// unreadable releases a claim on an instance whose record cannot be read. That counts: after
// as many deliveries as an instance survives its messages go to quarantine.
func (e *Engine) unreadable(c *store.Claim, about slog.Attr, why error) {
	if c.Attempt() < e.cfg.TurnAttempts {
		e.log.Warn("instance unreadable, claim released", about, "attempt", c.Attempt(), "error", why)
		e.pauseHolding(c)
		e.releaseAs(store.Release{Lease: c.Lease()})
		return
	}
	e.log.Error("instance unreadable, messages quarantined", about, "messages", len(c.Messages), "error", why)
	tx := store.Tx{Finish: []store.Finish{{Lease: c.Lease()}}}
	for i := range c.Messages {
		q := store.Quarantine(c.Messages[i], c.Route, ReasonUnreadable, c.Now)
		q.Record.Tags[store.TagError] = history.Cut(why.Error())
		tx.PutRecords = append(tx.PutRecords, q)
	}
	if err := e.store.Commit(e.working, &tx); err != nil {
		e.giveBack(c)
	}
}

// errAbandoned is the error of a turn whose code returned after the watchdog had stalled its
// instance.
var errAbandoned = errors.New("abide: the turn was given up")

// giveBack releases a claim at once. The delivery does not count as an attempt.
func (e *Engine) giveBack(c *store.Claim) { e.release(c, 0) }

// release releases a claim, to be claimed after a while. The delivery does not count as an attempt.
func (e *Engine) release(c *store.Claim, after time.Duration) {
	e.releaseAs(store.Release{Lease: c.Lease(), After: after, Uncounted: true})
}

func (e *Engine) releaseAs(r store.Release) {
	ctx, cancel := context.WithTimeout(context.Background(), e.cfg.LeaseDuration)
	defer cancel()
	if err := e.store.Release(ctx, r); err != nil && !expected(err) {
		e.log.Debug("claim not released, its lease expires", aboutKey(r.Lease.Key, ""), "error", err)
	}
}
