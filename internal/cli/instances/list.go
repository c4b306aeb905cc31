package instances

import (
	"context"

	"github.com/abidehq/abide/internal/cli/connect"
	"github.com/abidehq/abide/internal/cli/console"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide"
)

// instancesList is the verb: abide instances list.
type instancesList struct {
	connect.Home
	console.Paging
	console.Watching
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

` + console.TimeHelp,
		Example: `  abide instances list --latest
  abide instances list --status failed,stalled --from -24h
  abide instances list --orchestration order --tag customer=7 -o json
  abide instances list --status stalled --all-tenants --watch`,
		Args: console.NoArgs,
		RunE: l.run,
	}
	f := cmd.Flags()
	f.SortFlags = false
	l.flags.AddTo(cmd)
	f.BoolVar(&l.latest, "latest", false, "the latest first")
	l.Paging.AddTo(cmd)
	l.Watching.AddTo(cmd)
	l.Home.AddTo(cmd)
	return cmd
}

func (l *instancesList) run(cmd *cobra.Command, _ []string) error {
	filter, err := l.flags.filter(cmd, l.Tenant)
	if err != nil {
		return err
	}
	filter.Descending = l.latest || l.Watch
	return l.UseEngine(cmd, false, func(ctx context.Context, engine *abide.Client) error {
		read := func(ctx context.Context) ([]abide.Info, string, error) {
			return console.ReadPages(l.Paging, func(limit int, cursor string) ([]abide.Info, string, error) {
				filter.Limit, filter.Cursor = limit, cursor
				page, err := engine.List(ctx, filter)
				return page.Instances, page.Next, err
			})
		}
		if l.Watch {
			w := &instancesWatch{
				Watch: console.NewWatch(cmd, &l.Out, instanceTitles(l.flags.tenants)...), engine: engine, filter: filter, tenants: l.flags.tenants, read: read,
			}
			return w.run(ctx)
		}
		found, next, err := read(ctx)
		if err != nil {
			return err
		}
		list := WireInstances(found, next)
		if err := l.Out.Print(cmd.OutOrStdout(), list, instancesTable(found, l.flags.tenants)); err != nil {
			return err
		}
		l.Paging.SayMore(cmd, &l.Out, "instances", len(found), next)
		return nil
	})
}
