package api

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/abidehq/abide"
)

// Worker is a process that serves orchestrations and activities.
type Worker struct {
	ID             string    `json:"id"`
	Name           string    `json:"name"`
	Host           string    `json:"host"`
	PID            int       `json:"pid"`
	Version        string    `json:"version,omitempty" doc:"That of the program."`
	StartedAt      time.Time `json:"started_at"`
	SeenAt         time.Time `json:"seen_at" doc:"When it was last heard of."`
	Orchestrations []string  `json:"orchestrations" doc:"What it serves: name, or name@version."`
	Activities     []string  `json:"activities" doc:"What it serves."`
	Targets        []string  `json:"targets,omitempty" doc:"Of actions, which it does."`
	Turns          int       `json:"turns" doc:"How many turns were under way."`
	Running        int       `json:"running" doc:"How many activities or actions were under way."`
	Build          string    `json:"build,omitempty" doc:"Identifies the program."`
	Tenants        []string  `json:"tenants,omitempty" doc:"Whose instances it runs; all if there are none."`
	TurnSlots      int       `json:"turn_slots,omitempty" doc:"How many turns it runs at a time."`
	RunSlots       int       `json:"run_slots,omitempty" doc:"How many activities or actions it runs at a time."`
	Cached         int       `json:"cached,omitempty" doc:"How many instances were in its memory."`
	Draining       bool      `json:"draining,omitempty" doc:"It claims nothing new: it was drained, or is about to stop."`
	Drained        bool      `json:"drained,omitempty" doc:"It was drained, and has nothing under way."`
}

// Held is a turn or an activity that a worker has leased.
type Held struct {
	Tenant   string    `json:"tenant"`
	Instance string    `json:"instance"`
	Route    string    `json:"route" doc:"Of the orchestration, name or name@version, or the name of the activity."`
	Activity bool      `json:"activity,omitempty" doc:"It is an activity."`
	Until    time.Time `json:"until" doc:"When the lease ends unless the worker renews it."`
}

// FromHeld returns a lease for the wire.
func FromHeld(h *abide.Held) Held {
	return Held{Tenant: h.Ref.Tenant, Instance: h.Ref.ID, Route: h.Route, Activity: h.Activity, Until: h.Until}
}

// Held is the inverse of [FromHeld].
func (h *Held) Held() abide.Held {
	return abide.Held{Ref: abide.Ref{Tenant: h.Tenant, ID: h.Instance}, Route: h.Route, Activity: h.Activity, Until: h.Until}
}

// HeldList is what a worker has leased.
type HeldList struct {
	Leases []Held `json:"leases"`
}

// FromWorker returns a worker for the wire.
func FromWorker(w *abide.Worker) Worker {
	out := Worker(*w)
	if out.Orchestrations == nil {
		out.Orchestrations = []string{}
	}
	if out.Activities == nil {
		out.Activities = []string{}
	}
	return out
}

// Worker is the inverse of [FromWorker].
func (w *Worker) Worker() abide.Worker { return abide.Worker(*w) }

// WorkerList is all workers.
type WorkerList struct {
	Workers []Worker `json:"workers"`
}

// Unserved is a route that has messages or schedules, and that no live worker serves.
type Unserved struct {
	Route     string    `json:"route" doc:"Of an orchestration, name or name@version, or the name of an activity or of a target of actions."`
	Activity  bool      `json:"activity,omitempty" doc:"It is an activity."`
	Target    bool      `json:"target,omitempty" doc:"It is a target of actions."`
	Build     string    `json:"build,omitempty" doc:"The build that the instances of the orchestration are pinned to: they wait for a worker of it."`
	Pending   int       `json:"pending" doc:"How many messages wait."`
	Oldest    time.Time `json:"oldest,omitzero" doc:"When the oldest of them became, or becomes, visible."`
	Schedules int       `json:"schedules,omitempty" doc:"How many active schedules make actions for the target."`
}

// UnservedList is all that waits for a worker that serves it.
type UnservedList struct {
	Unserved []Unserved `json:"unserved"`
}

// Orchestration is an orchestration that a worker serves, or that has instances and no worker.
type Orchestration struct {
	Name    string    `json:"name"`
	Version string    `json:"version,omitempty"`
	Workers []string  `json:"workers" doc:"The IDs of the workers that serve it."`
	Pending int       `json:"pending,omitempty" doc:"How many messages wait because nobody serves it."`
	Oldest  time.Time `json:"oldest,omitzero" doc:"When the oldest of them became, or becomes, visible."`
}

// OrchestrationList is all orchestrations that are known.
type OrchestrationList struct {
	Orchestrations []Orchestration `json:"orchestrations"`
}

// Change is a change of an instance, with its state after it.
type Change struct {
	Tenant        string    `json:"tenant"`
	ID            string    `json:"id"`
	Orchestration string    `json:"orchestration,omitempty"`
	Version       string    `json:"version,omitempty"`
	Status        string    `json:"status,omitempty"`
	Revision      int64     `json:"revision,omitempty"`
	At            time.Time `json:"at"`
	Deleted       bool      `json:"deleted,omitempty" doc:"It is gone. No more is known."`
}

// FromChange returns a change for the wire. Its cursor is the ID of the event.
func FromChange(c *abide.Change) Change {
	return Change{
		Tenant: c.Ref.Tenant, ID: c.Ref.ID, Orchestration: c.Orchestration, Version: c.Version,
		Status: string(c.Status), Revision: c.Revision, At: c.At, Deleted: c.Deleted,
	}
}

// Change is the inverse of [FromChange].
func (c *Change) Change(cursor string) abide.Change {
	return abide.Change{
		Cursor: cursor, Ref: abide.Ref{Tenant: c.Tenant, ID: c.ID}, Orchestration: c.Orchestration, Version: c.Version,
		Status: abide.Status(c.Status), Revision: c.Revision, At: c.At, Deleted: c.Deleted,
	}
}

// Orchestrations returns what is known of orchestrations, in the order of their names.
func Orchestrations(workers []abide.Worker, unserved []abide.Unserved) []Orchestration {
	known := map[string]*Orchestration{}
	get := func(route string) *Orchestration {
		if known[route] == nil {
			name, version, _ := strings.Cut(route, "@")
			known[route] = &Orchestration{Name: name, Version: version, Workers: []string{}}
		}
		return known[route]
	}
	for i := range workers {
		if workers[i].Draining {
			continue
		}
		for _, route := range workers[i].Orchestrations {
			o := get(route)
			o.Workers = append(o.Workers, workers[i].ID)
		}
	}
	for _, u := range unserved {
		if !u.Activity && !u.Target {
			o := get(u.Route)
			o.Pending, o.Oldest = u.Pending, u.Oldest
		}
	}
	list := make([]Orchestration, 0, len(known))
	for _, route := range slices.Sorted(maps.Keys(known)) {
		list = append(list, *known[route])
	}
	return list
}
