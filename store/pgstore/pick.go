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

// How far a pick looks.
const (
	// window is how many candidates there are at least: some are locked by others who pick
	// at the same moment.
	window = 32

	// maxSteps is how many tenants a pick asks whether they have something ready, if there
	// is more than it can take.
	maxSteps = 512

	// manyPartitions is how many partitions are looked into one by one. Of more, only those that have
	// pending messages.
	manyPartitions = 200

	// overLimit is how many messages of a key go to quarantine at once.
	overLimit = 1000

	// pickBytes is about how much a pick returns: keys that would be more are left for the
	// next one.
	pickBytes = 64 << 20

	// pickTries is how often a pick looks again that found nothing but what others hold at
	// that moment, and maxWindow is how many candidates it looks at then.
	pickTries = 100
	maxWindow = 4096
)

// errHeld is the error of a pick that met others each time.
var errHeld = errors.New("all that is ready is held by other transactions")

// Pick leases what is ready. If all that it found is held by others, it looks further, and
// then waits for one of them and looks again: what they hold may be ready when they let go
// of it, and a caller who is told that there is nothing believes it.
func (d *database) Pick(ctx context.Context, p *rows.Pick) (*rows.Picked, error) {
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
		if len(got.Keys) > 0 || !got.held.Valid {
			return &got.Picked, nil
		}
		if size < maxWindow {
			size *= 8
			continue
		}
		if err := d.awaitKey(ctx, got.held); err != nil {
			return nil, failed("pick", err)
		}
	}
	return nil, failed("pick", errHeld)
}

// keyWait is how long a pick waits for a key before it looks again: another one may have
// become ready.
const keyWait = 200 * time.Millisecond

// awaitKey waits until nobody holds a key, or for keyWait.
func (d *database) awaitKey(ctx context.Context, key pgtype.UUID) error {
	err := pgx.BeginFunc(ctx, d.others, func(tx pgx.Tx) error {
		b := &pgx.Batch{}
		b.Queue(fmt.Sprintf("SET LOCAL lock_timeout = %d", keyWait.Milliseconds()))
		b.Queue(d.text.waitForKey, key)
		return tx.SendBatch(ctx, b).Close()
	})
	d.demoted(err)
	if code(err) == codeLocked || isStale(err) {
		return nil // it is looked again
	}
	return err
}

// drain reads to the end.
func drain(r pgx.Rows) error {
	r.Close()
	return r.Err()
}

// picked is what a pick came to.
type picked struct {
	rows.Picked
	held     pgtype.UUID // a key that it could not get, if it got none
	excluded bool        // another process has the store for itself
}

// pickArgs returns the parameters of a pick with so many candidates.
func (d *database) pickArgs(p *rows.Pick, floor int64, size int) []any {
	return []any{
		floor, p.Partitions, p.Expiring, p.AfterTenant, p.Max, size, maxSteps, p.MaxMessages, p.MaxAttempts, p.Lease, p.Tokens,
		store.PageBytes, pickBytes, overLimit, len(p.Partitions) > manyPartitions, d.process, d.presence.gone.Milliseconds(),
	}
}

func (d *database) pickOnce(ctx context.Context, p *rows.Pick, size int) (*picked, error) {
	got := &picked{}
	q, floor := d.ask()
	// It is sent again only if nothing came back: then what it leased, if it did, is
	// nobody's, and can be claimed again when the lease is over.
	if err := d.read(ctx, d.text.pick, d.pickArgs(p, floor, size), func(r pgx.Rows) error { return got.read(r, p) }); err != nil {
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
func (got *picked) read(r pgx.Rows, p *rows.Pick) error {
	*got = picked{Picked: rows.Picked{LastTenant: p.AfterTenant}}
	var walked, n, turn, first, seq, count, logFirst, logLength, logTag pgtype.Int8
	var mSeq, mVisible, mPut, mTTL pgtype.Int8
	var mAttempt pgtype.Int4
	var over pgtype.Bool
	var id pgtype.UUID
	var queue, tenant, name, route, mID, body []byte
	into := []any{
		&got.Now, &got.excluded, &got.Next, &got.Expires, &got.held, &walked,
		&n, &turn, &id, &first, &seq, &count, &logFirst, &logLength, &logTag, &queue, &tenant, &name, &route,
		&mSeq, &mID, &mVisible, &mPut, &mTTL, &mAttempt, &body, &over,
	}
	_, err := pgx.ForEachRow(r, into, func() error {
		if !n.Valid {
			return nil
		}
		if int(n.Int64) > len(got.Keys) {
			got.Keys = append(got.Keys, rows.PickedKey{Row: rows.KeyRow{
				ID: id.Bytes, Key: store.Key{Queue: string(queue), Tenant: string(tenant), Name: string(name)}, Route: string(route),
				Seq: seq.Int64, Count: int(count.Int64), First: first.Int64,
				LogFirst: int(logFirst.Int64), LogLength: int(logLength.Int64), LogTag: uint64(logTag.Int64),
				Token: p.Tokens[n.Int64-1], Until: got.Now + p.Lease,
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
