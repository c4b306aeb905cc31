package instances

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/abidehq/abide/internal/cli/connect"
	"github.com/abidehq/abide/internal/cli/console"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/server/api"
)

// instancesRaise is the verb: abide instances raise.
type instancesRaise struct {
	connect.Home
	data, id  string
	ifAwaited bool
	mustExist bool
	ended     bool
	unchecked bool
	keepFor   time.Duration
}

func newInstancesRaise() *cobra.Command {
	r := &instancesRaise{}
	cmd := &cobra.Command{
		Use:   "raise ID EVENT",
		Short: "Raise an event for an instance",
		Long: `Raise an event for an instance, and print what it has found: an instance that waits for it, or
why it is kept or dropped. Events of a name are kept in order until they are received. The
instance need not be there yet: the event waits for it.

An event for an instance that has ended is refused, and so is one whose payload does not fit
what the instance waits for; 'abide instances show' says what that is.`,
		Example: `  abide instances raise order-1 approved --data '{"by":"an operator"}'
  abide instances raise order-1 approved --data @approval.json --if-awaited
  abide instances raise order-1 paid --event-id payment-77`,
		Args: console.TwoArgs(instanceID, "the name of an event"),
		RunE: r.run,
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&r.data, "data", "", "JSON that comes with it; @FILE for that of a file, @- for standard input")
	f.BoolVar(&r.ifAwaited, "if-awaited", false, "drop it unless the instance waits for it when it arrives")
	f.BoolVar(&r.mustExist, "must-exist", false, "refuse it if the instance does not exist")
	f.BoolVar(&r.ended, "ignore-ended", false, "drop it if the instance has ended, instead of refusing it")
	f.BoolVar(&r.unchecked, "unchecked", false, "raise it whatever the instance is and waits for, with any payload")
	console.DurationVar(f, &r.keepFor, "keep-for", 0, "how long it waits for its instance to be started, if there is none; a week if not given")
	f.StringVar(&r.id, "event-id", "", "a name of your own: raising the same one twice raises one event, as long as the first has not arrived")
	r.Home.AddTo(cmd)
	return cmd
}

// raised is what programs read of an event.
type raised struct {
	Tenant string `json:"tenant"`
	ID     string `json:"id"`
	Event  string `json:"event"`
	api.Raised
}

func (r *instancesRaise) run(cmd *cobra.Command, args []string) error {
	data, err := console.ReadJSON(cmd, "data", r.data)
	if err != nil {
		return err
	}
	opts := []abide.RaiseOption{abide.Tenant(r.Tenant)}
	if r.ifAwaited {
		opts = append(opts, abide.IfAwaited())
	}
	if r.mustExist {
		opts = append(opts, abide.MustExist())
	}
	if r.ended {
		opts = append(opts, abide.IgnoreEnded())
	}
	if r.unchecked {
		opts = append(opts, abide.Unchecked())
	}
	switch {
	case r.keepFor < 0:
		return console.Usage("--keep-for is %v, which is negative", r.keepFor)
	case r.keepFor > 0:
		opts = append(opts, abide.KeepFor(r.keepFor))
	}
	if r.id != "" {
		opts = append(opts, abide.ID(r.id))
	}
	return r.UseEngine(cmd, false, func(ctx context.Context, engine *abide.Client) error {
		req, err := api.PrepareEvent(engine, args[0], args[1], data, opts...)
		if err != nil {
			return err
		}
		done, err := engine.Raise(ctx, req)
		if err != nil {
			return err
		}
		out := raised{Tenant: r.Tenant, ID: args[0], Event: args[1], Raised: api.FromRaised(args[1], &done[0])}
		return r.Out.Print(cmd.OutOrStdout(), out, func(w io.Writer) error {
			_, err := fmt.Fprintln(w, out.Text)
			return err
		})
	})
}

func newInstancesFork() *cobra.Command {
	var h connect.Home
	var event int
	var id string
	cmd := &cobra.Command{
		Use:   "fork ID --event N",
		Short: "Fork an instance: start a new one with its history up to an event",
		Long: `Start a new instance with the history of another one up to an event of its latest execution.
From there on it goes its own way. 'abide instances history' numbers the events.`,
		Example: `  abide instances fork order-1 --event 12
  abide instances fork order-1 --event 12 --id order-1-again`,
		Args: console.OneArg(instanceID),
		RunE: func(cmd *cobra.Command, args []string) error {
			if event < 1 {
				return console.Usage("--event is %d; the number of an event of the history is allowed, from 1 on", event)
			}
			return h.UseEngine(cmd, false, func(ctx context.Context, engine *abide.Client) error {
				ref, err := engine.Fork(ctx, refOf(&h, args[0]), event, id)
				if err != nil {
					return err
				}
				return printCurrent(ctx, &h, cmd, engine, ref)
			})
		},
	}
	cmd.Flags().IntVar(&event, "event", 0, "the last event of the history that the new one has")
	cmd.Flags().StringVar(&id, "id", "", "ID of the new one; without it there is a random one")
	h.AddTo(cmd)
	return cmd
}

func newInstancesMoveTimer() *cobra.Command {
	var h connect.Home
	var when console.Moment
	cmd := &cobra.Command{
		Use:   "move-timer ID TIMER",
		Short: "Change when the pending timers with a name fire",
		Long: `Give the pending timers of a name that an instance waits for another time. A wait for an event
that is bounded has a timer with the name of the event.

` + console.TimeHelp,
		Example: `  abide instances move-timer order-1 return-window --at now
  abide instances move-timer order-1 return-window --in 24h`,
		Args: console.TwoArgs(instanceID, "the name of a timer"),
		RunE: func(cmd *cobra.Command, args []string) error {
			at, err := when.Needed(base.System{}.Now())
			if err != nil {
				return err
			}
			return h.UseEngine(cmd, false, func(ctx context.Context, engine *abide.Client) error {
				ref := refOf(&h, args[0])
				if err := engine.MoveTimer(ctx, ref, args[1], at); err != nil {
					return err
				}
				return printCurrent(ctx, &h, cmd, engine, ref)
			})
		},
	}
	when.AddTo(cmd, "when it fires")
	h.AddTo(cmd)
	return cmd
}
