package store

import "context"

// Portable is a store that can be moved, checked and kept for one process. All backends
// of this module are. It is for tools: an engine needs [Store] alone.
type Portable interface {
	Store

	// Export returns a part of all that the store holds, beginning at cursor, which is the
	// Next of the parcel before, and empty for the first. The parcels hold everything
	// exactly once if nobody commits meanwhile, and the same parcels come again if they are
	// asked for again, also by another process. Leases are not exported; the attempts that
	// they counted are. A cursor that is not from this store gives an error that matches
	// [ErrInvalid].
	Export(ctx context.Context, cursor string) (Parcel, error)

	// Import makes the store hold what a parcel of another one holds, exactly as it was:
	// the versions of records, the attempts and times of messages, the tags and lengths of
	// logs, the order in which the messages of a key were put. It is for a store that nobody
	// else uses and that held nothing of what the parcels hold before the first of them;
	// parcels come in the order of Export. Importing one again changes nothing, so that an
	// import with an unknown outcome can be repeated. It is durable when it
	// returns. What is imported counts as put from then on: it can be claimed, and what has
	// waited too long for a route goes to quarantine, unless the store is excluded.
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
	// that is always of one process keeps nobody out.
	//
	// Nothing changes by itself while a store is excluded: a message whose time to live
	// ends goes to quarantine after the release, or when the store is opened the next
	// time. So what is exported in one parcel cannot come again, as a record, in another.
	// Closing the store releases it, and releasing twice is fine.
	Exclude(ctx context.Context) (release func() error, err error)
}

// Parcel is a part of what a store holds. The head of a key comes in the same parcel as
// the first of its entries and messages, or in an earlier one. The entries of a key come
// in their order, and its messages in the order in which they were put, which is not
// that in which they are visible: an import puts them in this order, and
// messages that are moved to the same time later come as they would have come.
type Parcel struct {
	Keys     []KeyHead
	Entries  []Append  // with At and Entries; Tag means nothing here
	Messages []Message // with all fields; Route and VisibleAt are those that claims return
	Records  []Record  // with Version

	// Next is the cursor of the next parcel, and empty if there is none. An interrupted copy
	// continues from it.
	Next string
}

// Divide adds what the parcel holds to the parcels that place returns for the tenants, in its
// order: a store that keeps tenants in several places imports each part where it belongs.
func (p *Parcel) Divide(place func(tenant string) *Parcel) {
	for _, h := range p.Keys {
		to := place(h.Key.Tenant)
		to.Keys = append(to.Keys, h)
	}
	for _, a := range p.Entries {
		to := place(a.Key.Tenant)
		to.Entries = append(to.Entries, a)
	}
	for i := range p.Messages {
		to := place(p.Messages[i].Key.Tenant)
		to.Messages = append(to.Messages, p.Messages[i])
	}
	for i := range p.Records {
		to := place(p.Records[i].Key.Tenant)
		to.Records = append(to.Records, p.Records[i])
	}
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
