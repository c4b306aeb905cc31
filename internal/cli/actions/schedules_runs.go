package actions

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/abidehq/abide/internal/cli/connect"
	"github.com/abidehq/abide/internal/cli/console"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/server/api"
)

// schedulesPreview is the verb: abide schedules preview.
type schedulesPreview struct {
	connect.Home
	rhythm rhythmFlags
	from   string
	n      int
}

func newSchedulesPreview() *cobra.Command {
	v := &schedulesPreview{}
	cmd := &cobra.Command{
		Use:   "preview [ID]",
		Short: "Show the next runs of a schedule, or of a cron expression",
		Long: `Show the next runs of a schedule, or of one that does not exist yet, in its zone. Where
clocks go forward or back between two runs, a line says so. Jitter is not counted.

` + planHelp,
		Example: `  abide schedules preview nightly
  abide schedules preview --cron "30 2 * * *" --zone Europe/Berlin -n 20
  abide schedules preview --cron "30 2 * * *" --zone Europe/Berlin --from 2027-03-26 --gap skip`,
		Args: cobra.ArbitraryArgs,
		RunE: v.run,
	}
	f := cmd.Flags()
	f.SortFlags = false
	v.rhythm.AddTo(cmd)
	f.StringVar(&v.from, "from", "now", "from which time on")
	f.IntVarP(&v.n, "number", "n", 10, "how many runs")
	v.AddTo(cmd)
	return cmd
}

func (v *schedulesPreview) run(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return console.Usage("%q takes one ID; got %q", cmd.CommandPath(), args)
	}
	if len(args) == 0 {
		return v.previewPlan(cmd)
	}
	for _, name := range []string{"cron", "every", "zone", "gap", "fold"} {
		if cmd.Flags().Changed(name) {
			return console.Usage("--%s is about a schedule that does not exist yet: give it, or an ID", name)
		}
	}
	return v.UseActions(cmd, false, func(ctx context.Context, actions connect.ActionsAPI) error {
		s, err := actions.GetSchedule(ctx, v.Tenant, args[0])
		if err != nil {
			return err
		}
		from, err := parseTimeIn(s.Zone, "from", v.from)
		if err != nil {
			return err
		}
		runs, err := previewSchedule(&s, from, v.n)
		if err != nil {
			return err
		}
		if s.Status == action.Paused {
			cmd.PrintErrf("schedule %s is paused: these are the runs that it would have\n", s.ID)
		}
		return v.printRuns(cmd, runs)
	})
}

// previewPlan previews what the flags say.
func (v *schedulesPreview) previewPlan(cmd *cobra.Command) error {
	if err := v.Out.Check(cmd); err != nil {
		return err
	}
	if !cmd.Flags().Changed("cron") && !cmd.Flags().Changed("every") {
		return console.Usage("%q needs %s, or --cron or --every", cmd.CommandPath(), scheduleID)
	}
	plan := action.Plan{Tenant: v.Tenant, ID: "preview", Slug: "preview", Target: CommandTarget}
	if err := v.rhythm.apply(cmd, &plan); err != nil {
		return err
	}
	from, err := parseTimeIn(plan.Zone, "from", v.from)
	if err != nil {
		return err
	}
	runs, err := action.Preview(plan, from, v.n)
	if err != nil {
		return err
	}
	return v.printRuns(cmd, runs)
}

func (v *schedulesPreview) printRuns(cmd *cobra.Command, runs []time.Time) error {
	list := api.Preview{Runs: append([]time.Time{}, runs...)}
	return v.Out.Print(cmd.OutOrStdout(), list, func(w io.Writer) error { return writeRuns(w, "", runs) })
}

// previewSchedule returns the next runs of a schedule.
func previewSchedule(s *action.Schedule, from time.Time, n int) ([]time.Time, error) {
	plan := s.Plan
	if plan.From.IsZero() && plan.Every != 0 {
		plan.From = s.CreatedAt // from which its runs are counted
	}
	if s.Count > 0 {
		plan.Count = s.Count - s.Runs // which is how many are left
	}
	if s.Status == action.Ended || (s.Count > 0 && plan.Count <= 0) {
		return nil, nil
	}
	return action.Preview(plan, from, n)
}

// writeRuns prints times, and where clocks change between them.
func writeRuns(w io.Writer, indent string, runs []time.Time) error {
	for i, at := range runs {
		if i > 0 {
			for _, change := range clockChanges(runs[i-1], at) {
				if _, err := fmt.Fprintf(w, "%s    %s\n", indent, change); err != nil {
					return err
				}
			}
		}
		if _, err := fmt.Fprintf(w, "%s%s\n", indent, at.Format("Mon 2006-01-02 15:04:05 -07:00 MST")); err != nil {
			return err
		}
	}
	return nil
}

// clockChanges says how clocks change after one time, up to another, in its zone.
func clockChanges(after, upTo time.Time) []string {
	var changes []string
	for {
		_, end := after.ZoneBounds()
		if end.IsZero() || end.After(upTo) {
			return changes
		}
		_, before := after.Zone()
		_, now := end.Zone()
		shown := end.In(time.FixedZone("", before)) // as the clock would have shown it
		by := time.Duration(now-before) * time.Second
		switch {
		case by > 0:
			changes = append(changes, fmt.Sprintf("clocks go forward by %s: %s becomes %s", console.Readable(by), shown.Format("2006-01-02 15:04"), end.Format("15:04")))
		case by < 0:
			changes = append(changes, fmt.Sprintf("clocks go back by %s: %s becomes %s", console.Readable(-by), shown.Format("2006-01-02 15:04"), end.Format("15:04")))
		}
		after = end
	}
}

func newSchedulesBackfill() *cobra.Command {
	var d connect.Home
	var period console.Period
	cmd := &cobra.Command{
		Use:   "backfill ID --from TIME --to TIME",
		Short: "Backfill the runs of a schedule for a range of time",
		Long: `Make the actions of a schedule whose runs are between two times, now and beside each
other; at most 1,000. It does not matter whether some of them were made before.

` + console.TimeHelp,
		Example: `  abide schedules backfill nightly --from 2026-11-01 --to 2026-11-08
  abide schedules backfill nightly --from -72h --to now`,
		Args: console.OneArg(scheduleID),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !period.Bounded() {
				return console.Usage("--from and --to are needed")
			}
			from, to, err := period.Parse()
			if err != nil {
				return err
			}
			return d.UseActions(cmd, false, func(ctx context.Context, actions connect.ActionsAPI) error {
				made, err := actions.Backfill(ctx, d.Tenant, args[0], from, to)
				if err != nil {
					return err
				}
				if len(made) > 0 {
					printWarning(cmd, made[0].Warning)
				}
				return d.Out.Print(cmd.OutOrStdout(), api.ActionList{Actions: actionRows.Wires(made)}, func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "%d actions were made, for the runs of schedule %s from %s to %s\n", len(made), args[0], console.LocalTime(from), console.LocalTime(to))
					return err
				})
			})
		},
	}
	period.AddTo(cmd, "the first run is not before that time", "the last run is before that time")
	d.AddTo(cmd)
	return cmd
}
