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
	oldest bool
}

func newInstancesList() *cobra.Command {
	l := &instancesList{}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List instances",
		Long: `List instances, those that were started last first. The note of one that has completed is its
result.

With --watch it prints them, and then each one that changes, until it is interrupted.

` + console.TimeHelp,
		Example: `  abide instances list
  abide instances list --status failed,stalled --from -24h
  abide instances list --orchestration order --tag customer=7 -o json
  abide instances list --status stalled --all-tenants --watch`,
		Args: console.NoArgs,
		RunE: l.run,
	}
	f := cmd.Flags()
	f.SortFlags = false
	l.flags.AddTo(cmd)
	f.BoolVar(&l.oldest, "oldest", false, "the oldest first")
	f.Bool("latest", true, "the latest first, as without it")
	_ = f.MarkHidden("latest") // the default; scripts of earlier releases have it
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
	filter.Descending = !l.oldest || l.Watch
	rows := Rows
	if l.flags.tenants {
		rows = rows.WithTenant()
	}
	return l.UseEngine(cmd, false, func(ctx context.Context, engine *abide.Client) error {
		read := func(ctx context.Context, limit int, cursor string) ([]abide.Info, string, error) {
			filter.Limit, filter.Cursor = limit, cursor
			page, err := engine.List(ctx, filter)
			return page.Instances, page.Next, err
		}
		if feed, ok := engine.Transport().(abide.Watcher); ok && l.Watch {
			w := &instancesWatch{Watch: console.NewWatch(cmd, &l.Out, rows.Titles...), engine: engine, filter: filter, rows: rows, paging: l.Paging, read: read}
			return w.run(ctx, feed)
		}
		return rows.PrintPages(ctx, cmd, &l.Out, l.Paging, l.Watch, read)
	})
}
