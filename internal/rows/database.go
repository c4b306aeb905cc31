package rows

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/abidehq/abide/store"
)

// Database stores the rows. Its methods are called concurrently, under no lock of this package,
// except Hinted, Alone and Watch.
//
// Its clock is the only one. A method that returns the time returns none that is before one
// that was returned before the call, unless the clock was set back by more than
// [store.MaxClockLead].
type Database interface {
	// Update runs one transaction. It loads the rows that need names and that exist; calls
	// decide with the time and these rows; writes the changes; and returns when they are
	// durable. It may call decide again with more recent rows: the last changes are written.
	//
	// The changes must replace the rows that decide saw, and no others. Either Update locks the
	// rows when it loads them, keys in the order of their IDs, then records in the order of
	// theirs, so that two updates never wait for each other; or it checks, when it writes, that
	// they are still the same. It may use cached rows instead of loading them if it checks all
	// of them.
	//
	// Empty changes are not written, and a transaction that only read may end without a sync.
	// Update does not keep the slices of the changes: the bodies of messages belong to the
	// caller of a Claim once it has returned.
	//
	// An error that wraps ErrRetry says that nothing was changed because another transaction
	// interfered: the core calls Update again. One that wraps ErrRolledBack or store.ErrFull
	// says that nothing was changed. After any other error the outcome is unknown.
	Update(ctx context.Context, need *ReadSet, decide func(now int64, s *State) *Changes) error

	// LeaseReady leases keys that are ready, and returns them with their visible messages. The
	// leases need not be durable when it returns, if a crash loses them as a whole: then they
	// were never there. The messages that it returns must be durable.
	LeaseReady(ctx context.Context, p *LeaseRequest) (*LeaseResult, error)

	// NextDue returns, for each partition, the earliest KeyRow.At of its rows, leased or not: when
	// there may be something to pick. Never if there is no row.
	NextDue(ctx context.Context, partitions []int64) (now int64, at []int64, err error)

	// Expired returns up to limit messages, with their keys, of keys without a route
	// whose time to live has ended. It may return messages that have been routed or deleted
	// since: the operation that follows checks each of them.
	Expired(ctx context.Context, queue string, limit int) ([]Ref, []store.Key, error)

	// Record returns a durable record, or store.ErrNotFound.
	Record(ctx context.Context, key store.RecordKey) (store.Record, error)

	// Versions returns the durable versions of records, in the order of keys; 0 of records
	// that do not exist.
	Versions(ctx context.Context, keys []store.RecordKey) ([]int64, error)

	// Announce sends other processes hints of what has changed. It returns at once and may do
	// nothing. The backend of the other process passes the hint to [Core.Hint].
	Announce(a *Announcement)

	// Watch asks other processes to announce changes of the records with these numbers to this
	// one, for a minute at least. It returns at once and may do nothing.
	Watch(records []int64)

	// Process returns the number of this process among those that have the database open. 0 means
	// that no key is held or reserved.
	Process() int64

	// Present reports whether another process with this number has the database open, and
	// receives announcements, as far as is known.
	Present(process int64) bool

	// Hinted reports whether hints of other processes arrive at the moment. While they do not,
	// the core polls more often. It is called under locks: it must not block, nor call the
	// core.
	Hinted() bool

	// Alone reports whether no other process is known to have the database open. It is called
	// under locks: it must not block, nor call the core.
	Alone() bool
}

// ErrRetry is returned by Update if nothing was changed because another transaction changed a
// row first. The same update may succeed.
var ErrRetry = errors.New("another transaction came in between")

// ErrRolledBack is returned by Update if it is certain that nothing was changed.
var ErrRolledBack = errors.New("nothing was changed")

// ErrLocked is returned by Update if nothing was changed because another transaction held a
// row lock for longer than ReadSet.LockWait. Only a core with Options.Aside expects it.
var ErrLocked = fmt.Errorf("a row is locked by another transaction: %w", ErrRolledBack)

// ReadSet is the rows that a group of operations reads.
type ReadSet struct {
	Keys     []ID              // in order, each once; Changes name no other keys
	Names    []store.Key       // of the keys
	Messages []Ref             // in order, each once, without their bodies unless they are Bodies; not those kept in rows of keys
	Bodies   bool              // the messages are wanted with their bodies
	Records  []store.RecordKey // in order, each once; their versions

	// NewKeys and NewRecords say of each key and record whether its callers vouch that it does
	// not exist. A backend need not load those unless Fresh is set, if it returns ErrRetry for
	// an insert of one that exists.
	NewKeys    []bool
	NewRecords []bool

	// Fresh says that the update has failed before: rows must be loaded, not taken from a
	// cache, nor to be new.
	Fresh bool

	// LockWait is how long to wait for a row lock, on the connection of the side queue. Zero
	// means on a connection of groups, for as long as the backend lets groups wait: a few
	// hundred milliseconds at most.
	LockWait time.Duration
}

