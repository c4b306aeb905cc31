package cli

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/server/api"
)

// actionsList is the verb: abide actions list.
type actionsList struct {
	home
	paging
	watching
	filter   action.Filter
	statuses []string
	from, to string
}

func newActionsList() *cobra.Command {
	l := &actionsList{}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List actions",
		Long: `List actions in the order of time: of when they are due if they are pending, began if they
run, and ended otherwise.

` + timeHelp,
		Example: `  abide actions list
  abide actions list --status failed --from -24h
  abide actions list --slug billing --latest --limit 5 -o json`,
		Args: noArgs,
		RunE: l.run,
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&l.filter.Slug, "slug", "", "those with that slug")
	f.StringSliceVar(&l.statuses, "status", nil, "those with one of these statuses: pending, running, completed, failed, cancelled, skipped")
	f.StringVar(&l.from, "from", "", "those due, begun or ended at that time or later")
	f.StringVar(&l.to, "to", "", "those due, begun or ended before that time")
	f.BoolVar(&l.filter.Descending, "latest", false, "the latest first")
	l.paging.addTo(cmd)
	l.watching.addTo(cmd)
	l.home.addTo(cmd)
	return cmd
}

func (l *actionsList) run(cmd *cobra.Command, _ []string) error {
	l.filter.Tenant = l.tenant
	for _, status := range l.statuses {
		l.filter.Statuses = append(l.filter.Statuses, action.Status(status))
	}
	var err error
	now := base.System{}.Now()
	if l.filter.From, err = parseTime("from", l.from, now, time.Local); err != nil {
		return err
	}
	if l.filter.To, err = parseTime("to", l.to, now, time.Local); err != nil {
		return err
	}
	return l.useActions(cmd, false, func(ctx context.Context, actions actionsAPI) error {
		read := func(ctx context.Context) ([]action.Action, string, error) {
			return readPages(l.paging, func(limit int, cursor string) ([]action.Action, string, error) {
				page, err := actions.List(ctx, l.filter, limit, cursor)
				return page.Actions, page.Next, err
			})
		}
		if l.watch {
			return newWatch(cmd, &l.out, actionTitles...).poll(ctx, func(ctx context.Context) ([]item, bool, error) {
				found, next, err := read(ctx)
				return itemsOf(found, func(a *action.Action) item {
					return item{[2]string{a.Tenant, a.ID}, api.FromAction(*a), actionRow(a)}
				}), next == "", err
			})
		}
		found, next, err := read(ctx)
		if err != nil {
			return err
		}
		list := api.ActionList{Actions: make([]api.Action, len(found)), NextPageToken: next}
		for i, a := range found {
			list.Actions[i] = api.FromAction(a)
		}
		if err := l.out.print(cmd.OutOrStdout(), list, actionsTable(found)); err != nil {
			return err
		}
		l.paging.sayMore(cmd, &l.out, "actions", len(found), next)
		return nil
	})
}

// actionTitles are the columns of actions.
var actionTitles = []string{"ID", "SLUG", "STATUS", "WHEN", "TOOK", "REASON"}

func actionRow(a *action.Action) []cell {
	return []cell{
		plain(a.ID), plain(a.Slug), statusCell(a.Status), plain(localTime(whenOf(a))), plain(tookOf(a)), plain(shorten(a.Reason, 60)),
	}
}

// actionsTable returns what prints actions as a table.
func actionsTable(actions []action.Action) func(io.Writer) error {
	return func(w io.Writer) error {
		if len(actions) == 0 {
			return nil
		}
		t := newTable(w, actionTitles...)
		for i := range actions {
			t.add(actionRow(&actions[i])...)
		}
		return t.write(w)
	}
}

// whenOf returns when an action is due, began or ended.
func whenOf(a *action.Action) time.Time {
	switch a.Status {
	case action.Pending:
		return a.Due()
	case action.Running:
		return a.StartedAt
	default:
		return a.EndedAt
	}
}

// tookOf returns how long the last run took, if there was one.
func tookOf(a *action.Action) string {
	if a.Status == action.Running || a.Outcome.Duration == 0 {
		return ""
	}
	return readable(a.Outcome.Duration)
}
