package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/abidehq/abide/internal/rows"
	"github.com/abidehq/abide/store"
)

// WithTx returns a context with which calls are part of a transaction of the caller's own,
// in the database that the store is in:
//
//	tx, err := pool.Begin(ctx)
//	…
//	defer tx.Rollback(ctx)
//	_, err = tx.Exec(ctx, "INSERT INTO orders …")
//	…
//	_, err = fulfil.Start(pgstore.WithTx(ctx, tx), engine, order)
//	…
//	err = tx.Commit(ctx)
//
// The order and the instance that fulfils it are there together, or neither of them is.
// So it is with all that is put by a commit of the store: an instance is started, an event
// raised, a timer scheduled or cancelled, an action added. What is read with that context
// is read in the transaction, which sees what it wrote itself. Waiting calls are
// woken when the transaction is committed.
//
// A call that fails, because an instance exists already, say, leaves the transaction as it
// was before: it can go on. Keep it short. What it has touched is locked until it ends:
// turns of the same instance wait for it, and claims pass it by. Its time is that of the
// call and not of the commit: a message for now is visible as soon as the transaction is
// committed.
//
// Calls that wait or hold a lease (Claim, Renew, Release, Await) have no place in a
// transaction, and return [store.ErrInvalid]. So a result is awaited with another context,
// after the commit. The transaction may be used by one goroutine at a time, as always.
func WithTx(ctx context.Context, tx pgx.Tx) context.Context {
	return store.WithTransaction(ctx, tx)
}

// txOf returns the caller's transaction, or nil.
func txOf(ctx context.Context) pgx.Tx {
	tx, _ := store.TransactionOf(ctx).(pgx.Tx)
	return tx
}

// Commit applies tx: in a transaction of the caller's own, if ctx is of [WithTx].
func (s *Store) Commit(ctx context.Context, tx *store.Tx) error {
	caller := txOf(ctx)
	if caller == nil {
		return s.Core.Commit(ctx, tx)
	}
	if err := s.Check(ctx, "commit"); err != nil {
		return err
	}
	partitions, records, err := rows.CommitAlone(ctx, tx, func(ctx context.Context, need *rows.ReadSet, decide func(int64, *rows.State) *rows.Changes) error {
		return s.db.updateIn(ctx, caller, need, decide)
	})
	if err != nil || !s.db.config.notify {
		return err
	}
	return s.db.notifyIn(ctx, caller, partitions, records)
}

// txTries is how often what is done inside a caller's transaction, or for a move, is tried if another
// transaction comes in between.
const txTries = 10

// withinCaller returns what statements in a transaction of the caller's are sent to.
func (d *database) withinCaller(tx pgx.Tx) sender {
	if !d.config.pooler {
		return tx
	}
	return plainSender{tx, d.text}
}

// updateIn is Update inside a transaction of the caller's: behind a savepoint, so that what
// fails leaves the transaction as it was.
func (d *database) updateIn(ctx context.Context, caller pgx.Tx, need *rows.ReadSet, decide func(int64, *rows.State) *rows.Changes) error {
	if err := d.fit(); err != nil {
		return rolledBack(err)
	}
	for try := 1; ; try++ {
		err := d.tryIn(ctx, caller, need, decide)
		if !isRetry(err) || try == txTries {
			return err
		}
	}
}

func (d *database) tryIn(ctx context.Context, caller pgx.Tx, need *rows.ReadSet, decide func(int64, *rows.State) *rows.Changes) (err error) {
	inner, err := caller.Begin(ctx)
	if err != nil {
		return fmt.Errorf("pgstore: commit in a transaction: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(rolledBack(err), inner.Rollback(ctx))
		}
	}()
	to := d.withinCaller(inner)
	l, err := d.load(ctx, to, nil, need, loading{lock: true})
	if err != nil {
		return err
	}
	changes := decide(l.now, l.state)
	b := &pgx.Batch{}
	if w := d.write(b, changes, l); w.err != nil {
		return w.err
	}
	if b.Len() > 0 {
		if err := to.SendBatch(ctx, b).Close(); err != nil {
			return err
		}
	}
	return inner.Commit(ctx)
}

// fromCallers is who notifies in a transaction that is not ours: nobody's process, so that
// ours listens too.
const fromCallers = "-"

// notifyIn has everybody told when the caller's transaction is committed.
func (d *database) notifyIn(ctx context.Context, caller pgx.Tx, partitions map[int64]int64, records []int64) error {
	c := newContents()
	c.due = partitions
	for _, number := range records {
		c.records[number] = true
	}
	if c.empty() {
		return nil
	}
	payloads := c.encode(fromCallers, maxNotifications)
	channels := slices.Repeat([]string{channel(d.config.schema)}, len(payloads))
	_, err := caller.Exec(ctx, notify, channels, payloads)
	if err != nil {
		return fmt.Errorf("pgstore: commit in a transaction: %w", err)
	}
	return nil
}

// inTx returns the error of a call that has no place in a transaction.
func inTx(ctx context.Context, verb string) error {
	if txOf(ctx) == nil {
		return nil
	}
	return fmt.Errorf("store: %s: it has no place in a transaction of the caller's (WithTx): use another context: %w", verb, store.ErrInvalid)
}

// Claim leases keys that are ready.
func (s *Store) Claim(ctx context.Context, req store.ClaimRequest) ([]store.Claim, error) {
	if err := inTx(ctx, "claim"); err != nil {
		return nil, err
	}
	return s.Core.Claim(ctx, req)
}

// Renew makes leases last longer.
func (s *Store) Renew(ctx context.Context, d time.Duration, leases []store.Lease) ([]store.Lease, error) {
	if err := inTx(ctx, "renew"); err != nil {
		return nil, err
	}
	return s.Core.Renew(ctx, d, leases)
}

// Release gives up a lease.
func (s *Store) Release(ctx context.Context, r store.Release) error {
	if err := inTx(ctx, "release"); err != nil {
		return err
	}
	return s.Core.Release(ctx, r)
}

// Await returns a record as soon as its version is greater than after.
func (s *Store) Await(ctx context.Context, key store.RecordKey, after int64) (store.Record, error) {
	if err := inTx(ctx, "await"); err != nil {
		return store.Record{}, err
	}
	return s.Core.Await(ctx, key, after)
}
