package api

import (
	"time"

	"github.com/abidehq/abide/store"
)

// Stats is what a store holds.
type Stats struct {
	Routes  []RouteStats `json:"routes" doc:"A row for each queue and route that has pending messages."`
	Rest    RestStats    `json:"rest,omitzero" doc:"The sum of the routes that have no row of their own: there is a limit of rows."`
	Leases  int          `json:"leases" doc:"How much is under way, in all processes."`
	Waiting int          `json:"waiting" doc:"How many wait for work in the server's process."`
	Bytes   int64        `json:"bytes" doc:"About how much room the store takes on disk; 0 if it is not on disk."`
	Now     time.Time    `json:"now" doc:"The store's time."`

	ClockLead Duration `json:"clock_lead,omitempty" doc:"How far the store's time is ahead of its clock, because that was set back. Not there if it is not."`
}

// RouteStats is what a queue holds for a route.
type RouteStats struct {
	Queue   string    `json:"queue"`
	Route   string    `json:"route,omitempty" doc:"Not there for messages that wait for what they are for to be started."`
	Pending int       `json:"pending" doc:"Messages, visible or not."`
	Ready   int       `json:"ready" doc:"Messages that are visible. Counting stops at some thousands."`
	Leased  int       `json:"leased" doc:"Those of the ready ones that are being worked on, or were by a process that died: then they wait for the end of its lease."`
	Oldest  time.Time `json:"oldest,omitzero" doc:"When the oldest message became, or becomes, visible."`
}

// RestStats is the sum of routes without a row of their own.
type RestStats struct {
	Routes  int `json:"routes" doc:"How many they are."`
	Pending int `json:"pending" doc:"Messages, visible or not."`
}

// FromStats returns what a store holds for the wire.
func FromStats(s *store.Stats) Stats {
	out := Stats{
		Routes: make([]RouteStats, len(s.Routes)), Rest: RestStats(s.Rest), Leases: s.Leases, Waiting: s.Waiting,
		Bytes: s.Bytes, Now: s.Now, ClockLead: Duration(s.ClockLead),
	}
	for i, r := range s.Routes {
		out.Routes[i] = RouteStats(r)
	}
	return out
}

// Stats is the inverse of [FromStats].
func (s *Stats) Stats() store.Stats {
	out := store.Stats{
		Routes: make([]store.RouteStats, len(s.Routes)), Rest: store.RestStats(s.Rest), Leases: s.Leases, Waiting: s.Waiting,
		Bytes: s.Bytes, Now: s.Now, ClockLead: time.Duration(s.ClockLead),
	}
	for i, r := range s.Routes {
		out.Routes[i] = store.RouteStats(r)
	}
	return out
}
