package actions

import (
	"context"
	"io"
	"time"

	"github.com/abidehq/abide/internal/cli/connect"
	"github.com/abidehq/abide/internal/cli/console"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/server/api"
)

// actionsList is the verb: abide actions list.
type actionsList struct {
	connect.Home
	console.Paging
	console.Watching
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

` + console.TimeHelp,
		Example: `  abide actions list
  abide actions list --status failed --from -24h
  abide actions list --slug billing --latest --limit 5 -o json`,
		Args: console.NoArgs,
		RunE: l.run,
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&l.filter.Slug, "slug", "", "those with that slug")
	f.StringSliceVar(&l.statuses, "status", nil, "those with one of these statuses: pending, running, completed, failed, cancelled, skipped")
	f.StringVar(&l.from, "from", "", "those due, begun or ended at that time or later")
	f.StringVar(&l.to, "to", "", "those due, begun or ended before that time")
	f.BoolVar(&l.filter.Descending, "latest", false, "the latest first")
	l.Paging.AddTo(cmd)
	l.Watching.AddTo(cmd)
	l.Home.AddTo(cmd)
	return cmd
}

func (l *actionsList) run(cmd *cobra.Command, _ []string) error {
	l.filter.Tenant = l.Tenant
	for _, status := range l.statuses {
		l.filter.Statuses = append(l.filter.Statuses, action.Status(status))
	}
	var err error
	now := base.System{}.Now()
	if l.filter.From, err = console.ParseTime("from", l.from, now, time.Local); err != nil {
		return err
	}
	if l.filter.To, err = console.ParseTime("to", l.to, now, time.Local); err != nil {
		return err
	}
	return l.UseActions(cmd, false, func(ctx context.Context, actions connect.ActionsAPI) error {
		read := func(ctx context.Context) ([]action.Action, string, error) {
			return console.ReadPages(l.Paging, func(limit int, cursor string) ([]action.Action, string, error) {
				page, err := actions.List(ctx, l.filter, limit, cursor)
				return page.Actions, page.Next, err
			})
		}
		if l.Watch {
			return console.NewWatch(cmd, &l.Out, actionTitles...).Poll(ctx, func(ctx context.Context) ([]console.Item, bool, error) {
				found, next, err := read(ctx)
				return console.ItemsOf(found, func(a *action.Action) console.Item {
					return console.Item{Key: [2]string{a.Tenant, a.ID}, Value: api.FromAction(*a), Row: actionRow(a)}
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
		if err := l.Out.Print(cmd.OutOrStdout(), list, actionsTable(found)); err != nil {
			return err
		}
		l.Paging.SayMore(cmd, &l.Out, "actions", len(found), next)
		return nil
	})
}

// actionTitles are the columns of actions.
var actionTitles = []string{"ID", "SLUG", "STATUS", "WHEN", "TOOK", "REASON"}

func actionRow(a *action.Action) []console.Cell {
	return []console.Cell{
		console.Plain(a.ID), console.Plain(a.Slug), console.StatusCell(a.Status), console.Plain(console.LocalTime(whenOf(a))), console.Plain(tookOf(a)), console.Plain(console.Shorten(a.Reason, 60)),
	}
}

// actionsTable returns what prints actions as a table.
func actionsTable(actions []action.Action) func(io.Writer) error {
	return func(w io.Writer) error {
		if len(actions) == 0 {
			return nil
		}
		t := console.NewTable(w, actionTitles...)
		for i := range actions {
			t.Add(actionRow(&actions[i])...)
		}
		return t.Write(w)
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
	return console.Readable(a.Outcome.Duration)
}
