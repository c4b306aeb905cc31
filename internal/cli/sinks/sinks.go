package sinks

import (
	"context"
	"errors"
	"io"
	"strconv"

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
	var h connect.Home
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List sinks",
		Long:    "List the sinks that the server is configured with, and those for which something waits.",
		Example: "  abide sinks list",
		Args:    console.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return h.Use(cmd, false, func(ctx context.Context, b connect.Backend) error {
				found, err := b.Sinks(ctx)
				if err != nil {
					return err
				}
				return h.PrintAll(cmd, "sinks", api.SinkList{Sinks: append([]api.Sink{}, found...)}, len(found),
					[]string{"NAME", "CONFIGURED", "PENDING", "READY", "OLDEST", "FAILED"}, func(i int) []console.Cell {
						s := &found[i]
						failed := console.Plain(strconv.Itoa(s.Failed))
						if s.Failed > 0 {
							failed.Colour = console.Red
						}
						return []console.Cell{
							console.Plain(s.Name), console.Plain(console.YesNo(s.Configured)), console.Plain(strconv.Itoa(s.Pending)), console.Plain(strconv.Itoa(s.Ready)),
							console.Plain(console.LocalTime(s.Oldest)), failed,
						}
					})
			})
		},
	}
	h.AddPlaceTo(cmd)
	return cmd
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
	l.filter.Tenant = l.Tenant
	if l.tenants {
		if cmd.Flags().Changed("tenant") {
			return console.Usage("--tenant and --all-tenants exclude each other")
		}
		l.filter.Tenant = ""
	}
	if l.filter.State != "" {
		if _, err := console.OneOf("state", []string{l.filter.State}, DeliveryStates); err != nil {
			return err
		}
	}
	return l.Use(cmd, false, func(ctx context.Context, b connect.Backend) error {
		read := func(ctx context.Context) ([]api.Delivery, string, error) {
			return console.ReadPages(l.Paging, func(limit int, cursor string) ([]api.Delivery, string, error) {
				page, err := b.Deliveries(ctx, l.filter, limit, cursor)
				return page.Deliveries, page.NextPageToken, err
			})
		}
		if l.Watch {
			return console.NewWatch(cmd, &l.Out, deliveryTitles...).Poll(ctx, func(ctx context.Context) ([]console.Item, bool, error) {
				found, next, err := read(ctx)
				return console.ItemsOf(found, func(d *api.Delivery) console.Item {
					return console.Item{Key: [2]string{d.Tenant, d.EnvelopeID + " " + d.Sink}, Value: *d, Row: deliveryRow(d)}
				}), next == "", err
			})
		}
		found, next, err := read(ctx)
		if err != nil {
			return err
		}
		list := api.DeliveryList{Deliveries: append([]api.Delivery{}, found...), NextPageToken: next}
		if err := l.Out.Print(cmd.OutOrStdout(), list, deliveriesTable(found)); err != nil {
			return err
		}
		l.Paging.SayMore(cmd, &l.Out, "deliveries", len(found), next)
		return nil
	})
}

// deliveryTitles are the columns of deliveries.
var deliveryTitles = []string{"KEY", "TENANT", "SINK", "STATE", "FIRED", "ATTEMPTS", "NEXT", "ERROR"}

func deliveryRow(d *api.Delivery) []console.Cell {
	return []console.Cell{
		console.Plain(d.Key), console.Plain(d.Tenant), console.Plain(d.Sink), console.StatusCell(d.State), console.Plain(console.LocalTime(d.FiredAt)),
		console.Plain(strconv.Itoa(d.Attempts)), console.Plain(console.LocalTime(d.Next)), console.Plain(console.Shorten(d.Error, 80)),
	}
}

func deliveriesTable(found []api.Delivery) func(io.Writer) error {
	return func(w io.Writer) error {
		if len(found) == 0 {
			return nil
		}
		t := console.NewTable(w, deliveryTitles...)
		for i := range found {
			t.Add(deliveryRow(&found[i])...)
		}
		return t.Write(w)
	}
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
				all := []api.Delivery{}
				for _, own := range found {
					all = append(all, own...)
				}
				return errors.Join(h.Out.Print(cmd.OutOrStdout(), all, deliveriesTable(all)), err)
			})
		},
	}
	cmd.Flags().StringVar(&sink, "sink", "", "where to")
	h.AddTo(cmd)
	return cmd
}
