package abide

import (
	"context"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/abidehq/abide/internal/engine"
)

// Worker is an engine that serves orchestrations and activities, or a service that serves
// targets of actions, and says so: see [Config.WorkerName]. A process can be both, which are two
// workers.
type Worker struct {
	// ID is another one each time that the process is started.
	ID string

	// Name is that of [Config.WorkerName]; Host, PID and Version, which is that of the
	// program's main module, say which process it is.
	Name    string
	Host    string
	PID     int
	Version string

	// StartedAt is when it was first seen, and SeenAt when it was seen last, by the store's
	// clock.
	StartedAt time.Time
	SeenAt    time.Time

	// Orchestrations are what it serves, as name or name@version, and Activities are the
	// names of those that it runs.
	Orchestrations []string
	Activities     []string

	// Targets are the names of the targets whose actions it does.
	Targets []string

	// Turns is how many turns, and Running how many activities or actions, were under way
	// when it was seen last.
	Turns   int
	Running int

	// Build identifies the program: see [Config.Build].
	Build string
}

// Unserved is a route that has messages or schedules, and that no live worker serves.
type Unserved struct {
	// Route is that of an orchestration, name or name@version, or the name of an activity
	// or of a target of actions.
	Route    string
	Activity bool
	Target   bool

	// Pending is the number of messages that wait, and Oldest when the oldest of them
	// became, or becomes, visible.
	Pending int
	Oldest  time.Time

	// Schedules is the number of active schedules that make actions for a target. A target
	// that only schedules use has no messages until a run is due.
	Schedules int
}

func (c *client) Workers(ctx context.Context) ([]Worker, error) {
	seen, err := c.c.Workers(ctx)
	if err != nil {
		return nil, err
	}
	workers := make([]Worker, len(seen))
	for i := range seen {
		w := &seen[i]
		workers[i] = Worker{
			ID: w.ID, Name: w.Name, Host: w.Host, PID: w.PID, Version: w.Version, StartedAt: w.StartedAt, SeenAt: w.SeenAt,
			Orchestrations: w.Routes, Activities: w.Activities, Targets: w.Targets, Turns: w.Turns, Running: w.Running, Build: w.Build,
		}
	}
	return workers, nil
}

func (c *client) Unserved(ctx context.Context) ([]Unserved, error) {
	routes, err := c.c.Unserved(ctx, c.routes, c.activities)
	if err != nil {
		return nil, err
	}
	unserved := make([]Unserved, len(routes))
	for i, r := range routes {
		unserved[i] = Unserved{
			Route: r.Route, Activity: r.Queue == engine.QueueActivities, Target: r.Queue == engine.QueueActions, Pending: r.Pending, Oldest: r.Oldest, Schedules: r.Schedules,
		}
	}
	return unserved, nil
}

// checkBuild reports whether a program can have that build ID.
func checkBuild(build string) error {
	if len(build) > engine.MaxBuild {
		return fmt.Errorf("abide: config: Build has %d bytes, at most %d are allowed: %w", len(build), engine.MaxBuild, ErrInvalid)
	}
	if !utf8.ValidString(build) {
		return fmt.Errorf("abide: config: Build is %q: must be UTF-8: %w", build, ErrInvalid)
	}
	return nil
}

// checkWorker reports whether a worker can have that name.
func checkWorker(name string) error {
	if len(name) > engine.MaxName {
		return fmt.Errorf("abide: config: Worker has %d bytes, at most %d are allowed: %w", len(name), engine.MaxName, ErrInvalid)
	}
	if !utf8.ValidString(name) {
		return fmt.Errorf("abide: config: Worker is %q: must be UTF-8: %w", name, ErrInvalid)
	}
	return nil
}
