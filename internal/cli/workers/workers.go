package workers

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/abidehq/abide/internal/cli/connect"
	"github.com/abidehq/abide/internal/cli/console"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/server/api"
)

// New returns the command abide workers.
func New() *cobra.Command {
	return console.Group(
		&cobra.Command{
			Use:     "workers",
			Aliases: []string{"worker"},
			Short:   "List and drain workers, and list names that no worker serves",
			Long: `A worker is a process that serves orchestrations and activities, or targets of actions, and was
seen within the last minute. A server that does both is two workers. What has messages waiting,
or schedules, and is served by none of them waits until one comes.

` + connect.HomeHelp,
		},
		newWorkersList(), newWorkersShow(), newWorkersDrain(), newWorkersUnserved(), newWorkersSignatures(),
	)
}

func newWorkersList() *cobra.Command {
	var h connect.Home
	var watching console.Watching
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List workers",
		Example: `  abide workers list
  abide workers list --watch`,
		Args: console.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return h.UseEngine(cmd, false, func(ctx context.Context, engine *abide.Client) error {
				if watching.Watch {
					return workerRows.Watch(ctx, cmd, &h.Out, func(ctx context.Context) ([]abide.Worker, bool, error) {
						found, err := engine.Workers(ctx)
						return found, true, err
					})
				}
				found, err := engine.Workers(ctx)
				if err != nil {
					return err
				}
				return workerRows.PrintAll(cmd, &h.Out, found)
			})
		},
	}
	watching.AddTo(cmd)
	h.AddPlaceTo(cmd)
	return cmd
}

// seen returns when a worker last reported. One that has missed two reports is likely to be dead: it
// is listed for a while, and what it had leased is not delivered before its leases end.
func seen(at, now time.Time) string {
	if text := console.Unseen(at, now); text != "" {
		return text
	}
	return console.FromNow(at, now)
}

// serves returns what a worker serves, and for which tenants if not for all.
func serves(w *abide.Worker) string {
	text := strings.Join(slices.Concat(w.Orchestrations, w.Activities, w.Targets), ", ")
	if len(w.Tenants) > 0 {
		text += " for " + strings.Join(w.Tenants, ", ")
	}
	return text
}

// workerRows prints workers.
var workerRows = console.Rows[abide.Worker, api.Worker]{
	Noun:   "workers",
	Titles: []string{"ID", "NAME", "HOST", "PID", "BUILD", "VERSION", "STATE", "STARTED", "SEEN", "TURNS", "ACTIVITIES", "CACHED", "SERVES"},
	Row: func(w *abide.Worker) []console.Cell {
		return console.Row(w.ID, w.Name, w.Host, w.PID, w.Build, w.Version, state(w), w.StartedAt, seen(w.SeenAt, base.System{}.Now()), usage(w.Turns, w.TurnSlots), usage(w.Running, w.RunSlots), w.Cached,
			serves(w))
	},
	Wire: api.FromWorker,
	Key:  func(w *abide.Worker) [2]string { return [2]string{"", w.ID} },
	Page: func(all []api.Worker, _ string) any { return api.WorkerList{Workers: all} },
}

func newWorkersUnserved() *cobra.Command {
	return connect.ListAll(&cobra.Command{
		Use:     "unserved",
		Short:   "List names with pending work that no worker serves",
		Example: "  abide workers unserved",
	}, unservedRows, func(ctx context.Context, b connect.Backend) ([]abide.Unserved, error) {
		engine, err := b.Engine()
		if err != nil {
			return nil, err
		}
		return engine.Unserved(ctx)
	})
}

// unservedRows prints routes that no worker serves.
var unservedRows = console.Rows[abide.Unserved, api.Unserved]{
	Noun:   "orchestrations, activities or targets that nobody serves",
	Titles: []string{"ROUTE", "KIND", "PENDING", "OLDEST", "SCHEDULES"},
	Row: func(u *abide.Unserved) []console.Cell {
		return console.Row(routeOf(u), kindOf(u), u.Pending, u.Oldest, u.Schedules)
	},
	Wire: func(u *abide.Unserved) api.Unserved { return api.Unserved(*u) },
	Page: func(all []api.Unserved, _ string) any { return api.UnservedList{Unserved: all} },
}

// routeOf returns the route, and the build for whose workers its instances wait.
func routeOf(u *abide.Unserved) string {
	if u.Build != "" {
		return u.Route + " of build " + u.Build
	}
	return u.Route
}

func kindOf(u *abide.Unserved) string {
	switch {
	case u.Activity:
		return "activity"
	case u.Target:
		return "target"
	default:
		return "orchestration"
	}
}

// NewOrchestrations returns the command abide orchestrations.
func NewOrchestrations() *cobra.Command {
	return console.Group(
		&cobra.Command{
			Use:   "orchestrations",
			Short: "List orchestrations and the workers that run them",
			Long: `An orchestration is a function, registered under a name and a version by the processes that
serve it.

` + connect.HomeHelp,
		},
		newOrchestrationsList(),
	)
}

func newOrchestrationsList() *cobra.Command {
	return connect.ListAll(&cobra.Command{
		Use:     "list",
		Short:   "List orchestrations that a worker runs or that have pending instances",
		Example: "  abide orchestrations list",
	}, orchestrationRows, func(ctx context.Context, b connect.Backend) ([]api.Orchestration, error) {
		engine, err := b.Engine()
		if err != nil {
			return nil, err
		}
		return ReadOrchestrations(ctx, engine)
	})
}

// orchestrationRows prints orchestrations; one without a worker has a red 0.
var orchestrationRows = console.Rows[api.Orchestration, api.Orchestration]{
	Noun:   "orchestrations that are served or have instances",
	Titles: []string{"NAME", "VERSION", "WORKERS", "WAITING", "OLDEST"},
	Row: func(o *api.Orchestration) []console.Cell {
		workers := console.Plain(strconv.Itoa(len(o.Workers)))
		if len(o.Workers) == 0 {
			workers.Colour = console.Red
		}
		return console.Row(o.Name, o.Version, workers, o.Pending, o.Oldest)
	},
	Wire: console.Same[api.Orchestration],
	Page: func(all []api.Orchestration, _ string) any { return api.OrchestrationList{Orchestrations: all} },
}

// ReadOrchestrations returns what workers serve and what waits for one, in the order of names.
func ReadOrchestrations(ctx context.Context, engine *abide.Client) ([]api.Orchestration, error) {
	workers, err := engine.Workers(ctx)
	if err != nil {
		return nil, err
	}
	unserved, err := engine.Unserved(ctx)
	if err != nil {
		return nil, err
	}
	return api.Orchestrations(workers, unserved), nil
}
