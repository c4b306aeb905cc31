package workers

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/cli/connect"
	"github.com/abidehq/abide/internal/cli/console"
	"github.com/abidehq/abide/server/api"
)

// workerName is what the commands about one worker take.
const workerName = "the name or the ID of a worker"

// find returns the live worker with a name or an ID. A name that several have is not enough.
func find(ctx context.Context, engine *abide.Client, name string) (abide.Worker, error) {
	all, err := engine.Workers(ctx)
	if err != nil {
		return abide.Worker{}, err
	}
	var ids []string
	var found abide.Worker
	for i := range all {
		if all[i].ID == name {
			return all[i], nil
		}
		if all[i].Name == name {
			found = all[i]
			ids = append(ids, all[i].ID)
		}
	}
	switch len(ids) {
	case 0:
		return abide.Worker{}, fmt.Errorf("worker %q: no live worker has that name or ID: %w", name, abide.ErrNotFound)
	case 1:
		return found, nil
	}
	slices.Sort(ids)
	return abide.Worker{}, console.Usage("%d workers are called %q; name one by its ID: %s", len(ids), name, strings.Join(ids, ", "))
}

// usage returns how many slots are used, of how many if that is known.
func usage(used, of int) string {
	if of == 0 {
		return strconv.Itoa(used)
	}
	return fmt.Sprintf("%d/%d", used, of)
}

// state returns whether a worker claims.
func state(w *abide.Worker) string {
	switch {
	case !w.Draining:
		return "serving"
	case w.Drained:
		return "drained"
	default:
		return "draining"
	}
}

// shown is a worker with what it has leased, as JSON.
type shown struct {
	api.Worker
	Leases []api.Held `json:"leases"`
}

func newWorkersShow() *cobra.Command {
	var h connect.Home
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show a worker and what it works on",
		Long:  "Show a worker, by its name or ID, and the turns and activities that it has leased now.",
		Example: `  abide workers show shop
  abide workers show shop -o json`,
		Args: console.OneArg(workerName),
		RunE: func(cmd *cobra.Command, args []string) error {
			return h.UseEngine(cmd, false, func(ctx context.Context, engine *abide.Client) error {
				w, err := find(ctx, engine, args[0])
				if err != nil {
					return err
				}
				held, err := engine.Held(ctx, w.ID)
				if err != nil {
					return err
				}
				out := shown{Worker: api.FromWorker(&w), Leases: make([]api.Held, len(held))}
				for i := range held {
					out.Leases[i] = api.FromHeld(&held[i])
				}
				return h.Out.Print(cmd.OutOrStdout(), out, func(to io.Writer) error { return showWorker(to, &w, held) })
			})
		},
	}
	h.AddPlaceTo(cmd)
	return cmd
}

// showWorker prints all there is about a worker.
func showWorker(to io.Writer, w *abide.Worker, held []abide.Held) error {
	err := console.WriteFields(to, [][2]string{
		{"id", w.ID},
		{"name", w.Name},
		{"process", w.Host + ":" + strconv.Itoa(w.PID)},
		{"version", w.Version},
		{"build", w.Build},
		{"state", state(w)},
		{"seen", seen(w.SeenAt, base.System{}.Now())},
		{"started", console.LocalTime(w.StartedAt)},
		{"turns", usage(w.Turns, w.TurnSlots)},
		{"activities", usage(w.Running, w.RunSlots)},
		{"cached", strconv.Itoa(w.Cached)},
		{"orchestrations", strings.Join(w.Orchestrations, ", ")},
		{"serves", strings.Join(slices.Concat(w.Activities, w.Targets), ", ")},
	})
	if err != nil || len(held) == 0 {
		return err
	}
	if _, err := fmt.Fprintln(to, "works on"); err != nil {
		return err
	}
	for i := range held {
		h := &held[i]
		what := "turn of " + h.Route
		if h.Activity {
			what = "activity " + h.Route
		}
		if _, err := fmt.Fprintf(to, "  %s of tenant %s: %s, leased until %s\n", h.Ref.ID, h.Ref.Tenant, what, console.LocalTime(h.Until)); err != nil {
			return err
		}
	}
	return nil
}

func newWorkersDrain() *cobra.Command {
	var h connect.Home
	var sure console.Consent
	cmd := &cobra.Command{
		Use:   "drain NAME",
		Short: "Have a worker take nothing new, and finish what it has begun",
		Long: `Drain a worker, by its name or ID: it gets nothing new, ends what is under way, and serves nothing
until its program is started again. Its engine goes on as a client, and the program learns of it by
Engine.Drained. A worker of another process heeds it with its next report, within 20 seconds.

` + console.ConsentHelp,
		Example: `  abide workers drain shop --yes
  abide workers list --watch`,
		Args: console.OneArg(workerName),
		RunE: func(cmd *cobra.Command, args []string) error {
			return h.UseEngine(cmd, false, func(ctx context.Context, engine *abide.Client) error {
				w, err := find(ctx, engine, args[0])
				if err != nil {
					return err
				}
				if err := sure.Ask(cmd, "Drain worker "+w.Name+", process "+strconv.Itoa(w.PID)+" on "+w.Host+"?"); err != nil {
					return err
				}
				if err := engine.DrainWorker(ctx, w.ID); err != nil {
					return err
				}
				return h.Out.Print(cmd.OutOrStdout(), map[string]string{"draining": w.ID}, func(to io.Writer) error {
					_, err := fmt.Fprintf(to, "worker %s drains\n", w.Name)
					return err
				})
			})
		},
	}
	sure.AddTo(cmd)
	h.AddPlaceTo(cmd)
	return cmd
}
