package store

import "time"

// Stats is what a store holds.
type Stats struct {
	// Routes has a row for each queue and route that has pending messages, ordered
	// by queue and route. The row with an empty Route is of messages whose keys have
	// no route. A store may leave out routes if there are more than [MaxRouteStats], and
	// sums them up in Rest.
	Routes []RouteStats

	// Rest is what the routes hold that are not in Routes. It is zero if all are.
	Rest RestStats

	// Leases is the number of live leases.
	Leases int

	// Waiting is the number of Claim calls that wait, in this process.
	Waiting int

	// Bytes is about how much room the store takes on disk, and 0 if it is not on
	// disk.
	Bytes int64

	// Now is the store's time.
	Now time.Time

	// ClockLead is how far Now is ahead of the store's clock, because that was set back. It
	// is 0 otherwise, and 0 in a store that stands still for so long: see [MaxClockLead].
	ClockLead time.Duration
}

// RouteStats is what a queue holds for a route.
type RouteStats struct {
	Queue string
	Route string

	// Pending is the number of messages, visible or not, delivered or not.
	Pending int

	// Ready is the number of messages that are visible, delivered or not. Counting
	// stops at [ReadyCap]. It is 0 for messages whose keys have no route.
	Ready int

	// Leased is how many of the ready messages are delivered with a live lease: they are
	// being worked on or, if their claimer died, wait for the end of its lease. A message
	// that was put while its key is leased is not among them, although it waits too.
	// Counting stops at [ReadyCap], of one route or of all together.
	Leased int

	// Oldest is when the oldest pending message became, or becomes, visible. A value
	// in the past is the age of the queue. It is zero for messages whose keys have no
	// route.
	Oldest time.Time
}

// RestStats is the sum of routes that are not reported one by one.
type RestStats struct {
	// Routes is their number. It may include routes that have no pending messages left.
	Routes int

	// Pending is the number of their messages, visible or not, delivered or not.
	Pending int
}
