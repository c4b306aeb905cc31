package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/timer"
)

// timerStatuses are those that timers can have.
var timerStatuses = []timer.Status{timer.Armed, timer.Fired, timer.Cancelled}

// timerFilter says which timers are meant.
type timerFilter struct {
	from, to, correlation, prefix string
}

// addTo gives a command the flags.
func (t *timerFilter) addTo(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&t.from, "from", "", "those due, fired or cancelled at that time or later")
	f.StringVar(&t.to, "to", "", "those due, fired or cancelled before that time")
	f.StringVar(&t.correlation, "correlation-id", "", "those with that correlation ID")
	f.StringVar(&t.prefix, "prefix", "", "those whose key begins so")
}

// filter returns what the flags say.
func (t *timerFilter) filter(tenant string) (timer.Filter, error) {
	f := timer.Filter{Tenant: tenant, CorrelationID: t.correlation, KeyPrefix: t.prefix}
	var err error
	now := base.System{}.Now()
	if f.From, err = parseTime("from", t.from, now, time.Local); err != nil {
		return f, err
	}
	f.To, err = parseTime("to", t.to, now, time.Local)
	return f, err
}

// timersList is the verb: abide timers list.
type timersList struct {
	home
	paging
	watching
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

` + timeHelp,
		Example: `  abide timers list --status armed
  abide timers list --status fired --latest --limit 10
  abide timers list --prefix reminder- --to +24h --all-tenants -o json`,
		Args: noArgs,
		RunE: l.run,
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringSliceVar(&l.statuses, "status", nil, "those with one of these statuses: "+listOf(timerStatuses))
	l.flags.addTo(cmd)
	f.BoolVar(&l.latest, "latest", false, "the latest first")
	f.BoolVar(&l.tenants, "all-tenants", false, "those of all tenants")
	l.paging.addTo(cmd)
	l.watching.addTo(cmd)
	l.home.addTo(cmd)
	return cmd
}

func (l *timersList) run(cmd *cobra.Command, _ []string) error {
	filter, err := l.filter(cmd)
	if err != nil {
		return err
	}
	return l.useTimers(cmd, false, func(ctx context.Context, timers timersAPI) error {
		read := func(ctx context.Context) ([]timer.Timer, string, error) {
			return readPages(l.paging, func(limit int, cursor string) ([]timer.Timer, string, error) {
				page, err := timers.List(ctx, filter, limit, cursor)
				return page.Timers, page.Next, err
			})
		}
		if l.watch {
			w := newWatch(cmd, &l.out, timerTitles(l.tenants)...)
			return w.poll(ctx, func(ctx context.Context) ([]item, bool, error) {
				found, next, err := read(ctx)
				return itemsOf(found, func(t *timer.Timer) item {
					return item{[2]string{t.Tenant, t.Key}, api.FromTimer(t), timerRow(t, l.tenants)}
				}), next == "", err
			})
		}
		found, next, err := read(ctx)
		if err != nil {
			return err
		}
		if err := l.out.print(cmd.OutOrStdout(), api.FromTimers(found, next), timersTable(found, l.tenants)); err != nil {
			return err
		}
		l.paging.sayMore(cmd, &l.out, "timers", len(found), next)
		return nil
	})
}

// filter returns what the flags say.
func (l *timersList) filter(cmd *cobra.Command) (timer.Filter, error) {
	filter, err := l.flags.filter(l.tenant)
	if err != nil {
		return filter, err
	}
	if l.tenants {
		if cmd.Flags().Changed("tenant") {
			return filter, usage("--tenant and --all-tenants exclude each other")
		}
		filter.Tenant = ""
	}
	filter.Descending = l.latest
	filter.Statuses, err = oneOf("status", l.statuses, timerStatuses)
	return filter, err
}

func newTimersShow() *cobra.Command {
	var h home
	cmd := &cobra.Command{
		Use:     "show KEY",
		Short:   "Show a timer and its deliveries",
		Example: "  abide timers show reminder-7 --tenant acme",
		Args:    oneArg(timerKey),
		RunE: func(cmd *cobra.Command, args []string) error {
			return h.useTimers(cmd, false, func(ctx context.Context, timers timersAPI) error {
				t, err := timers.Get(ctx, h.tenant, args[0])
				if err != nil {
					return err
				}
				return h.out.print(cmd.OutOrStdout(), api.FromTimer(&t), func(w io.Writer) error { return showTimer(w, &t) })
			})
		},
	}
	h.addTo(cmd)
	return cmd
}

// showTimer prints all there is about a timer.
func showTimer(w io.Writer, t *timer.Timer) error {
	envelope := ""
	if t.Status == timer.Fired {
		envelope = t.EnvelopeID
	}
	err := writeFields(w, [][2]string{
		{"key", t.Key},
		{"tenant", t.Tenant},
		{"status", string(t.Status)},
		{"due", localTime(t.DueAt)},
		{"registered", localTime(t.RegisteredAt)},
		{"fired", localTime(t.FiredAt)},
		{"cancelled", localTime(t.CancelledAt)},
		{"correlation", t.CorrelationID},
		{"payload", string(t.Payload)},
		{"envelope", envelope},
		{"armed", times(int(t.Arming))},
		{"version", strconv.FormatInt(t.Version, 10)},
	})
	if err != nil || len(t.Deliveries) == 0 {
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	tab := newTable(w, "SINK", "STATE", "ATTEMPTS", "AT", "NEXT", "ERROR")
	for _, d := range t.Deliveries {
		tab.add(plain(d.Sink), statusCell(d.State), plain(strconv.Itoa(d.Attempts)), plain(localTime(d.At)), plain(localTime(d.Next)), plain(d.Error))
	}
	return tab.write(w)
}

func newTimersCancelAll() *cobra.Command {
	var h home
	var flags timerFilter
	var sure consent
	cmd := &cobra.Command{
		Use:   "cancel-all",
		Short: "Cancel the armed timers of a tenant that match a filter",
		Long: `Cancel the armed timers of a tenant that match the filters: all of them if there are none.

` + consentHelp + "\n\n" + timeHelp,
		Example: `  abide timers cancel-all --tenant acme --prefix reminder- --yes
  abide timers cancel-all --correlation-id order-9`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter, err := flags.filter(h.tenant)
			if err != nil {
				return err
			}
			if err := sure.ask(cmd, fmt.Sprintf("Cancel all armed timers of tenant %s that match?", h.tenant)); err != nil {
				return err
			}
			return h.useTimers(cmd, false, func(ctx context.Context, timers timersAPI) error {
				n, err := timers.CancelAll(ctx, filter)
				return joined(h.out.print(cmd.OutOrStdout(), api.TimersCancelled{Cancelled: n}, func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "%d timers were cancelled\n", n)
					return err
				}), err)
			})
		},
	}
	cmd.Flags().SortFlags = false
	flags.addTo(cmd)
	sure.addTo(cmd)
	h.addTo(cmd)
	return cmd
}
