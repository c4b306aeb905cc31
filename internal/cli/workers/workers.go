package workers

import (
	"context"
	"slices"
	"strconv"
	"strings"

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
			Short:   "List workers, and names that no worker serves",
			Long: `A worker is a process that serves orchestrations and activities, or targets of actions, and was
seen within the last minute. A server that does both is two workers. What has messages waiting,
or schedules, and is served by none of them waits until one comes.

` + connect.HomeHelp,
		},
		newWorkersList(), newWorkersUnserved(),
	)
}

func newWorkersList() *cobra.Command {
	var h connect.Home
	var watching console.Watching
	titles := []string{"ID", "NAME", "HOST", "PID", "VERSION", "STARTED", "SEEN", "TURNS", "ACTIVITIES", "SERVES"}
	row := func(w *abide.Worker) []console.Cell {
		return []console.Cell{
			console.Plain(w.ID), console.Plain(w.Name), console.Plain(w.Host), console.Plain(strconv.Itoa(w.PID)), console.Plain(w.Version), console.Plain(console.LocalTime(w.StartedAt)),
			console.Plain(console.FromNow(w.SeenAt, base.System{}.Now())), console.Plain(strconv.Itoa(w.Turns)), console.Plain(strconv.Itoa(w.Running)),
			console.Plain(strings.Join(slices.Concat(w.Orchestrations, w.Activities, w.Targets), ", ")),
		}
	}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List workers",
		Example: `  abide workers list
  abide workers list --watch`,
		Args: console.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return h.UseEngine(cmd, false, func(ctx context.Context, engine *abide.Client) error {
				if watching.Watch {
					return console.NewWatch(cmd, &h.Out, titles...).Poll(ctx, func(ctx context.Context) ([]console.Item, bool, error) {
						found, err := engine.Workers(ctx)
						return console.ItemsOf(found, func(w *abide.Worker) console.Item {
							return console.Item{Key: [2]string{"", w.ID}, Value: api.FromWorker(w), Row: row(w)}
						}), true, err
					})
				}
				found, err := engine.Workers(ctx)
				if err != nil {
					return err
				}
				list := api.WorkerList{Workers: make([]api.Worker, len(found))}
				for i := range found {
					list.Workers[i] = api.FromWorker(&found[i])
				}
				return h.PrintAll(cmd, "workers", list, len(found), titles, func(i int) []console.Cell { return row(&found[i]) })
			})
		},
	}
	watching.AddTo(cmd)
	h.AddPlaceTo(cmd)
	return cmd
}

func newWorkersUnserved() *cobra.Command {
	var h connect.Home
	cmd := &cobra.Command{
		Use:     "unserved",
		Short:   "List names with pending work that no worker serves",
		Example: "  abide workers unserved",
		Args:    console.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return h.UseEngine(cmd, false, func(ctx context.Context, engine *abide.Client) error {
				found, err := engine.Unserved(ctx)
				if err != nil {
					return err
				}
				list := api.UnservedList{Unserved: make([]api.Unserved, len(found))}
				for i, u := range found {
					list.Unserved[i] = api.Unserved(u)
				}
				return h.PrintAll(cmd, "orchestrations, activities or targets that nobody serves", list, len(found),
					[]string{"ROUTE", "KIND", "PENDING", "OLDEST", "SCHEDULES"}, func(i int) []console.Cell {
						u := &found[i]
						return []console.Cell{console.Plain(u.Route), console.Plain(kindOf(u)), console.Plain(strconv.Itoa(u.Pending)), console.Plain(console.LocalTime(u.Oldest)), console.Plain(strconv.Itoa(u.Schedules))}
					})
			})
		},
	}
	h.AddPlaceTo(cmd)
	return cmd
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
	var h connect.Home
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List orchestrations that a worker runs or that have pending instances",
		Example: "  abide orchestrations list",
		Args:    console.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return h.UseEngine(cmd, false, func(ctx context.Context, engine *abide.Client) error {
				found, err := ReadOrchestrations(ctx, engine)
				if err != nil {
					return err
				}
				return h.PrintAll(cmd, "orchestrations that somebody serves or waits for", api.OrchestrationList{Orchestrations: found}, len(found),
					[]string{"NAME", "VERSION", "WORKERS", "WAITING", "OLDEST"}, func(i int) []console.Cell {
						o := &found[i]
						workers := console.Cell{Text: strconv.Itoa(len(o.Workers))}
						if len(o.Workers) == 0 {
							workers.Colour = console.Red
						}
						return []console.Cell{console.Plain(o.Name), console.Plain(o.Version), workers, console.Plain(strconv.Itoa(o.Pending)), console.Plain(console.LocalTime(o.Oldest))}
					})
			})
		},
	}
	h.AddPlaceTo(cmd)
	return cmd
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
