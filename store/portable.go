package store

import "context"

// Portable is a store that can be moved, checked and kept for one process. All backends
// of this module are. It is for tools: an engine needs [Store] alone.
type Portable interface {
	Store

	// Export returns a part of all that the store holds, beginning at cursor, which is the
	// Next of the parcel before, and empty for the first. The parcels hold everything
	// exactly once if nobody commits meanwhile, and the same parcels come again if they are
	// asked for again. Leases are not exported; the attempts that they counted are.
	Export(ctx context.Context, cursor string) (Parcel, error)

	// Import makes the store hold what a parcel of another one holds, exactly as it was:
	// the versions of records, the attempts and times of messages, the tags and lengths of
	// logs, the order of all. It is for a store that nobody else uses and that held
	// nothing before the first parcel; parcels come in the order of Export. Importing one
	// again changes nothing, so that whoever does not know whether an import went through
	// repeats it. It is durable when it returns.
	Import(ctx context.Context, p Parcel) error

	// Verify looks at all that the store holds and calls report for each thing that
	// contradicts another: a message whose key is not there, a count that is wrong, a lease
	// of nothing. It changes nothing, and returns an error only if it could not look. It is
	// for a store that nobody else uses.
	Verify(ctx context.Context, report func(problem string)) error

	// Exclude keeps all others out until release is called: while the store is excluded
	// it cannot be opened elsewhere, and Exclude returns [ErrInUse] if it is open
	// elsewhere, in this process or another one, on this machine or another one. A process
	// that died without closing the store counts as gone after at most a minute. A store
	// that is always of one process does nothing.
	Exclude(ctx context.Context) (release func() error, err error)
}

// Parcel is a part of what a store holds. The head of a key comes in the same parcel as
// the first of its entries and messages, or in an earlier one; the entries and the
// messages of a key come in their order.
type Parcel struct {
	Keys     []KeyHead
	Entries  []Append // with At and Entries; Tag means nothing here
	Messages []Message
	Records  []Record

	// Next is the cursor of the next parcel, and empty if there is none. It is also what
	// a copy that was interrupted goes on from.
	Next string
}

// KeyHead is what a key has besides its entries and messages.
type KeyHead struct {
	Key   Key
	Route string

	// The log's tag, the index of the first entry that was not trimmed, and its length.
	LogTag    uint64
	LogFirst  int
	LogLength int
}

// ParcelBytes is about how much a parcel holds.
const ParcelBytes = 4 << 20
