package sinks

import (
	"context"
	"errors"
	"slices"

	"github.com/abidehq/abide/internal/cli/connect"
	"github.com/abidehq/abide/internal/cli/console"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/remote"
	"github.com/abidehq/abide/server/api"
)

// New returns the command abide sinks.
func New() *cobra.Command {
	return console.Group(
		&cobra.Command{
			Use:     "sinks",
			Aliases: []string{"sink"},
			Short:   "List sinks of timers and their backlog",
			Long: `A sink is a destination of the events that timers publish: a broker or a webhook.

` + connect.HomeHelp,
		},
		newSinksList(),
	)
}

func newSinksList() *cobra.Command {
	return connect.ListAll(&cobra.Command{
		Use:     "list",
		Short:   "List sinks",
		Long:    "List the sinks that the server is configured with, and those for which something waits.",
		Example: "  abide sinks list",
	}, sinkRows, func(ctx context.Context, b connect.Backend) ([]api.Sink, error) { return b.Sinks(ctx) })
}

// sinkRows prints sinks.
var sinkRows = console.Rows[api.Sink, api.Sink]{
	Noun:   "sinks",
	Titles: []string{"NAME", "CONFIGURED", "PENDING", "READY", "OLDEST", "FAILED"},
	Row: func(s *api.Sink) []console.Cell {
		return console.Row(s.Name, console.YesNo(s.Configured), s.Pending, s.Ready, s.Oldest, console.Alarm(s.Failed))
	},
	Wire: console.Same[api.Sink],
	Page: func(all []api.Sink, _ string) any { return api.SinkList{Sinks: all} },
}

// NewDeliveries returns the command abide deliveries.
func NewDeliveries() *cobra.Command {
	return console.Group(
		&cobra.Command{
			Use:     "deliveries",
			Aliases: []string{"delivery"},
			Short:   "List deliveries of fired timers and publish them again",
			Long: `A delivery is the state of the envelope of a fired timer at one of its sinks: it is
pending, published, retrying, or has failed.

` + connect.HomeHelp,
		},
		newDeliveriesList(), newDeliveriesRedeliver(),
	)
}

// DeliveryStates are those that deliveries can have.
var DeliveryStates = []string{"pending", "published", "retrying", "failed"}

// deliveriesList is the verb: abide deliveries list.
type deliveriesList struct {
	connect.Home
	console.Paging
	console.Watching
	filter  remote.DeliveryFilter
	tenants bool
}

func newDeliveriesList() *cobra.Command {
	l := &deliveriesList{}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List deliveries, the latest first",
		Example: `  abide deliveries list --state failed
  abide deliveries list --sink billing --all-tenants -o json`,
		Args: console.NoArgs,
		RunE: l.run,
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&l.filter.Sink, "sink", "", "those to that sink")
	f.StringVar(&l.filter.State, "state", "", "those in that state: "+console.ListOf(DeliveryStates))
	f.BoolVar(&l.tenants, "all-tenants", false, "those of all tenants")
	l.Paging.AddTo(cmd)
	l.Watching.AddTo(cmd)
	l.Home.AddTo(cmd)
	return cmd
}

func (l *deliveriesList) run(cmd *cobra.Command, _ []string) error {
	var err error
	if l.filter.Tenant, err = console.TenantOrAll(cmd, l.Tenant, l.tenants); err != nil {
		return err
	}
	if l.filter.State != "" {
		if _, err := console.OneOf("state", []string{l.filter.State}, DeliveryStates); err != nil {
			return err
		}
	}
	return l.Use(cmd, false, func(ctx context.Context, b connect.Backend) error {
		return deliveryRows.PrintPages(ctx, cmd, &l.Out, l.Paging, l.Watch, func(ctx context.Context, limit int, cursor string) ([]api.Delivery, string, error) {
			l.filter.Limit, l.filter.Cursor = limit, cursor
			page, err := b.Deliveries(ctx, l.filter)
			return page.Deliveries, page.NextPageToken, err
		})
	})
}

// deliveryRows prints deliveries.
var deliveryRows = console.Rows[api.Delivery, api.Delivery]{
	Noun:   "deliveries",
	Titles: []string{"KEY", "TENANT", "SINK", "STATE", "FIRED", "ATTEMPTS", "NEXT", "ERROR"},
	Row: func(d *api.Delivery) []console.Cell {
		return console.Row(d.Key, d.Tenant, d.Sink, console.StatusCell(d.State), d.FiredAt, d.Attempts, d.Next, console.Shorten(d.Error, 80))
	},
	Wire: console.Same[api.Delivery],
	Key:  func(d *api.Delivery) [2]string { return [2]string{d.Tenant, d.EnvelopeID + " " + d.Sink} },
	Page: func(all []api.Delivery, next string) any {
		return api.DeliveryList{Deliveries: all, NextPageToken: next}
	},
}

func newDeliveriesRedeliver() *cobra.Command {
	var h connect.Home
	var sink string
	cmd := &cobra.Command{
		Use:   "redeliver KEY... --sink SINK",
		Short: "Publish the envelope of a fired timer again",
		Long: `Publish the envelopes of timers that have fired to a sink once more, with the same envelope ID. At
a store without a running server, that happens when one is started.`,
		Example: "  abide deliveries redeliver reminder-7 --sink billing --tenant acme",
		Args:    console.SomeArgs("the keys of timers"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if sink == "" {
				return console.Usage("--sink is needed; 'abide sinks list' shows them")
			}
			return h.UseTimers(cmd, false, func(ctx context.Context, timers connect.TimersAPI) error {
				found, err := console.Each(args, func(key string) ([]api.Delivery, error) {
					t, err := timers.Redeliver(ctx, h.Tenant, key, sink)
					var own []api.Delivery
					for i := range t.Deliveries {
						if t.Deliveries[i].Sink == sink {
							own = append(own, api.FromTimerDelivery(&t, &t.Deliveries[i]))
						}
					}
					return own, err
				})
				return errors.Join(deliveryRows.PrintEach(cmd, &h.Out, slices.Concat(found...)), err)
			})
		},
	}
	cmd.Flags().StringVar(&sink, "sink", "", "where to")
	h.AddTo(cmd)
	return cmd
}
