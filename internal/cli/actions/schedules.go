package actions

import (
	"context"
	"fmt"

	"github.com/abidehq/abide/internal/cli/connect"
	"github.com/abidehq/abide/internal/cli/console"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/server/api"
)

// NewSchedules returns the command abide schedules.
func NewSchedules() *cobra.Command {
	return console.Group(
		&cobra.Command{
			Use:     "schedules",
			Aliases: []string{"schedule"},
			Short:   "Run actions periodically",
			Long: `Schedules make actions again and again: by a cron expression in a time zone, or at a fixed
distance. The tick loop makes them when they are due: see 'abide orchestrate'.

` + connect.HomeHelp,
		},
		newSchedulesAdd(), newSchedulesList(), newSchedulesShow(), newSchedulesPreview(),
		newSchedulesPause(), newSchedulesResume(), newSchedulesTrigger(), newSchedulesBackfill(),
		newSchedulesUpdate(), newSchedulesRemove(),
	)
}

// scheduleID is what most of the commands take.
const scheduleID = "the ID of a schedule"

// scheduleVerb makes a command that does something to a schedule and prints it.
func scheduleVerb(cmd *cobra.Command, do func(ctx context.Context, actions connect.ActionsAPI, tenant, id string) (action.Schedule, error)) *cobra.Command {
	return connect.Verb(cmd, scheduleID, connect.Backend.Actions, do, func(cmd *cobra.Command, out *console.Output, s action.Schedule) error {
		printWarning(cmd, s.Warning)
		return scheduleRows.PrintOne(cmd, out, s)
	})
}

func newSchedulesPause() *cobra.Command {
	var why string
	cmd := scheduleVerb(&cobra.Command{
		Use:     "pause ID",
		Short:   "Pause a schedule",
		Example: `  abide schedules pause nightly --reason "the disk is being replaced"`,
	}, func(ctx context.Context, actions connect.ActionsAPI, tenant, id string) (action.Schedule, error) {
		return actions.Pause(ctx, tenant, id, why)
	})
	cmd.Flags().StringVar(&why, "reason", "", "why")
	return cmd
}

func newSchedulesResume() *cobra.Command {
	return scheduleVerb(&cobra.Command{
		Use:     "resume ID",
		Short:   "Resume a paused schedule",
		Long:    "Resume a paused schedule from now on. Runs that were due meanwhile are skipped; 'abide schedules\nbackfill' adds them.",
		Example: "  abide schedules resume nightly",
	}, func(ctx context.Context, actions connect.ActionsAPI, tenant, id string) (action.Schedule, error) {
		return actions.Resume(ctx, tenant, id)
	})
}

func newSchedulesTrigger() *cobra.Command {
	return actionVerb(&cobra.Command{
		Use:     "trigger ID",
		Short:   "Run a schedule now",
		Long:    "Add an action of a schedule now, even if others of it run. The schedule itself does not change.",
		Example: "  abide schedules trigger nightly",
	}, scheduleID, func(ctx context.Context, actions connect.ActionsAPI, tenant, id string) (action.Action, error) {
		return actions.Trigger(ctx, tenant, id)
	})
}

func newSchedulesRemove() *cobra.Command {
	var d connect.Home
	var sure console.Consent
	cmd := &cobra.Command{
		Use:     "remove ID",
		Short:   "Delete a schedule",
		Long:    "Remove a schedule. The actions that it has made stay.\n\n" + console.ConsentHelp,
		Example: "  abide schedules remove nightly --yes",
		Args:    console.OneArg(scheduleID),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := sure.Ask(cmd, fmt.Sprintf("Remove schedule %s of tenant %s?", args[0], d.Tenant)); err != nil {
				return err
			}
			return d.UseActions(cmd, false, func(ctx context.Context, actions connect.ActionsAPI) error {
				return actions.RemoveSchedule(ctx, d.Tenant, args[0])
			})
		},
	}
	sure.AddTo(cmd)
	d.AddTo(cmd)
	return cmd
}

// scheduleRows prints schedules.
var scheduleRows = console.Rows[action.Schedule, api.Schedule]{
	Noun:   "schedules",
	Titles: []string{"ID", "SLUG", "RHYTHM", "STATUS", "NEXT", "LAST", "RUNS"},
	Row: func(s *action.Schedule) []console.Cell {
		return console.Row(s.ID, s.Slug, rhythmOf(&s.Plan), console.StatusCell(s.Status), s.Next, s.Last, s.Runs)
	},
	Wire: func(s *action.Schedule) api.Schedule { return api.FromSchedule(*s) },
	Key:  func(s *action.Schedule) [2]string { return [2]string{s.Tenant, s.ID} },
	Page: func(all []api.Schedule, next string) any {
		return api.ScheduleList{Schedules: all, NextPageToken: next}
	},
}

// rhythmOf says in words when a plan has runs.
func rhythmOf(p *action.Plan) string {
	if p.Every != 0 {
		return "every " + console.Readable(p.Every)
	}
	zone := p.Zone
	if zone == "" {
		zone = "UTC"
	}
	return p.Cron + " " + zone
}
