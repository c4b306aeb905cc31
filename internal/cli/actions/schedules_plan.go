package actions

import (
	"context"
	"time"

	"github.com/abidehq/abide/internal/cli/connect"
	"github.com/abidehq/abide/internal/cli/console"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/base"
)

// planFlags say what a schedule does. Only those count that are given, so that an update
// leaves the rest as it is.
type planFlags struct {
	plan        action.Plan
	rhythm      rhythmFlags
	overlap     string
	catchUp     string
	from, until string
	payload     string
}

// rhythmFlags say when there are runs.
type rhythmFlags struct {
	cron, zone, gap, fold string
	every                 time.Duration
}

func (r *rhythmFlags) AddTo(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&r.cron, "cron", "", `a cron expression of five fields, or six with the seconds first: "30 2 * * MON-FRI", "@daily"`)
	console.DurationVar(f, &r.every, "every", 0, "or a fixed distance: 90s, 15m, 2h30m, or a number of seconds")
	f.StringVar(&r.zone, "zone", "", "the time zone of the expression, such as Europe/Berlin (default UTC)")
	f.StringVar(&r.gap, "gap", "", "a run at a local time that does not exist, when clocks go forward: run-after or skip (default run-after)")
	f.StringVar(&r.fold, "fold", "", "a run at a local time that comes twice, when clocks go back: first, second or both (default first)")
}

// apply changes a plan as the flags say.
func (r *rhythmFlags) apply(cmd *cobra.Command, p *action.Plan) error {
	given := cmd.Flags().Changed
	if given("cron") && given("every") {
		return console.Usage("--cron and --every exclude each other")
	}
	if given("cron") {
		p.Cron, p.Every = r.cron, 0
	}
	if given("every") {
		p.Cron, p.Every = "", r.every
	}
	if given("zone") {
		p.Zone = r.zone
	}
	if given("gap") {
		if err := p.Gap.UnmarshalText([]byte(r.gap)); err != nil {
			return console.Usage("--gap is %q; run-after and skip are allowed", r.gap)
		}
	}
	if given("fold") {
		if err := p.Fold.UnmarshalText([]byte(r.fold)); err != nil {
			return console.Usage("--fold is %q; first, second and both are allowed", r.fold)
		}
	}
	return nil
}

func (p *planFlags) AddTo(cmd *cobra.Command) {
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&p.plan.Slug, "slug", "", "what the actions are for, such as the name of a service")
	p.rhythm.AddTo(cmd)
	f.StringVar(&p.overlap, "overlap", "", "a run that is due while the one before has not ended: skip, queue, allow or cancel (default skip)")
	f.StringVar(&p.catchUp, "catch-up", "", "runs that were due while no worker was running: none, one or all (default one)")
	console.DurationVar(f, &p.plan.Window, "window", 0, "how long ago runs may have been due to be caught up on, with --catch-up all (default 24h)")
	f.IntVar(&p.plan.Cap, "cap", 0, "how many runs are caught up on at most, with --catch-up all (default 100)")
	console.DurationVar(f, &p.plan.Jitter, "jitter", 0, "by how much runs may be late on purpose, each by another part of it")
	f.StringVar(&p.from, "from", "", "no run is before that time")
	f.StringVar(&p.until, "until", "", "all runs are before that time")
	f.IntVar(&p.plan.Count, "count", 0, "how many runs there are at most")
	f.StringVar(&p.payload, "payload", "", "JSON for the command's standard input; @FILE for that of a file, @- for standard input")
	f.StringVar(&p.plan.Target, "target", CommandTarget, "what does the actions: "+CommandTarget+" is the command of 'abide orchestrate'")
	f.BoolVar(&p.plan.Idempotent, "idempotent", false, "a run whose outcome is unknown may be repeated")
}

