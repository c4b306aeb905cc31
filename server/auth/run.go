package auth

import (
	"context"
	"errors"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/sweep"
	"github.com/abidehq/abide/store"
)

// Run removes what is kept no longer: sessions that have ended, tokens that have long
// expired, and old parts of the audit log. It returns nil when ctx ends, and an error when
// the store is closed or has failed. Everything else works without it.
func (g *Guard) Run(ctx context.Context) error {
	var tokensAt time.Time
	for {
		err := g.sweep(ctx)
		if now := g.clock.Now(); err == nil && !now.Before(tokensAt) {
			tokensAt = now.Add(tokenSweep)
			err = g.sweepTokens(ctx)
		}
		switch {
		case ended(ctx):
			return nil
		case errors.Is(err, store.ErrClosed), errors.Is(err, store.ErrFailed):
			return wrap("run", err)
		case err != nil:
			g.log.Error("expired sessions and audit entries not removed", "error", err)
		}
		_ = base.Sleep(ctx, g.clock, sweepEvery) // the error is that of ctx
	}
}

func ended(ctx context.Context) bool { return ctx.Err() != nil }

// Sweep removes what Run removes, once, but for tokens: for those who write to the audit log and
// do not run.
func (g *Guard) Sweep(ctx context.Context) error { return wrap("sweep", g.sweep(ctx)) }

// sweep removes what has ended, in small commits.
func (g *Guard) sweep(ctx context.Context) error {
	now := g.now(ctx)
	for _, kind := range []string{kindSession, kindLogin} {
		n, err := sweep.Records(ctx, g.store, store.Query{Kind: kind, To: now, Limit: sweepBatch}, nil)
		if err != nil {
			return err
		}
		if n > 0 {
			g.log.Debug("expired sessions and audit entries removed", "kind", kind, "records", n)
		}
	}
	if g.cfg.AuditRetention < 0 {
		return nil
	}
	return g.sweepAudit(ctx, now.Add(-g.cfg.AuditRetention))
}

// sweepAudit removes the logs of which all entries are older.
func (g *Guard) sweepAudit(ctx context.Context, before time.Time) error {
	q := store.Query{Kind: kindAudit, Tenant: new(""), To: before, Limit: auditSteps}
	for {
		page, err := g.store.List(ctx, q)
		if err != nil {
			return err
		}
		tx := &store.Tx{}
		for _, rec := range page.Records {
			tx.DeleteKeys = append(tx.DeleteKeys, auditKey(rec.Key.ID))
			tx.DeleteRecords = append(tx.DeleteRecords, store.DeleteRecord{Key: rec.Key, Expect: store.AnyVersion})
		}
		if err := g.store.Commit(ctx, tx); err != nil {
			return err
		}
		if page.Next == "" {
			return nil
		}
		q.Cursor = page.Next
	}
}

// sweepTokens removes tokens that have long expired.
func (g *Guard) sweepTokens(ctx context.Context) error {
	before := g.now(ctx).Add(-ExpiredTokenLife)
	q := store.Query{Kind: kindToken, Tenant: new(""), Limit: sweepBatch}
	for {
		page, err := g.store.List(ctx, q)
		if err != nil {
			return err
		}
		tx := &store.Tx{}
		for _, rec := range page.Records {
			t, err := parseToken(rec)
			if err != nil {
				g.log.Error("token unreadable", "error", err)
				continue
			}
			if !t.Expires.IsZero() && t.Expires.Before(before) {
				tx.DeleteRecords = append(tx.DeleteRecords, store.DeleteRecord{Key: rec.Key, Expect: store.AnyVersion})
			}
		}
		if err := g.store.Commit(ctx, tx); err != nil {
			return err
		}
		if page.Next == "" {
			return nil
		}
		q.Cursor = page.Next
	}
}
