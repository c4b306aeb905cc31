package store

import "time"

// Limits of the contract. Each backend keeps them, except that it may declare lower ones
// for the bytes and things of a commit and the sizes of bodies ([Limits]). The suite tests
// them at their edge.
const (
	// MaxQueue is the largest length of a queue's name, and of a record's kind, in
	// bytes.
	MaxQueue = 128

	// MaxName is the largest length of a tenant, a key's name, a message's ID, a
	// record's ID, status or name, a tag's name or value, and a route, in bytes.
	MaxName = 1024

	// MaxBody is the largest length of a message's body and of a log's entry, in
	// bytes.
	MaxBody = 4 << 20

	// MaxRecord is the largest length of a record's body, in bytes: a quarantined
	// message of any size fits.
	MaxRecord = 8 << 20

	// MaxTags is the largest number of tags of a record.
	MaxTags = 64

	// MaxTxOps is the largest number of things that a Tx does: what it finishes,
	// keeps, appends, puts, re-times, trims and deletes, each counted once.
	MaxTxOps = 100_000

	// MaxTxBytes is the largest sum of the names and bodies in a Tx.
	MaxTxBytes = 64 << 20

	// MaxRoutes is the largest number of routes in a claim request.
	MaxRoutes = 10_000

	// MaxClaimTenants is the largest number of tenants that a claim request names.
	MaxClaimTenants = 100

	// MaxClaim is the largest number of keys to claim at once.
	MaxClaim = 10_000

	// MaxMessages is the largest number of messages to deliver with a key, and
	// DefaultMessages is how many are if the request does not say.
	MaxMessages     = 10_000
	DefaultMessages = 1_000

	// MinLease and MaxLease bound the length of a lease.
	MinLease = time.Millisecond
	MaxLease = 24 * time.Hour

	// MaxOwner is the largest length of the owner of a claim, in bytes.
	MaxOwner = 128

	// MaxDelay is the longest delay of a release.
	MaxDelay = 10 * 365 * 24 * time.Hour

	// DefaultTTL is how long a message for a key without a route waits if it does
	// not say, and MaxTTL is the longest that it may say.
	DefaultTTL = 7 * 24 * time.Hour
	MaxTTL     = 10 * 365 * 24 * time.Hour

	// MaxPage is the largest number of records in a page or of messages from
	// Pending, and DefaultPage is how many records there are if a query does not
	// say.
	MaxPage     = 10_000
	DefaultPage = 100

	// MaxCount is how far Count counts.
	MaxCount = 100_000_000

	// PageBytes is about how much a page of records holds, what Pending returns, and
	// what is delivered with one key: the sum of the bodies. There is always one, and
	// what does not fit comes with the next page or claim.
	PageBytes = 16 << 20

	// LogPageBytes is about how much of a log ReadLog returns at once.
	LogPageBytes = 1 << 20

	// MaxRouteStats is how many routes Stats reports one by one at least: see [Stats.Rest].
	MaxRouteStats = 1_000

	// MaxClockLead is how far the time of a store stays ahead of its clock when the clock
	// is set back: see the package comment.
	MaxClockLead = 10 * time.Second

	// ReadyCap is how far Stats counts ready messages, and leased ones: see
	// [RouteStats.Ready] and [RouteStats.Leased].
	ReadyCap = 10_000
)

// maxTime is the first millisecond that a time may not reach, and stays below what
// any backend's time type holds.
var maxTime = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)
