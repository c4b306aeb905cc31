package actions

import (
	"context"
	"time"

	"github.com/abidehq/abide/internal/cli/connect"
	"github.com/abidehq/abide/internal/cli/console"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/server/api"
)

// actionsList is the verb: abide actions list.
type actionsList struct {
	connect.Home
	console.Paging
	console.Watching
	filter   action.Filter
	statuses []string
	period   console.Period
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
	l.period.AddTo(cmd, "those due, begun or ended at that time or later", "those due, begun or ended before that time")
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
	if l.filter.From, l.filter.To, err = l.period.Parse(); err != nil {
		return err
	}
	return l.UseActions(cmd, false, func(ctx context.Context, actions connect.ActionsAPI) error {
		return actionRows.PrintPages(ctx, cmd, &l.Out, l.Paging, l.Watch, func(ctx context.Context, limit int, cursor string) ([]action.Action, string, error) {
			l.filter.Limit, l.filter.Cursor = limit, cursor
			page, err := actions.List(ctx, l.filter)
			return page.Actions, page.Next, err
		})
	})
}

// actionRows prints actions.
var actionRows = console.Rows[action.Action, api.Action]{
	Noun:   "actions",
	Titles: []string{"ID", "SLUG", "STATUS", "WHEN", "TOOK", "REASON"},
	Row: func(a *action.Action) []console.Cell {
		return console.Row(a.ID, a.Slug, console.StatusCell(a.Status), whenOf(a), tookOf(a), console.Shorten(a.Reason, 60))
	},
	Wire: func(a *action.Action) api.Action { return api.FromAction(*a) },
	Key:  func(a *action.Action) [2]string { return [2]string{a.Tenant, a.ID} },
	Page: func(all []api.Action, next string) any { return api.ActionList{Actions: all, NextPageToken: next} },
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
