package store

import "time"

// Tx is what a commit does. It takes effect in the order of its fields, whatever
// the order in which a caller filled them in:
//
//   - Claims are finished first, so that a consumed message's ID can be put again.
//   - Keys are deleted before anything is put to them, so that a Tx can replace a
//     key by a fresh one.
//   - Messages are put before they are re-timed, and re-timed before they are
//     deleted, so that scheduling and cancelling in one Tx is a no-op.
//
// The versions of records and the lengths of logs are checked against what the
// store held before the Tx, except that a deleted key's log has length 0.
//
// A Tx must not finish a lease twice, append to a log twice, or put or delete a
// record twice.
type Tx struct {
	Finish     []Finish
	DeleteKeys []Key
	Trim       []Trim
	Append     []Append
	Put        []Message
	Retime     []Retime
	Delete     []MessageRef

	PutRecords    []PutRecord
	DeleteRecords []DeleteRecord
}

// Finish ends a lease and consumes the messages that were delivered with it.
type Finish struct {
	Lease Lease

	// Keep names delivered messages that are not consumed: they stay pending, and
	// can be claimed again at once. Names that were not delivered are ignored.
	Keep []string
}

// Trim removes the entries of a log whose index is less than Before. The length
// of the log stays as it is. Trimming what is not there is a no-op; a Before
// greater than the log's length, before the Tx appends to it, is [ErrConflict].
type Trim struct {
	Key    Key
	Before int
}

// Append adds entries to the end of a key's log.
type Append struct {
	Key Key

	// At is the length that the log must have.
	At int

	// Tag is kept with a log that this append begins, for as long as the log exists,
	// and comes back as [Claim.LogTag]. An append to a log that exists ignores it. It
	// means nothing to the store: the creator of logs chooses tags that differ, and
	// can tell from them, where the length may be the same by chance, whether a log is
	// still the one that it knows.
	Tag uint64

	// Route, if not empty, becomes the route of the key, as that of a message would.
	Route string

	// Idle makes the append conditional: it is [ErrConflict] if the key is leased, or has a message
	// that is visible or waits for a route. A caller that has no claim appends with it what follows
	// from the log that it knows, and never comes between a claim and its commit, nor before a
	// message that was there first. A store that would have to read messages to know may take one
	// for visible.
	Idle bool

	// New vouches for the key as [Message.New] does.
	New bool

	// Entries to append; at least one.
	Entries [][]byte
}

// Retime changes when a pending message is visible. It does nothing if the message
// is not pending. The rules for VisibleAt are those of [Message.VisibleAt].
type Retime struct {
	Ref       MessageRef
	VisibleAt time.Time
}

// PutRecord puts a record at an expected version.
type PutRecord struct {
	Record Record

	// Expect is the version that the record must have: 0 if it must not exist,
	// [AnyVersion] if that does not matter.
	Expect int64

	// New vouches that no record of that key was ever put, as [Message.New] does for keys. Expect
	// must be 0.
	New bool
}

// DeleteRecord deletes a record at an expected version.
type DeleteRecord struct {
	Key RecordKey

	// Expect is the version that the record must have. With [AnyVersion], deleting a
	// record that does not exist is a no-op; 0 is invalid.
	Expect int64
}

// AnyVersion is an expected version that always matches.
const AnyVersion int64 = -1

// Empty reports whether tx does nothing.
func (tx *Tx) Empty() bool {
	return len(tx.Finish) == 0 && len(tx.DeleteKeys) == 0 && len(tx.Trim) == 0 &&
		len(tx.Append) == 0 && len(tx.Put) == 0 && len(tx.Retime) == 0 &&
		len(tx.Delete) == 0 && len(tx.PutRecords) == 0 && len(tx.DeleteRecords) == 0
}
