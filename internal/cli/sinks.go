package cli

import (
	"context"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/remote"
	"github.com/abidehq/abide/server/api"
)

func newSinks() *cobra.Command {
	return group(
		&cobra.Command{
			Use:     "sinks",
			Aliases: []string{"sink"},
			Short:   "List sinks of timers and their backlog",
			Long: `A sink is where what timers publish goes: a broker, or a webhook of somebody.

` + homeHelp,
		},
		newSinksList(),
	)
}

func newSinksList() *cobra.Command {
	var h home
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List sinks",
		Long:    "List the sinks that the server is configured with, and those for which something waits.",
		Example: "  abide sinks list",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return h.use(cmd, false, func(ctx context.Context, b backend) error {
				found, err := b.sinks(ctx)
				if err != nil {
					return err
				}
				return h.printAll(cmd, "sinks", api.SinkList{Sinks: append([]api.Sink{}, found...)}, len(found),
					[]string{"NAME", "CONFIGURED", "PENDING", "READY", "OLDEST", "FAILED"}, func(i int) []cell {
						s := &found[i]
						failed := plain(strconv.Itoa(s.Failed))
						if s.Failed > 0 {
							failed.colour = red
						}
						return []cell{
							plain(s.Name), plain(yesNo(s.Configured)), plain(strconv.Itoa(s.Pending)), plain(strconv.Itoa(s.Ready)),
							plain(localTime(s.Oldest)), failed,
						}
					})
			})
		},
	}
	h.addPlaceTo(cmd)
	return cmd
}

func newDeliveries() *cobra.Command {
	return group(
		&cobra.Command{
			Use:     "deliveries",
			Aliases: []string{"delivery"},
			Short:   "List deliveries of fired timers and publish them again",
			Long: `A delivery is what became of the envelope of a timer that has fired, at one of its sinks: it is
pending, published, retrying, or has failed.

` + homeHelp,
		},
		newDeliveriesList(), newDeliveriesRedeliver(),
	)
}

// deliveryStates are those that deliveries can have.
var deliveryStates = []string{"pending", "published", "retrying", "failed"}

// deliveriesList is the verb: abide deliveries list.
type deliveriesList struct {
	home
	paging
	watching
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
		Args: noArgs,
		RunE: l.run,
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&l.filter.Sink, "sink", "", "those to that sink")
	f.StringVar(&l.filter.State, "state", "", "those in that state: "+listOf(deliveryStates))
	f.BoolVar(&l.tenants, "all-tenants", false, "those of all tenants")
	l.paging.addTo(cmd)
	l.watching.addTo(cmd)
	l.home.addTo(cmd)
	return cmd
}

func (l *deliveriesList) run(cmd *cobra.Command, _ []string) error {
	l.filter.Tenant = l.tenant
	if l.tenants {
		if cmd.Flags().Changed("tenant") {
			return usage("--tenant and --all-tenants exclude each other")
		}
		l.filter.Tenant = ""
	}
	if l.filter.State != "" {
		if _, err := oneOf("state", []string{l.filter.State}, deliveryStates); err != nil {
			return err
		}
	}
	return l.use(cmd, false, func(ctx context.Context, b backend) error {
		read := func(ctx context.Context) ([]api.Delivery, string, error) {
			return readPages(l.paging, func(limit int, cursor string) ([]api.Delivery, string, error) {
				page, err := b.deliveries(ctx, l.filter, limit, cursor)
				return page.Deliveries, page.NextPageToken, err
			})
		}
		if l.watch {
			return newWatch(cmd, &l.out, deliveryTitles...).poll(ctx, func(ctx context.Context) ([]item, bool, error) {
				found, next, err := read(ctx)
				return itemsOf(found, func(d *api.Delivery) item {
					return item{[2]string{d.Tenant, d.EnvelopeID + " " + d.Sink}, *d, deliveryRow(d)}
				}), next == "", err
			})
		}
		found, next, err := read(ctx)
		if err != nil {
			return err
		}
		list := api.DeliveryList{Deliveries: append([]api.Delivery{}, found...), NextPageToken: next}
		if err := l.out.print(cmd.OutOrStdout(), list, deliveriesTable(found)); err != nil {
			return err
		}
		l.paging.sayMore(cmd, &l.out, "deliveries", len(found), next)
		return nil
	})
}

// deliveryTitles are the columns of deliveries.
var deliveryTitles = []string{"KEY", "TENANT", "SINK", "STATE", "FIRED", "ATTEMPTS", "NEXT", "ERROR"}

func deliveryRow(d *api.Delivery) []cell {
	return []cell{
		plain(d.Key), plain(d.Tenant), plain(d.Sink), statusCell(d.State), plain(localTime(d.FiredAt)),
		plain(strconv.Itoa(d.Attempts)), plain(localTime(d.Next)), plain(shorten(d.Error, 80)),
	}
}

func deliveriesTable(found []api.Delivery) func(io.Writer) error {
	return func(w io.Writer) error {
		if len(found) == 0 {
			return nil
		}
		t := newTable(w, deliveryTitles...)
		for i := range found {
			t.add(deliveryRow(&found[i])...)
		}
		return t.write(w)
	}
}

func newDeliveriesRedeliver() *cobra.Command {
	var h home
	var sink string
	cmd := &cobra.Command{
		Use:   "redeliver KEY... --sink SINK",
		Short: "Publish the envelope of a fired timer again",
		Long: `Publish the envelopes of timers that have fired to a sink once more, with the same envelope ID. At
a store that nobody serves, that happens when somebody does.`,
		Example: "  abide deliveries redeliver reminder-7 --sink billing --tenant acme",
		Args:    someArgs("the keys of timers"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if sink == "" {
				return usage("--sink is needed; 'abide sinks list' shows them")
			}
			return h.useTimers(cmd, false, func(ctx context.Context, timers timersAPI) error {
				found, err := each(args, func(key string) ([]api.Delivery, error) {
					t, err := timers.Redeliver(ctx, h.tenant, key, sink)
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
				return joined(h.out.print(cmd.OutOrStdout(), all, deliveriesTable(all)), err)
			})
		},
	}
	cmd.Flags().StringVar(&sink, "sink", "", "where to")
	h.addTo(cmd)
	return cmd
}
