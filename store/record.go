package store

import "time"

// RecordKey names a record. Kind is chosen by the program; Tenant and ID may hold
// any bytes. Tenant may be empty, Kind and ID may not.
type RecordKey struct {
	Kind   string
	Tenant string
	ID     string
}

// String returns the key for people, quoted where it must be.
func (k RecordKey) String() string {
	return readable(k.Kind) + "/" + readable(k.Tenant) + "/" + readable(k.ID)
}

// Record is something that is true now. The store never looks into Body; the
// other fields are what List and Count can filter by.
type Record struct {
	Key RecordKey

	// Version is 1 when the record is put for the first time, and grows by one with
	// each put. A record that is deleted and put again starts at 1. It is set by the
	// store, and ignored by Commit.
	Version int64

	// Status and Name are the caller's: say running, and order.
	Status string
	Name   string

	// Time is the caller's: when it started, or when it is due. It is kept in whole
	// milliseconds, rounded down, from 1970 to 9999; the zero time is kept as 1970.
	// List goes by it.
	Time time.Time

	// Tags are the caller's.
	Tags map[string]string

	Body []byte
}

// Query says which records to list or to count. A record must match all that is set.
// Descending, Limit and Cursor are for lists alone.
//
// Tenant, Statuses and times are in an index of every store, in the order of the list. Names, Tags and
// Prefix need not be: a store may read other records to find those that match, and end a page early.
type Query struct {
	// Kind must be set.
	Kind string

	// Tenant, if not nil, is the tenant whose records match; nil means all.
	Tenant *string

	// Statuses, if not empty: one of them.
	Statuses []string

	// Names, if not empty: one of them.
	Names []string

	// From and To bound the record's Time: From <= Time < To. Zero means unbounded.
	From, To time.Time

	// Tags that the record must have, with these values.
	Tags map[string]string

	// Prefix is what the record's ID begins with. It filters and does not change the order: a
	// list goes by Time.
	Prefix string

	// Descending lists the latest Time first.
	Descending bool

	// Limit is the largest number of records to return. Zero means [DefaultPage];
	// more than [MaxPage] is invalid. A page may hold fewer and still have a Next, as
	// it ends before it exceeds [PageBytes], and a store may end it, even before there is
	// anything on it, when it has passed over many records that do not match.
	Limit int

	// Cursor is the Next of the page before; empty for the first. A cursor is only
	// good for the query that it came from.
	Cursor string
}

// Page is a part of a list.
type Page struct {
	Records []Record

	// Next is the cursor of the next page, and empty if there is none.
	Next string
}
