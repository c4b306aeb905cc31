package actions

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/abidehq/abide/internal/cli/connect"
	"github.com/abidehq/abide/internal/cli/console"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/server/api"
)

func newSchedulesList() *cobra.Command {
	var d connect.Home
	var p console.Paging
	var watching console.Watching
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List schedules, in the order of their next run",
		Example: `  abide schedules list
  abide schedules list -o json`,
		Args: console.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return d.UseActions(cmd, false, func(ctx context.Context, actions connect.ActionsAPI) error {
				return scheduleRows.PrintPages(ctx, cmd, &d.Out, p, watching.Watch, func(ctx context.Context, limit int, cursor string) ([]action.Schedule, string, error) {
					page, err := actions.ListSchedules(ctx, action.ScheduleFilter{Tenant: d.Tenant, Limit: limit, Cursor: cursor})
					return page.Schedules, page.Next, err
				})
			})
		},
	}
	p.AddTo(cmd)
	watching.AddTo(cmd)
	d.AddTo(cmd)
	return cmd
}

func newSchedulesShow() *cobra.Command {
	return connect.Verb(&cobra.Command{
		Use:     "show ID",
		Short:   "Show a schedule and its next runs",
		Example: "  abide schedules show nightly",
	}, scheduleID, connect.Backend.Actions, func(ctx context.Context, actions connect.ActionsAPI, tenant, id string) (action.Schedule, error) {
		return actions.GetSchedule(ctx, tenant, id)
	}, func(cmd *cobra.Command, out *console.Output, s action.Schedule) error {
		return out.Print(cmd.OutOrStdout(), api.FromSchedule(s), func(w io.Writer) error { return showSchedule(w, &s) })
	})
}

// showSchedule prints all there is about a schedule.
func showSchedule(w io.Writer, s *action.Schedule) error {
	fields := [][2]string{
		{"id", s.ID},
		{"tenant", s.Tenant},
		{"slug", s.Slug},
		{"target", s.Target},
		{"warning", s.Warning},
		{"rhythm", rhythmOf(&s.Plan)},
		{"status", string(s.Status)},
		{"reason", s.Reason},
		{"paused", console.LocalTime(s.PausedAt)},
		{"payload", string(s.Payload)},
		{"idempotent", console.YesNo(s.Idempotent)},
		{"overlap", string(s.Overlap)},
		{"catch-up", catchUpOf(&s.Plan)},
	}
	if s.Cron != "" {
		fields = append(fields, [2]string{"gap", s.Gap.String()}, [2]string{"fold", s.Fold.String()})
	}
	if s.Jitter > 0 {
		fields = append(fields, [2]string{"jitter", "up to " + console.Readable(s.Jitter)})
	}
	runs := strconv.Itoa(s.Runs)
	if s.Count > 0 {
		runs += " of " + strconv.Itoa(s.Count)
	}
	fields = append(fields,
		[2]string{"from", console.LocalTime(s.From)},
		[2]string{"until", console.LocalTime(s.Until)},
		[2]string{"runs", runs},
		[2]string{"last", console.LocalTime(s.Last)},
		[2]string{"last action", s.Current},
		[2]string{"queued", console.LocalTime(s.Queued)},
		[2]string{"created", console.LocalTime(s.CreatedAt)},
		[2]string{"updated", console.LocalTime(s.UpdatedAt)},
	)
	if err := console.WriteFields(w, fields); err != nil {
		return err
	}
	if s.Status != action.Active {
		return nil
	}
	next, err := previewSchedule(s, base.System{}.Now(), 3)
	if err != nil {
		return err
	}
	fmt.Fprintln(w, "next:")
	return writeRuns(w, "  ", next)
}

// catchUpOf says which runs are made that were missed.
func catchUpOf(p *action.Plan) string {
	if p.CatchUp != action.CatchUpAll {
		return string(p.CatchUp)
	}
	return fmt.Sprintf("all of the last %s, at most %d", console.Readable(p.Window), p.Cap)
}
