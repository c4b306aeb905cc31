package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/server/api"
)

func newSchedulesList() *cobra.Command {
	var d home
	var p paging
	var watching watching
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List schedules, in the order of their next run",
		Example: `  abide schedules list
  abide schedules list -o json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return d.useActions(cmd, false, func(ctx context.Context, actions actionsAPI) error {
				read := func(ctx context.Context) ([]action.Schedule, string, error) {
					return readPages(p, func(limit int, cursor string) ([]action.Schedule, string, error) {
						page, err := actions.ListSchedules(ctx, d.tenant, limit, cursor)
						return page.Schedules, page.Next, err
					})
				}
				if watching.watch {
					return newWatch(cmd, &d.out, scheduleTitles...).poll(ctx, func(ctx context.Context) ([]item, bool, error) {
						found, next, err := read(ctx)
						return itemsOf(found, func(s *action.Schedule) item {
							return item{[2]string{s.Tenant, s.ID}, api.FromSchedule(*s), scheduleRow(s)}
						}), next == "", err
					})
				}
				found, next, err := read(ctx)
				if err != nil {
					return err
				}
				list := api.ScheduleList{Schedules: make([]api.Schedule, len(found)), NextPageToken: next}
				for i, s := range found {
					list.Schedules[i] = api.FromSchedule(s)
				}
				if err := d.out.print(cmd.OutOrStdout(), list, schedulesTable(found)); err != nil {
					return err
				}
				p.sayMore(cmd, &d.out, "schedules", len(found), next)
				return nil
			})
		},
	}
	p.addTo(cmd)
	watching.addTo(cmd)
	d.addTo(cmd)
	return cmd
}

func newSchedulesShow() *cobra.Command {
	var d home
	cmd := &cobra.Command{
		Use:     "show ID",
		Short:   "Show a schedule and its next runs",
		Example: "  abide schedules show nightly",
		Args:    oneArg(scheduleID),
		RunE: func(cmd *cobra.Command, args []string) error {
			return d.useActions(cmd, false, func(ctx context.Context, actions actionsAPI) error {
				s, err := actions.GetSchedule(ctx, d.tenant, args[0])
				if err != nil {
					return err
				}
				return d.out.print(cmd.OutOrStdout(), api.FromSchedule(s), func(w io.Writer) error { return showSchedule(w, &s) })
			})
		},
	}
	d.addTo(cmd)
	return cmd
}

// showSchedule prints all there is about a schedule.
func showSchedule(w io.Writer, s *action.Schedule) error {
	fields := [][2]string{
		{"id", s.ID},
		{"tenant", s.Tenant},
		{"slug", s.Slug},
		{"target", s.Target},
		{"rhythm", rhythmOf(&s.Plan)},
		{"status", string(s.Status)},
		{"reason", s.Reason},
		{"paused", localTime(s.PausedAt)},
		{"payload", string(s.Payload)},
		{"idempotent", yesNo(s.Idempotent)},
		{"overlap", string(s.Overlap)},
		{"catch-up", catchUpOf(&s.Plan)},
	}
	if s.Cron != "" {
		fields = append(fields, [2]string{"gap", s.Gap.String()}, [2]string{"fold", s.Fold.String()})
	}
	if s.Jitter > 0 {
		fields = append(fields, [2]string{"jitter", "up to " + readable(s.Jitter)})
	}
	runs := strconv.Itoa(s.Runs)
	if s.Count > 0 {
		runs += " of " + strconv.Itoa(s.Count)
	}
	fields = append(fields,
		[2]string{"from", localTime(s.From)},
		[2]string{"until", localTime(s.Until)},
		[2]string{"runs", runs},
		[2]string{"last", localTime(s.Last)},
		[2]string{"last action", s.Current},
		[2]string{"queued", localTime(s.Queued)},
		[2]string{"created", localTime(s.CreatedAt)},
		[2]string{"updated", localTime(s.UpdatedAt)},
	)
	if err := writeFields(w, fields); err != nil {
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
	return fmt.Sprintf("all of the last %s, at most %d", readable(p.Window), p.Cap)
}
