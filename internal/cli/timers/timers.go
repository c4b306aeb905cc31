package timers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/abidehq/abide/internal/cli/connect"
	"github.com/abidehq/abide/internal/cli/console"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/timer"
)

// New returns the command abide timers.
func New() *cobra.Command {
	return console.Group(
		&cobra.Command{
			Use:     "timers",
			Aliases: []string{"timer"},
			Short:   "Schedule timers of tenants, move and cancel them",
			Long: `A timer is an appointment of a tenant, under a key of its own. It is armed until it is due;
then it has fired, and DueTimeReached is published on the bus. Or it was cancelled before.

` + connect.HomeHelp,
		},
		newTimersSchedule(), newTimersList(), newTimersShow(), newTimersSnooze(), newTimersMove(),
		newTimersCancel(), newTimersCancelAll(), newTimersImport(),
	)
}

// timerKey is what most of the commands take.
const timerKey = "the key of a timer"

func newTimersSchedule() *cobra.Command {
	var h connect.Home
	var when console.Moment
	var r timer.Request
	var payload string
	cmd := &cobra.Command{
		Use:   "schedule KEY",
		Short: "Schedule a timer",
		Long: `Schedule a timer. If there is one with that key, it is moved, and its payload and correlation
ID are replaced; if that one has fired or was cancelled, it is armed again.

` + console.TimeHelp,
		Example: `  abide timers schedule reminder-7 --in 48h --payload '{"customer":7}'
  abide timers schedule invoice-9 --at 2026-12-01 --tenant acme --correlation-id order-9
  abide timers schedule reminder-7 --in 1h --if-absent`,
		Args: console.OneArg(timerKey),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			r.Tenant, r.Key = h.Tenant, args[0]
			if r.DueAt, err = when.Needed(base.System{}.Now()); err != nil {
				return err
			}
			if when.In > 0 {
				r.DueAt, r.Delay = time.Time{}, when.In // counted by the store's clock
			}
			if r.Payload, err = console.ReadPayload(cmd, payload); err != nil {
				return err
			}
			return h.UseTimers(cmd, true, func(ctx context.Context, timers connect.TimersAPI) error {
				t, err := timers.Schedule(ctx, r)
				if err != nil {
					return err
				}
				return timerRows.PrintOne(cmd, &h.Out, t)
			})
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	when.AddTo(cmd, "when it is due; a time in the past means at once")
	f.StringVar(&payload, "payload", "", "JSON that is published with it; @FILE for that of a file, @- for standard input")
	f.StringVar(&r.CorrelationID, "correlation-id", "", "ID of what led to it, which is published with it")
	f.BoolVar(&r.IfAbsent, "if-absent", false, "only if there is no timer with that key")
	f.Int64Var(&r.IfVersion, "if-version", 0, "only if the timer has that version")
	h.AddTo(cmd)
	return cmd
}

// timerVerb makes a command that does something to a timer and prints it.
func timerVerb(cmd *cobra.Command, do func(ctx context.Context, timers connect.TimersAPI, tenant, key string) (timer.Timer, error)) *cobra.Command {
	return connect.Verb(cmd, timerKey, connect.Backend.Timers, do, timerRows.PrintOne)
}

func newTimersSnooze() *cobra.Command {
	var d time.Duration
	cmd := timerVerb(&cobra.Command{
		Use:   "snooze KEY --for DURATION",
		Short: "Postpone a timer",
		Long: `Have a timer fire later: later than it was due if it is yet to be due, and later than now if it
is due or has fired, which arms it again.`,
		Example: "  abide timers snooze reminder-7 --for 1h",
	}, func(ctx context.Context, timers connect.TimersAPI, tenant, key string) (timer.Timer, error) {
		if d <= 0 {
			return timer.Timer{}, console.Usage("--for is %v; more than 0 is needed", d)
		}
		return timers.Snooze(ctx, tenant, key, d)
	})
	console.DurationVar(cmd.Flags(), &d, "for", 0, "by how much: 90s, 10m, 2h30m, or a number of seconds")
	return cmd
}

func newTimersMove() *cobra.Command {
	var when console.Moment
	cmd := timerVerb(&cobra.Command{
		Use:   "move KEY",
		Short: "Change when an armed timer fires",
		Long:  "Give an armed timer another time. Its payload and correlation ID stay.\n\n" + console.TimeHelp,
		Example: `  abide timers move reminder-7 --at "2026-12-24 09:00"
  abide timers move reminder-7 --at now`,
	}, func(ctx context.Context, timers connect.TimersAPI, tenant, key string) (timer.Timer, error) {
		at, err := when.Needed(base.System{}.Now())
		if err != nil {
			return timer.Timer{}, err
		}
		t, err := timers.Get(ctx, tenant, key)
		if err != nil {
			return t, err
		}
		if t.Status != timer.Armed {
			return t, fmt.Errorf("timer %s is %s, and cannot be moved; 'abide timers schedule' arms it again: %w", key, t.Status, timer.ErrState)
		}
		return timers.Schedule(ctx, timer.Request{
			Tenant: tenant, Key: key, DueAt: at, CorrelationID: t.CorrelationID, Payload: t.Payload, IfVersion: t.Version,
		})
	})
	when.AddTo(cmd, "when it is due; a time in the past means at once")
	return cmd
}

func newTimersCancel() *cobra.Command {
	var h connect.Home
	cmd := &cobra.Command{
		Use:     "cancel KEY...",
		Short:   "Cancel armed timers",
		Example: "  abide timers cancel reminder-7 reminder-8",
		Args:    console.SomeArgs("the keys of timers"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return h.UseTimers(cmd, false, func(ctx context.Context, timers connect.TimersAPI) error {
				done, err := console.Each(args, func(key string) (timer.Timer, error) { return timers.Cancel(ctx, h.Tenant, key) })
				return errors.Join(timerRows.PrintEach(cmd, &h.Out, done), err)
			})
		},
	}
	h.AddTo(cmd)
	return cmd
}

// timerRows prints timers.
var timerRows = console.Rows[timer.Timer, api.Timer]{
	Noun:   "timers",
	Titles: []string{"KEY", "STATUS", "DUE", "FIRED", "CORRELATION", "PAYLOAD"},
	Row: func(t *timer.Timer) []console.Cell {
		return console.Row(t.Key, console.StatusCell(t.Status), t.DueAt, t.FiredAt, t.CorrelationID, console.Shorten(string(t.Payload), 60))
	},
	Wire: api.FromTimer,
	Key:  func(t *timer.Timer) [2]string { return [2]string{t.Tenant, t.Key} },
	Page: func(all []api.Timer, next string) any { return api.TimerList{Timers: all, NextPageToken: next} },
}
