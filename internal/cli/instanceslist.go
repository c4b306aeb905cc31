package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide"
)

// instancesList is the verb: abide instances list.
type instancesList struct {
	home
	paging
	watching
	flags  instanceFilter
	latest bool
}

func newInstancesList() *cobra.Command {
	l := &instancesList{}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List instances",
		Long: `List instances in the order in which they were started.

With --watch it prints them, and then each one that changes, until it is interrupted.

` + timeHelp,
		Example: `  abide instances list --latest
  abide instances list --status failed,stalled --from -24h
  abide instances list --orchestration order --tag customer=7 -o json
  abide instances list --status stalled --all-tenants --watch`,
		Args: noArgs,
		RunE: l.run,
	}
	f := cmd.Flags()
	f.SortFlags = false
	l.flags.addTo(cmd)
	f.BoolVar(&l.latest, "latest", false, "the latest first")
	l.paging.addTo(cmd)
	l.watching.addTo(cmd)
	l.home.addTo(cmd)
	return cmd
}

func (l *instancesList) run(cmd *cobra.Command, _ []string) error {
	filter, err := l.flags.filter(cmd, l.tenant)
	if err != nil {
		return err
	}
	filter.Descending = l.latest || l.watch
	return l.useEngine(cmd, false, func(ctx context.Context, engine *abide.Client) error {
		read := func(ctx context.Context) ([]abide.Info, string, error) {
			return readPages(l.paging, func(limit int, cursor string) ([]abide.Info, string, error) {
				filter.Limit, filter.Cursor = limit, cursor
				page, err := engine.List(ctx, filter)
				return page.Instances, page.Next, err
			})
		}
		if l.watch {
			w := &instancesWatch{
				watch: newWatch(cmd, &l.out, instanceTitles(l.flags.tenants)...), engine: engine, filter: filter, tenants: l.flags.tenants, read: read,
			}
			return w.run(ctx)
		}
		found, next, err := read(ctx)
		if err != nil {
			return err
		}
		list := wireInstances(found, next)
		if err := l.out.print(cmd.OutOrStdout(), list, instancesTable(found, l.flags.tenants)); err != nil {
			return err
		}
		l.paging.sayMore(cmd, &l.out, "instances", len(found), next)
		return nil
	})
}
