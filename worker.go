package abide

import (
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/engine"
)

// Worker is a process that runs orchestrations and activities, or targets of actions, and
// reports it to the store, see [Config.WorkerName]. A process that runs both is two workers.
type Worker struct {
	// ID identifies the worker. It changes with each start of the process.
	ID string

	// Name is its [Config.WorkerName]. Host and PID identify the process, and Version is the
	// version of the program's main module.
	Name    string
	Host    string
	PID     int
	Version string

	// StartedAt is the time of its first report, and SeenAt that of its last one, by the store's
	// clock.
	StartedAt time.Time
	SeenAt    time.Time

	// Orchestrations are the orchestrations that it runs, as name or name@version, and
	// Activities the names of its activities.
	Orchestrations []string
	Activities     []string

	// Targets are the names of the targets that it runs.
	Targets []string

	// Turns is the number of turns, and Running the number of activities or actions, that were
	// in progress at its last report.
	Turns   int
	Running int

	// Build identifies the program, see [Config.Build].
	Build string

	// Tenants are those whose instances it runs. None means all.
	Tenants []string

	// TurnSlots and RunSlots are how many turns, and activities or actions, it runs at a time. They are
	// 0 if it is of an earlier release.
	TurnSlots int
	RunSlots  int

	// Cached is the number of instances that were in its memory at its last report.
	Cached int

	// Draining is true if it claims nothing new: an operator has drained it, see [Client.DrainWorker], or
	// it is about to stop. It counts as serving nothing. Drained is true if it also has nothing under way.
	Draining bool
	Drained  bool
}

// Held is a turn or an activity that a worker has leased.
type Held struct {
	// Ref is the instance.
	Ref Ref

	// Route is that of the orchestration, name or name@version, or the name of the activity.
	Route    string
	Activity bool

	// Until is when the lease ends unless the worker renews it, by the store's clock.
	Until time.Time
}

// Unserved is a route that has messages or schedules, and that no live worker serves.
type Unserved struct {
	// Route is that of an orchestration, name or name@version, or the name of an activity
	// or of a target of actions.
	Route    string
	Activity bool
	Target   bool

	// Build is the one that the instances of an orchestration are pinned to: they wait for a worker of
	// it. Empty means that no worker of any build serves them.
	Build string

	// Pending is the number of messages that wait, and Oldest when the oldest of them
	// became, or becomes, visible.
	Pending int
	Oldest  time.Time

	// Schedules is the number of active schedules that make actions for a target. A target
	// that only schedules use has no messages until a run is due.
	Schedules int
}

// checkBuild returns an error if build is not a valid [Config.Build].
func checkBuild(build string) error {
	if len(build) > engine.MaxBuild {
		return fmt.Errorf("abide: config: Build has %d bytes, at most %d are allowed: %w", len(build), engine.MaxBuild, ErrInvalid)
	}
	if !utf8.ValidString(build) {
		return fmt.Errorf("abide: config: Build is %q: must be UTF-8: %w", build, ErrInvalid)
	}
	return nil
}

// workerName returns the name under which the process is listed, empty if it is not.
func (c *Config) workerName() string {
	switch {
	case c.Unlisted:
		return ""
	case c.WorkerName != "" || len(c.Register) == 0:
		return c.WorkerName
	}
	return base.ProcessName()
}

// checkWorker returns an error if name is not a valid [Config.WorkerName].
func checkWorker(name string) error {
	if len(name) > engine.MaxName {
		return fmt.Errorf("abide: config: WorkerName has %d bytes, at most %d are allowed: %w", len(name), engine.MaxName, ErrInvalid)
	}
	if !utf8.ValidString(name) {
		return fmt.Errorf("abide: config: WorkerName is %q: must be UTF-8: %w", name, ErrInvalid)
	}
	return nil
}