// apply changes a plan as the flags say.
func (p *planFlags) apply(cmd *cobra.Command, to *action.Plan) error {
	if err := p.rhythm.apply(cmd, to); err != nil {
		return err
	}
	from, err := parseTimeIn(to.Zone, "from", p.from)
	if err != nil {
		return err
	}
	until, err := parseTimeIn(to.Zone, "until", p.until)
	if err != nil {
		return err
	}
	payload, err := console.ReadPayload(cmd, p.payload)
	if err != nil {
		return err
	}
	for name, set := range map[string]func(){
		"slug":       func() { to.Slug = p.plan.Slug },
		"target":     func() { to.Target = p.plan.Target },
		"overlap":    func() { to.Overlap = action.Overlap(p.overlap) },
		"catch-up":   func() { to.CatchUp = action.CatchUp(p.catchUp) },
		"window":     func() { to.Window = p.plan.Window },
		"cap":        func() { to.Cap = p.plan.Cap },
		"jitter":     func() { to.Jitter = p.plan.Jitter },
		"from":       func() { to.From = from },
		"until":      func() { to.Until = until },
		"count":      func() { to.Count = p.plan.Count },
		"payload":    func() { to.Payload = payload },
		"idempotent": func() { to.Idempotent = p.plan.Idempotent },
	} {
		if cmd.Flags().Changed(name) {
			set()
		}
	}
	return nil
}

// parseTimeIn reads the time that a flag gives, in the zone of a schedule, or in the local one
// if that names none.
func parseTimeIn(zone, flag, text string) (time.Time, error) {
	location := time.Local
	if zone != "" {
		var err error
		if location, err = time.LoadLocation(zone); err != nil {
			return time.Time{}, console.Usage("--zone is %q, which is no time zone; names such as Europe/Berlin are allowed", zone)
		}
	}
	return console.ParseTime(flag, text, base.System{}.Now(), location)
}

// planHelp is what the help says about times of a plan.
const planHelp = console.TimeHelp + `
In a schedule with a zone, that is the local one.`

func newSchedulesAdd() *cobra.Command {
	var d connect.Home
	var p planFlags
	cmd := &cobra.Command{
		Use:   "add ID",
		Short: "Add a schedule",
		Long:  "Add a schedule, named by an ID of your own.\n\n" + planHelp,
		Example: `  abide schedules add nightly --slug billing --cron "30 2 * * *" --zone Europe/Berlin
  abide schedules add poll --slug inbox --every 15m --overlap queue --jitter 1m
  abide schedules add advent --slug mail --cron "0 9 * 12 *" --until 2026-12-25 --catch-up none
  abide schedules add close --slug books --cron "0 18 LW * *" --zone America/New_York --catch-up all --window 72h`,
		Args: console.OneArg("an ID for the schedule"),
		RunE: func(cmd *cobra.Command, args []string) error {
			plan := action.Plan{Tenant: d.Tenant, ID: args[0], Target: CommandTarget}
			if err := p.apply(cmd, &plan); err != nil {
				return err
			}
			return d.UseActions(cmd, true, func(ctx context.Context, actions connect.ActionsAPI) error {
				s, err := actions.AddSchedule(ctx, plan)
				if err != nil {
					return err
				}
				printWarning(cmd, s.Warning)
				return scheduleRows.PrintOne(cmd, &d.Out, s)
			})
		},
	}
	p.AddTo(cmd)
	d.AddTo(cmd)
	return cmd
}

func newSchedulesUpdate() *cobra.Command {
	var p planFlags
	var cmd *cobra.Command
	cmd = scheduleVerb(&cobra.Command{
		Use:   "update ID",
		Short: "Change a schedule",
		Long:  "Change what the flags say of a schedule, and leave the rest. What it has done stays as it is.\n\n" + planHelp,
		Example: `  abide schedules update nightly --cron "0 3 * * *"
  abide schedules update poll --every 5m --overlap skip`,
	}, func(ctx context.Context, actions connect.ActionsAPI, tenant, id string) (action.Schedule, error) {
		s, err := actions.GetSchedule(ctx, tenant, id)
		if err != nil {
			return action.Schedule{}, err
		}
		if err := p.apply(cmd, &s.Plan); err != nil {
			return action.Schedule{}, err
		}
		return actions.UpdateSchedule(ctx, s.Plan, s.Version)
	})
	p.AddTo(cmd)
	return cmd
}
