package roster

import (
	"slices"
	"time"

	"github.com/abidehq/abide/internal/wire"
	"github.com/abidehq/abide/store"
)

// Kind is the kind of the records of workers.
const Kind = "worker"

// QueueActions is the queue of actions. The route of its messages is the name of a target.
const QueueActions = "actions"

// KindSchedule is the kind of the records of schedules, and ActiveSchedule the status of those
// that make actions.
const (
	KindSchedule   = "schedule"
	ActiveSchedule = "active"
)

// Worker is a process, or a part of one, that serves orchestrations and activities, or targets
// of actions.
type Worker struct {
	// ID is another one each time that the process is started.
	ID string

	// Name is given to it; Host, PID and Version are those of the process.
	Name    string
	Host    string
	PID     int
	Version string

	// StartedAt and SeenAt are by the store's clock.
	StartedAt time.Time
	SeenAt    time.Time

	// Routes are those of orchestrations.
	Routes     []string
	Activities []string

	// Entities are the names of entities.
	Entities []string

	// Targets are those of actions. Shared are the ones among them that every tenant can add
	// actions and schedules for.
	Targets []string
	Shared  []string

	// Turns is how many turns, and Running how many activities or actions, were under way
	// when it was seen.
	Turns   int
	Running int

	// Build identifies the program; empty if it is not known. Pinned are those of Routes whose instances
	// are pinned to it.
	Build  string
	Pinned []string

	// Tenants are those that it serves. None means all.
	Tenants []string

	// TurnSlots is how many turns, and RunSlots how many activities or actions, may be under way at a
	// time; 0 if an earlier release has written it. Cached is how many instances were in its memory.
	TurnSlots int
	RunSlots  int
	Cached    int

	// State says whether it claims.
	State State

	// Run identifies the run of the program, if that may have several records one after another: that
	// of a worker over the network has one for each of its connections.
	Run string
}

// Serves reports whether the worker serves an orchestration for a tenant.
func (w *Worker) Serves(route, tenant string) bool {
	return slices.Contains(w.Routes, route) && (len(w.Tenants) == 0 || slices.Contains(w.Tenants, tenant))
}

// State is whether a worker claims.
type State uint8

// States of workers.
const (
	// Serving claims.
	Serving State = iota

	// Asked was told by an operator to claim nothing more, and has not heeded it yet.
	Asked

	// Draining claims nothing any more: it has heeded it, or is about to stop.
	Draining

	// Drained has heeded it, and has nothing under way.
	Drained
)

// Drains reports whether the worker claims nothing any more, or will not soon.
func (w *Worker) Drains() bool { return w.State != Serving }

// format is the first byte of the record of a worker.
const format = 1

// Put returns what puts the record.
func (w *Worker) Put() store.PutRecord {
	return store.PutRecord{
		Expect: store.AnyVersion,
		Record: store.Record{Key: key(w.ID), Name: w.Name, Time: w.SeenAt, Body: w.encode()},
	}
}

func key(id string) store.RecordKey { return store.RecordKey{Kind: Kind, ID: id} }

func (w *Worker) encode() []byte {
	out := []byte{format}
	out = wire.AppendString(out, w.Host)
	out = wire.AppendNumber(out, uint64(w.PID))
	out = wire.AppendString(out, w.Version)
	out = wire.AppendTime(out, w.StartedAt)
	out = wire.AppendNumber(out, uint64(w.Turns))
	out = wire.AppendNumber(out, uint64(w.Running))
	out = wire.AppendStrings(out, w.Routes)
	out = wire.AppendStrings(out, w.Activities)
	out = wire.AppendString(out, w.Build)
	out = wire.AppendStrings(out, w.Targets)
	out = wire.AppendStrings(out, w.Shared)
	out = wire.AppendStrings(out, w.Pinned)
	out = wire.AppendStrings(out, w.Tenants)
	out = wire.AppendNumber(out, uint64(w.TurnSlots))
	out = wire.AppendNumber(out, uint64(w.RunSlots))
	out = wire.AppendNumber(out, uint64(w.Cached))
	out = wire.AppendNumber(out, uint64(w.State))
	out = wire.AppendString(out, w.Run)
	return wire.AppendStrings(out, w.Entities)
}

// Parse reads a record. One that was written by another release may say more, or say it in
// another way: then the worker has no more than its ID, its name and when it was seen.
func Parse(r store.Record) Worker {
	d := wire.Reader{Data: r.Body}
	d.Format(format)
	w := Worker{
		ID: r.Key.ID, Name: r.Name, SeenAt: r.Time,
		Host: d.String(), PID: int(d.Int32()), Version: d.String(), StartedAt: d.Time(),
		Turns: int(d.Int32()), Running: int(d.Int32()),
	}
	w.Routes = wire.Strings[string](&d)
	w.Activities = wire.Strings[string](&d)
	if len(d.Data) > 0 { // an earlier release does not say
		w.Build = d.String()
	}
	if len(d.Data) > 0 {
		w.Targets = wire.Strings[string](&d)
	}
	if len(d.Data) > 0 {
		w.Shared = wire.Strings[string](&d)
	}
	if len(d.Data) > 0 {
		w.Pinned = wire.Strings[string](&d)
	}
	if len(d.Data) > 0 {
		w.Tenants = wire.Strings[string](&d)
	}
	if len(d.Data) > 0 {
		w.TurnSlots, w.RunSlots, w.Cached = int(d.Int32()), int(d.Int32()), int(d.Int32())
		w.State, w.Run = State(d.Int32()), d.String()
	}
	if len(d.Data) > 0 {
		w.Entities = wire.Strings[string](&d)
	}
	if d.Err != nil {
		return Worker{ID: w.ID, Name: w.Name, SeenAt: w.SeenAt}
	}
	return w
}