// State is the rows of a ReadSet that exist. decide must not change it: its
// rows may be shared with a cache.
type State struct {
	Keys     map[ID]*KeyRow
	Messages map[Ref]*MessageRow
	Records  map[store.RecordKey]int64
}

// Changes is what an Update writes: its write set. Its messages are those that have rows of
// their own; a message that is kept in the row of its key is written with that.
//
// Changes are applied in the order of the fields, so that a message that is consumed can be
// put again under its ID. A row is named by one list at most, except where a list says
// otherwise. Each key whose messages or entries change is in Insert, Update or Delete too, so
// that a check of the rows of keys covers everything that belongs to them.
type Changes struct {
	// Wipe are keys whose stored messages and entries are all deleted.
	Wipe []ID

	// Raise moves stored messages of a key that are visible before a time to that time.
	Raise []Raise

	// Remove deletes stored messages, Count adds one to their attempts, Move changes when
	// they are visible. A message may be in several of them, once in each; Count and Move
	// ignore one that was removed.
	Remove []Seqs
	Count  []Seqs
	Move   []Move

	// Put are new messages.
	Put []MessageRow

	// Trim deletes entries; Append adds some.
	Trim   []Trim
	Append []Entries

	// Insert, Update and Delete are of rows of keys.
	Insert []*KeyRow
	Update []*KeyRow
	Delete []ID

	// Refresh are keys, inserted or updated, whose First covers only Inline and messages that
	// were put, because the other rows of messages were not loaded. After all other changes,
	// First is to be lowered to that of these rows: the least Visible if the key has a route,
	// the least end of a time to live otherwise.
	Refresh []ID

	// InsertRecords and UpdateRecords have the version that they get.
	InsertRecords []store.Record
	UpdateRecords []store.Record
	DeleteRecords []store.RecordKey

	// UpsertRecords are inserted with version 1, or replace the stored record with the next
	// version. They were not loaded.
	UpsertRecords []store.Record

	// Tally is the change of the number of pending messages of partitions.
	Tally []Tally
}

// Raise makes the messages of a key that are visible before a time visible at it.
type Raise struct {
	Key     ID
	Visible int64
}

// Seqs names messages of a key by their numbers.
type Seqs struct {
	Key  ID
	Seqs []int64
}

// Move makes a message visible at another time.
type Move struct {
	Key     ID
	Seq     int64
	Visible int64
}

// Trim deletes entries of a log that come before an index.
type Trim struct {
	Key    ID
	Before int
}

// Entries are appended to a log at an index.
type Entries struct {
	Key     ID
	At      int
	Entries [][]byte
}

// Tally is the change of the number of pending messages of a partition.
type Tally struct {
	Queue     string
	Route     string
	Partition int64
	More      int
}

// LeaseRequest is a request to lease keys that are ready: their first message is visible, and they
// have no live lease. Tenants take turns, and of a tenant the oldest message comes first.
type LeaseRequest struct {
	Queue string

	// Partitions to lease keys of, and Expiring, the partition of the queue's keys without a
	// route.
	Partitions []int64
	Expiring   int64

	// Tenants are the numbers of the tenants whose keys are leased (TenantOf), in order; nil means
	// all. Leases of others that have ended may be ended on the way, and their attempts counted.
	// Finding another tenant with the number of a given one takes 2⁶⁴ tries.
	Tenants []int64

	// AfterTenant is the number of the tenant that came last (TenantOf): those after it come
	// first.
	AfterTenant int64

	Max         int
	MaxMessages int
	MaxAttempts int   // 0 means no limit
	Lease       int64 // milliseconds

	// Tokens of the leases; Max of them.
	Tokens []string

	// Reserved are keys of the partitions that may be reserved for this process. Those that are
	// count as ready.
	Reserved []ID
}

// LeaseResult is what was leased.
type LeaseResult struct {
	Now  int64
	Keys []LeasedKey

	// LastTenant is AfterTenant of the next LeaseReady.
	LastTenant int64

	// Next is the earliest At of the rows in the partitions that were not picked, leased or
	// not, and, unless they are leased, of one of the tenants; 0 if there may be more to pick at once. If nothing was picked and it is not later
	// than Now, because others had locked what is ready, the core asks again a millisecond
	// later.
	Next int64

	// Expires is the earliest At in the partition Expiring: when the next time to live ends.
	Expires int64
}

// LeasedKey is a key that was leased. If it had an expired lease, LeaseReady has counted the
// attempts of that in the rows of its messages.
type LeasedKey struct {
	Row KeyRow // as it is now

	// Messages are delivered, in order. The attempt of the new lease is not counted in them.
	// Their bodies belong to the core.
	Messages []MessageRow

	// Exhausted are visible messages that were not delivered because they have been delivered
	// MaxAttempts times. They do not count towards MaxMessages.
	Exhausted []MessageRow
}
