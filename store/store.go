package store

import (
	"context"
	"time"
)

// Store keeps queues, logs and records. All methods are safe for concurrent use.
//
// A store does not keep or change slices that it is given, and the slices that
// it returns are the caller's.
//
// After Close every method returns [ErrClosed]. Errors that match none of this
// package's sentinels are the backend's own (a lost connection, a broken disk):
// after one from Commit or Release the outcome is unknown, and the caller finds
// out by reading or by trying again.
type Store interface {
	// Commit applies everything in tx, or nothing, and returns when it is
	// durable.
	//
	// It returns [ErrClaimLost] if a claim in tx.Finish is no longer live,
	// [ErrConflict] if a log's length or a record's version is not the expected
	// one, and [ErrInvalid] or [ErrTooLarge] if tx breaks a rule of [Tx]; then
	// nothing has changed. It returns [ErrFull] if there is no room; then nothing
	// has changed either. If ctx ends first, Commit returns its error and the
	// outcome is unknown.
	//
	// An empty Tx is valid and does nothing.
	Commit(ctx context.Context, tx *Tx) error

	// Claim leases up to req.Max keys that are ready: they have a visible message,
	// are not leased, have a route in req.Routes and, if req.Tenants is not nil, are of one
	// of these tenants. Keys that do not qualify are not touched. With each key come its visible messages.
	//
	// If none is ready, Claim waits until one is, but no longer than req.Wait; then
	// it returns no claims and no error. It never returns none while a key that
	// qualifies is ready. If ctx ends while it waits, Claim returns ctx's error.
	//
	// A message that was already delivered req.MaxAttempts times is not delivered
	// again: it goes to quarantine, with the reason [ReasonAttempts].
	Claim(ctx context.Context, req ClaimRequest) ([]Claim, error)

	// Renew makes each of the leases last for d from now, and returns those that
	// are no longer live and were not renewed. It never shortens a lease. If only some
	// could be renewed, the error is a [*NotRenewedError] that names the others, and lost
	// is returned with it.
	Renew(ctx context.Context, d time.Duration, leases []Lease) (lost []Lease, err error)

	// Release ends a lease without consuming anything. The delivered messages
	// become visible again, at once or after r.After, and keep the attempt that was
	// counted when they were claimed unless r.Uncounted is set. A release with a
	// delay is durable when Release returns. It returns [ErrClaimLost] if the lease
	// is no longer live, and [ErrFull] if there is no room to note a delay.
	Release(ctx context.Context, r Release) error

	// ReadLog returns entries of a key's log, starting at index from. It returns as
	// many as fit in [LogPageBytes], but at least one if there is one: a caller
	// that wants more continues where the page ends, as [Entries] does. A log
	// that does not exist has length 0, and reading it is not an error.
	ReadLog(ctx context.Context, key Key, from int) (LogPage, error)

	// Pending returns the messages of a key that were put and not yet consumed,
	// deleted or quarantined, visible or not, delivered or not, in the order of
	// delivery; limit of them at most, [MaxPage] if limit is 0, and no more than fit in
	// [PageBytes].
	Pending(ctx context.Context, key Key, limit int) ([]Message, error)

	// Leases returns live leases that match q, in the order of their ends: those of a
	// claimer that renews them no more come first. It returns none and no error if there
	// are none. One of a key costs a look at the key, others cost by how many leases there
	// are.
	Leases(ctx context.Context, q LeaseQuery) ([]LeaseInfo, error)

	// Get returns a record, or [ErrNotFound].
	Get(ctx context.Context, key RecordKey) (Record, error)

	// List returns records that match q, in the order of their Time and, where that
	// is the same, in an order that does not change. A record that matches q
	// throughout, and whose Time does not change, is returned exactly once by a walk
	// along the cursors, whatever else is put or deleted meanwhile.
	List(ctx context.Context, q Query) (Page, error)

	// Count returns how many records match q, or limit if there are more. It stops
	// there, so that it costs no more to ask whether there are too many; limit is 1 to
	// [MaxCount]. A filter by Names or Tags may cost a look at each record, the others
	// do not. The number is that of one moment: a commit meanwhile is counted as a whole
	// or not at all. It returns [ErrInvalid] if q says how to page: Limit, Cursor and
	// Descending must not be set.
	Count(ctx context.Context, q Query, limit int) (int, error)

	// Await returns the record as soon as its version is greater than after: at
	// once if it is so already. With after 0 it waits for the record to be put.
	// With after > 0 it returns [ErrNotFound] when the record is, or is then,
	// deleted; one that is put again before anybody looks is waited for. If ctx ends
	// first, Await returns its error.
	Await(ctx context.Context, key RecordKey, after int64) (Record, error)

	// Stats returns what the store holds. It is cheap enough to be called every few
	// seconds, whatever the store holds. If ctx ends first, it returns ctx's error.
	Stats(ctx context.Context) (Stats, error)

	// Limits returns what a commit, and a value in it, may hold: [ContractLimits], or less if the
	// database that the store is on takes less, but not less than [LeastLimits]. It is the same
	// for as long as the store is open.
	Limits() Limits

	// Close ends waiting calls with [ErrClosed], waits for commits under way, and
	// gives back what the store holds. Closing twice is fine.
	Close() error
}
