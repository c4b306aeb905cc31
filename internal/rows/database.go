package rows

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/abidehq/abide/store"
)

// Database keeps the rows.
//
// Its clock is the only one. Every method that returns the time returns one that is not
// before any that it returned before it was called, unless the clock was set back by more
// than [store.MaxClockLead].
type Database interface {
	// Update runs one transaction. It loads the rows that need names and that exist; calls
	// decide with the time and with what it loaded; writes the changes, and returns when
	// they are durable. It may call decide again, with rows that are more recent: the last
	// changes are the ones to write. What it writes is written over what it loaded, and over
	// nothing else: it locks the rows when it loads them, keys in the order of their IDs,
	// then records in the order of theirs, so that two updates never wait for each other;
	// or it checks when it writes that they are still the same. Instead of loading rows it may
	// take them to be as it wrote them last, if it does check all of them. Changes that are empty are
	// not written, and a transaction that only read may end without a sync. It does not keep
	// the slices of the changes: bodies of messages are somebody's when it has returned.
	//
	// An error that wraps ErrRetry says that nothing was changed because another
	// transaction came in between: the frame calls Update again. One that wraps ErrRolledBack
	// says that nothing was changed for certain; store.ErrFull says so too. After any other
	// error the outcome is unknown.
	Update(ctx context.Context, need *Need, decide func(now int64, s *State) *Changes) error

	// Pick leases keys that are ready, and returns them with what is visible. What it
	// writes need not be durable when it returns, if a crash loses it as a whole: then the
	// lease was never there. But what it returns must be.
	Pick(ctx context.Context, p *Pick) (*Picked, error)

	// Look returns, for each partition, the earliest At of its rows, leased or not: when there
	// may be something to pick. Never if there is none.
	Look(ctx context.Context, partitions []int64) (now int64, at []int64, err error)

	// Expired returns up to limit messages, with their keys, of keys without a route
	// whose time to live has ended. It may return too many keys' worth: they are looked at
	// again under lock.
	Expired(ctx context.Context, queue string, limit int) ([]Ref, []store.Key, error)

	// Record returns a record, or store.ErrNotFound. It is durable.
	Record(ctx context.Context, key store.RecordKey) (store.Record, error)

	// Versions returns the versions of records, 0 of those that do not exist. They are
	// durable.
	Versions(ctx context.Context, keys []store.RecordKey) ([]int64, error)

	// Announce tells other processes that there is something to claim in these partitions, at
	// these times, and that the records with these numbers have changed. It returns at once
	// and may do nothing: it is a hint. Others learn of it through [Frame.Hint].
	Announce(partitions map[int64]int64, records []int64)

	// Hinted reports whether hints of other processes arrive at the moment. While they do
	// not, the frame looks much more often. It must not call the frame.
	Hinted() bool

	// Alone reports whether no other process has the database open, as far as is known. It
	// must not call the frame.
	Alone() bool
}

// ErrRetry is returned by Update if it is to be called again.
var ErrRetry = errors.New("another transaction came in between")

// ErrRolledBack is returned by Update if nothing was changed, for certain.
var ErrRolledBack = errors.New("nothing was changed")

// ErrLocked is returned by Update if nothing was changed because another transaction had
// locked a row for longer than the update was to wait.
var ErrLocked = fmt.Errorf("a row is locked by another transaction: %w", ErrRolledBack)

// Need is what a group of operations must know.
type Need struct {
	Keys     []ID              // in order, each once; Changes name no other keys
	Names    []store.Key       // of the keys
	Messages []Ref             // in order, each once, without their bodies unless they are Bodies; not those kept in rows of keys
	Bodies   bool              // the messages are wanted with their bodies
	Records  []store.RecordKey // in order, each once; their versions

	// Fresh says that the update was tried before, in vain: nothing is to be taken to be as
	// it was last known to be.
	Fresh bool

	// LockWait is how long to wait for a row that another transaction has locked, on the
	// connection that is kept for that. Zero means as long as groups of commits wait, on one
	// of theirs: a few hundred milliseconds at most.
	LockWait time.Duration
}

// State is what there is of what is needed. What is missing does not exist.
type State struct {
	Keys     map[ID]*KeyRow
	Messages map[Ref]*MessageRow
	Records  map[store.RecordKey]int64
}

// Changes is what an Update writes. Its messages are those that have rows of their own: one
// that is kept in the row of its key is written with that. It is applied in the order of
// the fields, so that a message which is consumed can be put again under its ID, and each
// row is named by one list at most, except where a list says otherwise. Each key whose messages or entries
// change in any way is in Insert, Update or Delete too.
type Changes struct {
	// Wipe are keys of which all messages and entries that are stored are deleted.
	Wipe []ID

	// Raise makes messages that are stored and visible earlier visible at that time.
	Raise []Raise

	// Remove deletes stored messages, Count adds one to their attempts, Move changes
	// when they are visible. A message may be in several of them, once in each; one that was
	// removed is not there any more, which is fine.
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

	// Refresh are keys, inserted or updated, whose First is known only as far as it is that
	// of what is Inline or was put: it is to be lowered, after all else, to that of their
	// rows of messages: the least Visible if the key has a route, the least end of a time to
	// live otherwise.
	Refresh []ID

	// InsertRecords and UpdateRecords have the version that they get.
	InsertRecords []store.Record
	UpdateRecords []store.Record
	DeleteRecords []store.RecordKey

	// UpsertRecords are put whether they are there or not: their version is 1, or one more
	// than the one that is stored. They were not loaded.
	UpsertRecords []store.Record

	// Tally is how many more messages are pending in partitions.
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

// Tally is how many more messages, or fewer, are pending for a route.
type Tally struct {
	Queue     string
	Route     string
	Partition int64
	More      int
}

// Pick says what to lease.
type Pick struct {
	Queue string

	// Partitions that are wanted, and Expiring, the partition of the queue's keys without a route.
	Partitions []int64
	Expiring   int64

	// Turn is the tenant whose turn it was last: those after it come first.
	AfterTenant int64

	Max         int
	MaxMessages int
	MaxAttempts int   // 0 is without end
	Lease       int64 // milliseconds

	// Tokens for the leases; Max of them.
	Tokens []string
}

// Picked is what was leased.
type Picked struct {
	Now  int64
	Keys []PickedKey

	// Turn is that of the next Pick.
	LastTenant int64

	// Next is the earliest At of rows in the partitions that were not picked, leased or not; 0 if
	// there may be more to pick at once. If nothing was picked and it is not later than Now,
	// the frame looks again a millisecond later.
	Next int64

	// Expires is the earliest At in the partition Expiring: when a message's time to live ends.
	Expires int64
}

// PickedKey is a key that was leased. A lease that it had had before was over: its
// attempts were counted in the rows of its messages by Pick.
type PickedKey struct {
	Row KeyRow // as it is now

	// Messages were delivered, in order, as their rows are: the attempt of the new lease
	// is not counted in them. Their bodies are the caller's.
	Messages []MessageRow

	// Over are visible messages that were not delivered because they had been delivered
	// MaxAttempts times. They do not count as one of MaxMessages.
	Exhausted []MessageRow
}
