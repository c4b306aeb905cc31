package timers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/abidehq/abide/internal/cli/connect"
	"github.com/abidehq/abide/internal/cli/console"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/timer"
)

// TimerStatuses are those that timers can have.
var TimerStatuses = []timer.Status{timer.Armed, timer.Fired, timer.Cancelled}

// timerFilter says which timers are meant.
type timerFilter struct {
	period              console.Period
	correlation, prefix string
}

// AddTo gives a command the flags.
func (t *timerFilter) AddTo(cmd *cobra.Command) {
	f := cmd.Flags()
	t.period.AddTo(cmd, "those due, fired or cancelled at that time or later", "those due, fired or cancelled before that time")
	f.StringVar(&t.correlation, "correlation-id", "", "those with that correlation ID")
	f.StringVar(&t.prefix, "prefix", "", "those whose key begins so")
}

// filter returns what the flags say.
func (t *timerFilter) filter(tenant string) (timer.Filter, error) {
	f := timer.Filter{Tenant: tenant, CorrelationID: t.correlation, KeyPrefix: t.prefix}
	var err error
	f.From, f.To, err = t.period.Parse()
	return f, err
}

// timersList is the verb: abide timers list.
type timersList struct {
	connect.Home
	console.Paging
	console.Watching
	flags    timerFilter
	statuses []string
	tenants  bool
	latest   bool
}

func newTimersList() *cobra.Command {
	l := &timersList{}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List timers",
		Long: `List timers in the order of time: of when they are due if they are armed, and have fired or
were cancelled otherwise.

` + console.TimeHelp,
		Example: `  abide timers list --status armed
  abide timers list --status fired --latest --limit 10
  abide timers list --prefix reminder- --to +24h --all-tenants -o json`,
		Args: console.NoArgs,
		RunE: l.run,
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringSliceVar(&l.statuses, "status", nil, "those with one of these statuses: "+console.ListOf(TimerStatuses))
	l.flags.AddTo(cmd)
	f.BoolVar(&l.latest, "latest", false, "the latest first")
	f.BoolVar(&l.tenants, "all-tenants", false, "those of all tenants")
	l.Paging.AddTo(cmd)
	l.Watching.AddTo(cmd)
	l.Home.AddTo(cmd)
	return cmd
}

func (l *timersList) run(cmd *cobra.Command, _ []string) error {
	filter, err := l.filter(cmd)
	if err != nil {
		return err
	}
	rows := timerRows
	if l.tenants {
		rows = rows.WithTenant()
	}
	return l.UseTimers(cmd, false, func(ctx context.Context, timers connect.TimersAPI) error {
		return rows.PrintPages(ctx, cmd, &l.Out, l.Paging, l.Watch, func(ctx context.Context, limit int, cursor string) ([]timer.Timer, string, error) {
			filter.Limit, filter.Cursor = limit, cursor
			page, err := timers.List(ctx, filter)
			return page.Timers, page.Next, err
		})
	})
}

// filter returns what the flags say.
func (l *timersList) filter(cmd *cobra.Command) (timer.Filter, error) {
	filter, err := l.flags.filter(l.Tenant)
	if err != nil {
		return filter, err
	}
	if filter.Tenant, err = console.TenantOrAll(cmd, l.Tenant, l.tenants); err != nil {
		return filter, err
	}
	filter.Descending = l.latest
	filter.Statuses, err = console.OneOf("status", l.statuses, TimerStatuses)
	return filter, err
}

func newTimersShow() *cobra.Command {
	return connect.Verb(&cobra.Command{
		Use:     "show KEY",
		Short:   "Show a timer and its deliveries",
		Example: "  abide timers show reminder-7 --tenant acme",
	}, timerKey, connect.Backend.Timers, func(ctx context.Context, timers connect.TimersAPI, tenant, key string) (timer.Timer, error) {
		return timers.Get(ctx, tenant, key)
	}, func(cmd *cobra.Command, out *console.Output, t timer.Timer) error {
		return out.Print(cmd.OutOrStdout(), api.FromTimer(&t), func(w io.Writer) error { return showTimer(w, &t) })
	})
}

// showTimer prints all there is about a timer.
func showTimer(w io.Writer, t *timer.Timer) error {
	envelope := ""
	if t.Status == timer.Fired {
		envelope = t.EnvelopeID
	}
	err := console.WriteFields(w, [][2]string{
		{"key", t.Key},
		{"tenant", t.Tenant},
		{"status", string(t.Status)},
		{"due", console.LocalTime(t.DueAt)},
		{"registered", console.LocalTime(t.RegisteredAt)},
		{"fired", console.LocalTime(t.FiredAt)},
		{"cancelled", console.LocalTime(t.CancelledAt)},
		{"correlation", t.CorrelationID},
		{"payload", string(t.Payload)},
		{"envelope", envelope},
		{"armed", console.Times(int(t.Arming))},
		{"version", strconv.FormatInt(t.Version, 10)},
	})
	if err != nil || len(t.Deliveries) == 0 {
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	tab := console.NewTable(w, "SINK", "STATE", "ATTEMPTS", "AT", "NEXT", "ERROR")
	for _, d := range t.Deliveries {
		tab.Add(console.Row(d.Sink, console.StatusCell(d.State), d.Attempts, d.At, d.Next, d.Error)...)
	}
	return tab.Write(w)
}

func newTimersCancelAll() *cobra.Command {
	var h connect.Home
	var flags timerFilter
	var sure console.Consent
	cmd := &cobra.Command{
		Use:   "cancel-all",
		Short: "Cancel the armed timers of a tenant that match a filter",
		Long: `Cancel the armed timers of a tenant that match the filters: all of them if there are none.

` + console.ConsentHelp + "\n\n" + console.TimeHelp,
		Example: `  abide timers cancel-all --tenant acme --prefix reminder- --yes
  abide timers cancel-all --correlation-id order-9`,
		Args: console.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter, err := flags.filter(h.Tenant)
			if err != nil {
				return err
			}
			if err := sure.Ask(cmd, fmt.Sprintf("Cancel all armed timers of tenant %s that match?", h.Tenant)); err != nil {
				return err
			}
			return h.UseTimers(cmd, false, func(ctx context.Context, timers connect.TimersAPI) error {
				n, err := timers.CancelAll(ctx, filter)
				return errors.Join(h.Out.Print(cmd.OutOrStdout(), api.TimersCancelled{Cancelled: n}, func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "%d timers were cancelled\n", n)
					return err
				}), err)
			})
		},
	}
	cmd.Flags().SortFlags = false
	flags.AddTo(cmd)
	sure.AddTo(cmd)
	h.AddTo(cmd)
	return cmd
}
