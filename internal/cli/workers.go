package cli

import (
	"context"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/server/api"
)

func newWorkers() *cobra.Command {
	return group(
		&cobra.Command{
			Use:     "workers",
			Aliases: []string{"worker"},
			Short:   "List workers, and names that no worker serves",
			Long: `A worker is a process that serves orchestrations and activities, or targets of actions, and was
seen within the last minute. A server that does both is two workers. What has messages waiting,
or schedules, and is served by none of them waits until one comes.

` + homeHelp,
		},
		newWorkersList(), newWorkersUnserved(),
	)
}

func newWorkersList() *cobra.Command {
	var h home
	var watching watching
	titles := []string{"ID", "NAME", "HOST", "PID", "VERSION", "STARTED", "SEEN", "TURNS", "ACTIVITIES", "SERVES"}
	row := func(w *abide.Worker) []cell {
		return []cell{
			plain(w.ID), plain(w.Name), plain(w.Host), plain(strconv.Itoa(w.PID)), plain(w.Version), plain(localTime(w.StartedAt)),
			plain(fromNow(w.SeenAt, base.System{}.Now())), plain(strconv.Itoa(w.Turns)), plain(strconv.Itoa(w.Running)),
			plain(strings.Join(slices.Concat(w.Orchestrations, w.Activities, w.Targets), ", ")),
		}
	}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List workers",
		Example: `  abide workers list
  abide workers list --watch`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return h.useEngine(cmd, false, func(ctx context.Context, engine *abide.Client) error {
				if watching.watch {
					return newWatch(cmd, &h.out, titles...).poll(ctx, func(ctx context.Context) ([]item, bool, error) {
						found, err := engine.Workers(ctx)
						return itemsOf(found, func(w *abide.Worker) item {
							return item{[2]string{"", w.ID}, api.FromWorker(w), row(w)}
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
				return h.printAll(cmd, "workers", list, len(found), titles, func(i int) []cell { return row(&found[i]) })
			})
		},
	}
	watching.addTo(cmd)
	h.addPlaceTo(cmd)
	return cmd
}

// printAll prints a list that has no pages.
func (h *home) printAll(cmd *cobra.Command, what string, list any, n int, titles []string, row func(i int) []cell) error {
	if n == 0 && !h.out.isJSON() {
		cmd.PrintErrf("there are no %s\n", what)
		return nil
	}
	return h.out.print(cmd.OutOrStdout(), list, func(w io.Writer) error {
		t := newTable(w, titles...)
		for i := range n {
			t.add(row(i)...)
		}
		return t.write(w)
	})
}

func newWorkersUnserved() *cobra.Command {
	var h home
	cmd := &cobra.Command{
		Use:     "unserved",
		Short:   "List names with pending work that no worker serves",
		Example: "  abide workers unserved",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return h.useEngine(cmd, false, func(ctx context.Context, engine *abide.Client) error {
				found, err := engine.Unserved(ctx)
				if err != nil {
					return err
				}
				list := api.UnservedList{Unserved: make([]api.Unserved, len(found))}
				for i, u := range found {
					list.Unserved[i] = api.Unserved(u)
				}
				return h.printAll(cmd, "orchestrations, activities or targets that nobody serves", list, len(found),
					[]string{"ROUTE", "KIND", "PENDING", "OLDEST", "SCHEDULES"}, func(i int) []cell {
						u := &found[i]
						return []cell{plain(u.Route), plain(kindOf(u)), plain(strconv.Itoa(u.Pending)), plain(localTime(u.Oldest)), plain(strconv.Itoa(u.Schedules))}
					})
			})
		},
	}
	h.addPlaceTo(cmd)
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

func newOrchestrations() *cobra.Command {
	return group(
		&cobra.Command{
			Use:   "orchestrations",
			Short: "List orchestrations and the workers that run them",
			Long: `An orchestration is a function, registered under a name and a version by the processes that
serve it.

` + homeHelp,
		},
		newOrchestrationsList(),
	)
}

func newOrchestrationsList() *cobra.Command {
	var h home
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List orchestrations that a worker runs or that have pending instances",
		Example: "  abide orchestrations list",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return h.useEngine(cmd, false, func(ctx context.Context, engine *abide.Client) error {
				found, err := readOrchestrations(ctx, engine)
				if err != nil {
					return err
				}
				return h.printAll(cmd, "orchestrations that somebody serves or waits for", api.OrchestrationList{Orchestrations: found}, len(found),
					[]string{"NAME", "VERSION", "WORKERS", "WAITING", "OLDEST"}, func(i int) []cell {
						o := &found[i]
						workers := cell{text: strconv.Itoa(len(o.Workers))}
						if len(o.Workers) == 0 {
							workers.colour = red
						}
						return []cell{plain(o.Name), plain(o.Version), workers, plain(strconv.Itoa(o.Pending)), plain(localTime(o.Oldest))}
					})
			})
		},
	}
	h.addPlaceTo(cmd)
	return cmd
}

// readOrchestrations returns what workers serve and what waits for one, in the order of names.
func readOrchestrations(ctx context.Context, engine *abide.Client) ([]api.Orchestration, error) {
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

// isUnserved reports whether an instance waits for a process that serves it. Who cannot be
// asked is taken to serve it.
func isUnserved(ctx context.Context, engine *abide.Client, info *abide.Info) bool {
	unserved, err := engine.Unserved(ctx)
	return err == nil && slices.ContainsFunc(unserved, func(u abide.Unserved) bool {
		return !u.Activity && !u.Target && u.Route == orchestrationOf(info)
	})
}
