package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/abidehq/abide/internal/rows"
	"github.com/abidehq/abide/store"
)

// Limits of a pick.
const (
	// window is the least number of candidates: some are locked by picks of other processes at
	// the same moment.
	window = 32

	// maxSteps is how many tenants a pick visits in turn, if more is ready than it takes.
	maxSteps = 512

	// manyPartitions is how many partitions are visited one by one. Of more, only those with
	// pending messages are.
	manyPartitions = 200

	// overLimit is how many exhausted messages of a key are returned at once.
	overLimit = 1000

	// pickBytes is about how many bytes of messages a pick returns; further keys are left for
	// the next one.
	pickBytes = 64 << 20

	// pickTries is how often a pick is repeated that found only keys which others had locked,
	// and maxWindow is how many candidates it grows to.
	pickTries = 100
	maxWindow = 4096
)

// errHeld is the error of a pick that found only locked keys each time.
var errHeld = errors.New("all that is ready is held by other transactions")

// LeaseReady leases keys that are ready, in one statement, which skips keys that other transactions have
// locked. If it finds only locked keys, it is repeated with more candidates, and then after
// waiting for one of the locks: such a key may be ready when its lock is released, and none must
// mean that nothing was ready, not that a race was lost. The leases are not synced: if the server
// crashes they are lost, and nobody acts on a lease that was lost, since its token fences.
func (d *database) LeaseReady(ctx context.Context, p *rows.LeaseRequest) (*rows.LeaseResult, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	size := 2*p.Max + window
	for range pickTries {
		got, err := d.pickOnce(ctx, p, size)
		if slices.Contains(codesRetry, code(err)) {
			continue // it was chosen to end a deadlock with an update
		}
		if err != nil {
			return nil, failed("pick", err)
		}
		// A limited one that leased nothing, and has not seen all leases that have ended, has ended
		// some of other tenants.
		unseen := p.Tenants != nil && got.Next == 0
		if len(got.Keys) > 0 || !got.held.Valid && !unseen {
			return &got.LeaseResult, nil
		}
		if size < maxWindow {
			size *= 8
			continue
		}
		if !got.held.Valid {
			continue
		}
		if err := d.awaitKey(ctx, got.held); err != nil {
			return nil, failed("pick", err)
		}
	}
	return nil, failed("pick", errHeld)
}

// keyWait is how long a pick waits for the lock of a key: another key may become ready meanwhile.
const keyWait = 200 * time.Millisecond

// awaitKey waits until the lock of a key is released, for at most keyWait.
func (d *database) awaitKey(ctx context.Context, key pgtype.UUID) error {
	err := pgx.BeginFunc(ctx, d.others, func(tx pgx.Tx) error {
		b := &pgx.Batch{}
		b.Queue(fmt.Sprintf("SET LOCAL lock_timeout = %d", keyWait.Milliseconds()))
		b.Queue(d.text.sql(waitForKey), key)
		return tx.SendBatch(ctx, b).Close()
	})
	d.demoted(err)
	if code(err) == codeLocked || isStale(err) {
		return nil // the pick is repeated
	}
	return err
}

// drain discards the rows of a statement.
func drain(r pgx.Rows) error {
	r.Close()
	return r.Err()
}

// picked is the result of a pick.
type picked struct {
	rows.LeaseResult
	held     pgtype.UUID // a key that was locked, if none was leased
	excluded bool        // another process has excluded this one
}

// pickArgs returns the parameters of a pick with so many candidates.
func (d *database) pickArgs(p *rows.LeaseRequest, floor int64, size int) []any {
	steps := any(maxSteps)
	if p.Tenants != nil {
		steps = p.Tenants
	}
	return []any{
		floor, p.Partitions, p.Expiring, p.AfterTenant, p.Max, size, steps, p.MaxMessages, p.MaxAttempts, p.Lease, p.Tokens,
		store.PageBytes, pickBytes, overLimit, len(p.Partitions) > manyPartitions, d.process, d.presence.gone.Milliseconds(),
		uuids(p.Reserved), rows.ReservedFor(d.number),
	}
}

func (d *database) pickOnce(ctx context.Context, p *rows.LeaseRequest, size int) (*picked, error) {
	got := &picked{}
	q, floor := d.ask()
	text := pickKeys
	if p.Tenants != nil {
		text = pickLimited
	}
	// It is sent again only if nothing came back: then what it leased, if it did, is
	// nobody's, and can be claimed again when the lease is over.
	if err := d.read(ctx, d.text.sql(text), d.pickArgs(p, floor, size), func(r pgx.Rows) error { return got.read(r, p) }); err != nil {
		return nil, err
	}
	if got.excluded {
		return nil, errExcluded
	}
	got.Now = d.answer(q, got.Now)
	d.cache.picked(got.Keys)
	return got, nil
}

// read reads the rows of a pick: one for each message, with the names of its key in the
// first of them; or a single one with neither.
func (got *picked) read(r pgx.Rows, p *rows.LeaseRequest) error {
	*got = picked{LeaseResult: rows.LeaseResult{LastTenant: p.AfterTenant}}
	var walked, n, turn, first, seq, count, logFirst, logLength, logTag, holder pgtype.Int8
	var mSeq, mVisible, mPut, mTTL pgtype.Int8
	var mAttempt pgtype.Int4
	var over pgtype.Bool
	var id pgtype.UUID
	var queue, tenant, name, route, mID, body []byte
	into := []any{
		&got.Now, &got.excluded, &got.Next, &got.Expires, &got.held, &walked,
		&n, &turn, &id, &first, &seq, &count, &logFirst, &logLength, &logTag, &holder, &queue, &tenant, &name, &route,
		&mSeq, &mID, &mVisible, &mPut, &mTTL, &mAttempt, &body, &over,
	}
	_, err := pgx.ForEachRow(r, into, func() error {
		if !n.Valid {
			return nil
		}
		if int(n.Int64) > len(got.Keys) {
			got.Keys = append(got.Keys, rows.LeasedKey{Row: rows.KeyRow{
				ID: id.Bytes, Key: store.Key{Queue: string(queue), Tenant: string(tenant), Name: string(name)}, Route: string(route),
				Seq: seq.Int64, Count: int(count.Int64), First: first.Int64,
				LogFirst: int(logFirst.Int64), LogLength: int(logLength.Int64), LogTag: uint64(logTag.Int64),
				Token: p.Tokens[n.Int64-1], Until: got.Now + p.Lease, Holder: holder.Int64,
			}})
			got.LastTenant = turn.Int64
		}
		if !mSeq.Valid {
			return nil
		}
		k := &got.Keys[len(got.Keys)-1]
		m := rows.MessageRow{
			Key: id.Bytes, Seq: mSeq.Int64, ID: string(mID), Visible: mVisible.Int64, Put: mPut.Int64, TTL: mTTL.Int64,
			Attempt: int(mAttempt.Int32), Body: body,
		}
		body = nil // the next one gets bytes of its own
		if over.Bool {
			k.Exhausted = append(k.Exhausted, m)
			return nil
		}
		k.Messages = append(k.Messages, m)
		k.Row.Delivered = append(k.Row.Delivered, m.Seq)
		return nil
	})
	if walked.Valid {
		got.LastTenant = walked.Int64
	}
	return err
}
