package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/server/api"
)

func newSchedules() *cobra.Command {
	return group(
		&cobra.Command{
			Use:     "schedules",
			Aliases: []string{"schedule"},
			Short:   "Run actions periodically",
			Long: `Schedules make actions again and again: by a cron expression in a time zone, or at a fixed
distance. The tick loop makes them when they are due: see 'abide orchestrate'.

` + homeHelp,
		},
		newSchedulesAdd(), newSchedulesList(), newSchedulesShow(), newSchedulesPreview(),
		newSchedulesPause(), newSchedulesResume(), newSchedulesTrigger(), newSchedulesBackfill(),
		newSchedulesUpdate(), newSchedulesRemove(),
	)
}

// scheduleID is what most of the commands take.
const scheduleID = "the ID of a schedule"

// scheduleVerb makes a command that does something to a schedule and prints it. F may be
// given more flags.
func scheduleVerb(cmd *cobra.Command, f func(ctx context.Context, actions actionsAPI, tenant, id string) (action.Schedule, error)) *cobra.Command {
	var d home
	cmd.Args = oneArg(scheduleID)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return d.useActions(cmd, false, func(ctx context.Context, actions actionsAPI) error {
			s, err := f(ctx, actions, d.tenant, args[0])
			if err != nil {
				return err
			}
			return d.printSchedule(cmd, s)
		})
	}
	d.addTo(cmd)
	return cmd
}

func newSchedulesPause() *cobra.Command {
	var why string
	cmd := scheduleVerb(&cobra.Command{
		Use:     "pause ID",
		Short:   "Pause a schedule",
		Example: `  abide schedules pause nightly --reason "the disk is being replaced"`,
	}, func(ctx context.Context, actions actionsAPI, tenant, id string) (action.Schedule, error) {
		return actions.Pause(ctx, tenant, id, why)
	})
	cmd.Flags().StringVar(&why, "reason", "", "why")
	return cmd
}

func newSchedulesResume() *cobra.Command {
	return scheduleVerb(&cobra.Command{
		Use:     "resume ID",
		Short:   "Resume a paused schedule",
		Long:    "Have a paused schedule go on from now. What was due meanwhile is skipped; 'abide schedules\nbackfill' makes it.",
		Example: "  abide schedules resume nightly",
	}, func(ctx context.Context, actions actionsAPI, tenant, id string) (action.Schedule, error) {
		return actions.Resume(ctx, tenant, id)
	})
}

func newSchedulesTrigger() *cobra.Command {
	var d home
	cmd := &cobra.Command{
		Use:     "trigger ID",
		Short:   "Run a schedule now",
		Long:    "Make an action of a schedule now, whatever else of it runs. The schedule goes on as it would have.",
		Example: "  abide schedules trigger nightly",
		Args:    oneArg(scheduleID),
		RunE: func(cmd *cobra.Command, args []string) error {
			return d.useActions(cmd, false, func(ctx context.Context, actions actionsAPI) error {
				a, err := actions.Trigger(ctx, d.tenant, args[0])
				if err != nil {
					return err
				}
				return d.printAction(cmd, a)
			})
		},
	}
	d.addTo(cmd)
	return cmd
}

func newSchedulesRemove() *cobra.Command {
	var d home
	var sure consent
	cmd := &cobra.Command{
		Use:     "remove ID",
		Short:   "Delete a schedule",
		Long:    "Remove a schedule. The actions that it has made stay.\n\n" + consentHelp,
		Example: "  abide schedules remove nightly --yes",
		Args:    oneArg(scheduleID),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := sure.ask(cmd, fmt.Sprintf("Remove schedule %s of tenant %s?", args[0], d.tenant)); err != nil {
				return err
			}
			return d.useActions(cmd, false, func(ctx context.Context, actions actionsAPI) error {
				return actions.RemoveSchedule(ctx, d.tenant, args[0])
			})
		},
	}
	sure.addTo(cmd)
	d.addTo(cmd)
	return cmd
}

// printSchedule prints a schedule as it is in a list.
func (h *home) printSchedule(cmd *cobra.Command, s action.Schedule) error {
	return h.out.print(cmd.OutOrStdout(), api.FromSchedule(s), schedulesTable([]action.Schedule{s}))
}

// scheduleTitles are the columns of schedules.
var scheduleTitles = []string{"ID", "SLUG", "RHYTHM", "STATUS", "NEXT", "LAST", "RUNS"}

func scheduleRow(s *action.Schedule) []cell {
	return []cell{
		plain(s.ID), plain(s.Slug), plain(rhythmOf(&s.Plan)), statusCell(s.Status),
		plain(localTime(s.Next)), plain(localTime(s.Last)), plain(fmt.Sprint(s.Runs)),
	}
}

// schedulesTable returns what prints schedules as a table.
func schedulesTable(schedules []action.Schedule) func(io.Writer) error {
	return func(w io.Writer) error {
		if len(schedules) == 0 {
			return nil
		}
		t := newTable(w, scheduleTitles...)
		for i := range schedules {
			t.add(scheduleRow(&schedules[i])...)
		}
		return t.write(w)
	}
}

// rhythmOf says in words when a plan has runs.
func rhythmOf(p *action.Plan) string {
	if p.Every != 0 {
		return "every " + readable(p.Every)
	}
	zone := p.Zone
	if zone == "" {
		zone = "UTC"
	}
	return p.Cron + " " + zone
}
